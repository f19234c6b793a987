//! SGLang: `--speculative-algorithm` and the flags that go with each algorithm.

mod names;
#[cfg(test)]
mod tests;

pub(super) use names::DIALECT;
use names::{
    ADAPTIVE, ALGORITHM, BREADTH, DFLASH_BLOCK, DFLASH_TREE, DP_ATTENTION, DRAFT, DRAFT_TOKENS,
    DSPARK_BLOCK, PIPELINE, SIMULATED, STEPS, TOPK,
};

use super::fault;
use super::options::{Options, Sourced, wrong};
use super::reading::{Quantity, Reading};
use super::tree;
use crate::codes::{E_DEPTH_CONFLICT, E_KIND, E_PARAM, E_TREE};
use crate::error::Result;
use crate::speculation::AcceptanceRates;

/// How an algorithm is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Steps of a draft model, of which the best `topk` go on.
    Eagle,
    Ngram,
    /// A block that is denoised at once; its first position is there already.
    Dflash,
    /// A block that is drafted at once.
    Dspark,
}

/// Algorithms that can be translated.
pub(super) const ALGORITHMS: [(&str, Family); 7] = [
    ("NEXTN", Family::Eagle),
    ("EAGLE", Family::Eagle),
    ("EAGLE3", Family::Eagle),
    ("STANDALONE", Family::Eagle),
    ("NGRAM", Family::Ngram),
    ("DFLASH", Family::Dflash),
    ("DSPARK", Family::Dspark),
];

pub(super) fn read(options: &mut Options) -> Result<Reading> {
    let Some(algorithm) = options.text(ALGORITHM)? else {
        let idle: Vec<_> = options.fields().map(|(_, source)| source.to_owned()).collect();
        options.warnings.extend(
            idle.iter().map(|source| format!("{source}: no effect without speculative_algorithm")),
        );
        return Ok(Reading::nothing("no speculative_algorithm"));
    };
    let name = algorithm.value.to_uppercase();
    let mut reading = Reading::of(Some(algorithm.clone()));
    let Some((_, family)) = ALGORITHMS.iter().find(|(known, _)| *known == name) else {
        reading = reading.chain(Quantity::given(options.integer(STEPS).ok().flatten().as_ref()));
        let names: Vec<_> = ALGORITHMS.iter().map(|(name, _)| *name).collect();
        reading.refuse(fault(
            E_KIND,
            &algorithm.source,
            format!(
                "{:?} has no scheme here: depth can be resolved for {}",
                algorithm.value,
                names.join(", ")
            ),
        ));
        return Ok(reading);
    };
    reading.draft = options.text(DRAFT)?;
    match family {
        Family::Eagle => eagle(options, &name, &mut reading)?,
        Family::Ngram => ngram(options, &mut reading)?,
        Family::Dflash => dflash(options, &mut reading)?,
        Family::Dspark => dspark(options, &mut reading)?,
    }
    topology(options, &name, *family, &mut reading)?;
    reading.acceptance = simulated(options, &reading);
    Ok(reading)
}

/// The EAGLE family: steps, branches and verified tokens, all given or all chosen by the engine.
fn eagle(options: &mut Options, name: &str, reading: &mut Reading) -> Result<()> {
    let target = options.text("model")?;
    let own_layers = match &reading.draft {
        None => true,
        Some(draft) => target.is_some_and(|target| target.value == draft.value),
    };
    let kind = match name {
        "NEXTN" => Some("mtp"),
        "EAGLE" => own_layers.then_some("mtp"),
        "EAGLE3" => Some("eagle3"),
        _ => Some("draft_model"),
    };
    reading.kind = kind;
    triple(options, name, reading)?;
    if name == "EAGLE" && own_layers {
        options.warnings.push(format!(
            "{}: EAGLE without a draft of its own runs only on a model that carries MTP layers; \
             NEXTN says so plainly",
            reading.origin("kind")
        ));
    }
    if kind.is_none() {
        let refusal = fault(
            E_KIND,
            &reading.origin("kind"),
            format!(
                "{} has a draft of its own ({}), and EAGLE of the first two versions has no \
                 scheme here: EAGLE3 is the algorithm of an EAGLE-3 draft, NEXTN of MTP layers",
                reading.words(),
                reading.draft.as_ref().map_or("", |draft| &draft.value)
            ),
        );
        reading.refuse(refusal);
        return Ok(());
    }
    match (kind, &reading.draft) {
        (Some("mtp"), Some(draft)) => {
            if !own_layers {
                options.warnings.push(format!(
                    "{}: NEXTN is taken to draft with layers of the target model, whatever holds \
                     them",
                    draft.source
                ));
            }
            reading.draft = None;
        }
        (Some(kind @ ("eagle3" | "draft_model")), None) => reading.refuse(fault(
            E_PARAM,
            DRAFT,
            format!("absent: {name} ({kind}) needs the draft's checkpoint"),
        )),
        _ => {}
    }
    if let Some(kind) = kind {
        reading.lower(kind, "num_speculative_tokens");
        if reading.tree {
            branch(options, kind, reading)?;
        }
    }
    Ok(())
}

/// Steps, branches and verified tokens.
fn triple(options: &mut Options, name: &str, reading: &mut Reading) -> Result<()> {
    let (steps, topk) = (options.integer(STEPS)?, options.integer(TOPK)?);
    let tokens = options.integer(DRAFT_TOKENS)?;
    if let Some(adaptive) = options.switch(ADAPTIVE)?.filter(|adaptive| adaptive.value) {
        reading.dynamic = Some(format!("{}: by what is accepted", adaptive.source));
        reading.refuse(fault(
            E_PARAM,
            &adaptive.source,
            "the number of steps follows what is accepted: leave it out, and set \
             speculative_num_steps"
                .to_owned(),
        ));
    }
    let Some(steps) = steps else {
        if let Some(given) = topk.or(tokens) {
            reading.refuse(fault(
                E_PARAM,
                &given.source,
                "given without speculative_num_steps, and SGLang chooses all three or none: set it"
                    .to_owned(),
            ));
        } else if name == "STANDALONE" {
            reading.depth = Quantity::new(3, "engine default");
            reading.width = Quantity::new(4, "engine default");
        } else {
            reading.refuse(fault(
                E_PARAM,
                STEPS,
                "absent: SGLang chooses by the model's architecture (steps 5, topk 4, draft \
                 tokens 8 for Llama and Grok, else 3, 1, 4), which is not read here: set \
                 speculative_num_steps and speculative_eagle_topk"
                    .to_owned(),
            ));
        }
        return Ok(());
    };
    reading.depth = Quantity::given(Some(&steps));
    let Some(topk) = topk else {
        reading.width = Quantity::given(tokens.as_ref());
        reading.refuse(fault(
            E_PARAM,
            TOPK,
            format!("absent, while {} is {}: set it to 1 for a chain", steps.source, steps.value),
        ));
        return Ok(());
    };
    match topk.value {
        0 => return Err(wrong(&topk.source, &0.into(), "at least 1")),
        1 => {
            reading.width = reading.depth.plus_one();
            if let Some(tokens) = tokens.filter(|tokens| Some(tokens.value) != reading.width.value)
            {
                options.warnings.push(format!(
                    "{}: is {}, and SGLang sets it to {} + 1 for a chain: {}",
                    tokens.source,
                    tokens.value,
                    steps.source,
                    steps.value + 1
                ));
            }
        }
        _ => {
            reading.tree = true;
            let inner = topk.value.saturating_mul(topk.value);
            let pool =
                inner.saturating_mul(steps.value.saturating_sub(1)).saturating_add(topk.value);
            reading.width = match &tokens {
                Some(tokens) => Quantity::given(Some(tokens)),
                None => Quantity::new(pool.saturating_add(1), "all candidates + 1"),
            };
            if let Some(tokens) = tokens.filter(|tokens| tokens.value > pool.saturating_add(1)) {
                reading.refuse(fault(
                    E_PARAM,
                    &tokens.source,
                    format!(
                        "is {}, but {} steps of topk {} have {pool} candidates: at most {}",
                        tokens.value,
                        steps.value,
                        topk.value,
                        pool.saturating_add(1)
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Writes a tree of the EAGLE family out, or refuses what cannot be written.
fn branch(options: &Options, kind: &str, reading: &mut Reading) -> Result<()> {
    let Some(topk) = options.integer(TOPK)? else {
        return Ok(());
    };
    match reading.depth.value {
        Some(depth) if kind == "eagle3" && (1..=tree::DEEPEST).contains(&depth) => {
            reading.branch(&tree::fan(topk.value, depth));
        }
        _ if kind == "draft_model" => {} // not for this backend, tree or chain
        _ => {
            let words = reading.words();
            reading.refuse(fault(
                E_TREE,
                &topk.source,
                format!("{words} branches: set speculative_eagle_topk to 1"),
            ));
        }
    }
    Ok(())
}

/// Looked-up drafts: a tree of up to `breadth` branches, which is a chain at breadth 1.
fn ngram(options: &mut Options, reading: &mut Reading) -> Result<()> {
    unused(options, &[DRAFT, STEPS, TOPK], "NGRAM sets it itself")?;
    reading.draft = None;
    reading.kind = Some("ngram");
    let tokens = options.integer(DRAFT_TOKENS)?;
    let breadth = options.integer(BREADTH)?;
    let width = match &tokens {
        Some(tokens) => Quantity::given(Some(tokens)),
        None => Quantity::new(12, "engine default"),
    };
    let branches = breadth.as_ref().map_or(10, |breadth| breadth.value);
    let verified = width.value.unwrap_or_default();
    if branches == 0 || verified == 0 {
        let zero = if branches == 0 { breadth } else { tokens };
        let source = zero.map_or_else(String::new, |zero| zero.source);
        return Err(wrong(&source, &0.into(), "at least 1"));
    }
    reading.tree = branches > 1;
    reading.depth = if reading.tree {
        let source = breadth.map_or_else(|| "engine default, 10".to_owned(), |given| given.source);
        Quantity::new(verified / branches, format!("{} / breadth ({source})", width.source))
    } else {
        Quantity::new(verified - 1, format!("{} - 1", width.source))
    };
    reading.width = width;
    reading.lower("ngram", "num_speculative_tokens");
    Ok(())
}

fn dflash(options: &mut Options, reading: &mut Reading) -> Result<()> {
    unused(options, &[STEPS], "1 for DFLASH, and not its depth")?;
    unused(options, &[TOPK], "1 for DFLASH, and newer builds refuse it")?;
    reading.kind = Some("dflash");
    let block = agreed(options, DFLASH_BLOCK, DRAFT_TOKENS, 0, reading)?;
    let tree_width = options.integer(DFLASH_TREE)?.map_or(1, |width| width.value);
    if let Some(block) = block {
        if block.value < 2 {
            return Err(wrong(&block.source, &block.value.into(), "at least 2"));
        }
        let depth = block.value - 1;
        reading.depth = Quantity::new(depth, format!("{} - 1", block.source));
        reading.width = match tree_width {
            0 | 1 => Quantity::given(Some(&block)),
            width => Quantity::new(
                depth.saturating_mul(width).saturating_add(1),
                format!("1 + depth x {DFLASH_TREE}"),
            ),
        };
    }
    reading.tree = tree_width > 1;
    needs_draft(reading, "DFLASH");
    reading.lower("dflash", "num_draft_tokens");
    Ok(())
}

fn dspark(options: &mut Options, reading: &mut Reading) -> Result<()> {
    unused(options, &[STEPS, TOPK], "1 for DSPARK, and not its depth")?;
    reading.kind = Some("dspark");
    let gamma = options.integer(DSPARK_BLOCK)?;
    match agreed(options, DSPARK_BLOCK, DRAFT_TOKENS, 1, reading)? {
        Some(tokens) if gamma.is_none() && tokens.value < 2 => {
            return Err(wrong(&tokens.source, &tokens.value.into(), "at least 2"));
        }
        Some(tokens) if gamma.is_none() => {
            reading.depth = Quantity::new(tokens.value - 1, format!("{} - 1", tokens.source));
            reading.width = Quantity::given(Some(&tokens));
        }
        gamma => {
            reading.depth = Quantity::given(gamma.as_ref());
            reading.width = reading.depth.plus_one();
        }
    }
    reading.lower("dspark", "num_draft_tokens");
    if reading.depth.value.is_none() {
        reading.refuse(fault(
            E_PARAM,
            DSPARK_BLOCK,
            "absent: SGLang takes it from the draft's checkpoint, and is it not there, 7; the \
             checkpoint is not read here: set it"
                .to_owned(),
        ));
    }
    Ok(())
}

/// The block size, or the draft tokens where it is not given, which must be `more` than it.
fn agreed(
    options: &Options,
    block: &str,
    tokens: &str,
    more: u64,
    reading: &mut Reading,
) -> Result<Option<Sourced<u64>>> {
    let (block, tokens) = (options.integer(block)?, options.integer(tokens)?);
    if let (Some(block), Some(tokens)) = (&block, &tokens) {
        let expected = block.value + more;
        if tokens.value != expected {
            reading.refuse(fault(
                E_DEPTH_CONFLICT,
                &tokens.source,
                format!(
                    "is {}, but {} is {}, with which it must be {expected}: give one of them",
                    tokens.value, block.source, block.value
                ),
            ));
        }
    }
    Ok(block.or(tokens))
}

fn needs_draft(reading: &mut Reading, name: &str) {
    if reading.draft.is_none() {
        let message = format!("absent: {name} needs the draft's checkpoint");
        reading.refuse(fault(E_PARAM, DRAFT, message));
    }
}

/// Warns of options that the algorithm overrides.
fn unused(options: &mut Options, names: &[&str], why: &str) -> Result<()> {
    for name in names {
        if let Some(given) = options.json(name)? {
            options.warnings.push(format!("{}: {why}", given.source));
        }
    }
    Ok(())
}

/// Parallelism that the engine refuses for some algorithms.
fn topology(options: &Options, name: &str, family: Family, reading: &mut Reading) -> Result<()> {
    let attention = options.switch(DP_ATTENTION)?.filter(|attention| attention.value);
    if let Some(attention) = attention {
        if name == "STANDALONE" || matches!(family, Family::Ngram | Family::Dflash) {
            reading.refuse(fault(
                E_PARAM,
                &attention.source,
                format!("{name} does not run with data-parallel attention: leave one out"),
            ));
        }
    }
    let stages = options.integer(PIPELINE)?.filter(|stages| stages.value != 1);
    if let Some(stages) = stages {
        if matches!(family, Family::Dflash | Family::Dspark) {
            reading.refuse(fault(
                E_PARAM,
                &stages.source,
                format!("is {}: {name} runs with 1 pipeline stage", stages.value),
            ));
        }
    }
    Ok(())
}

/// The mean length that the engine pretends, which counts the token of the target model too.
fn simulated(options: &mut Options, reading: &Reading) -> Result<Option<Sourced<AcceptanceRates>>> {
    let Some(length) = options.real(SIMULATED)?.filter(|length| length.value != 0.0) else {
        return Ok(None);
    };
    let depth = reading.depth.value.and_then(|depth| u32::try_from(depth).ok());
    let Some(depth) = depth else {
        return Ok(None);
    };
    let clamped = length.value.clamp(1.0, f64::from(depth) + 1.0);
    if clamped != length.value {
        options.warnings.push(format!(
            "{}: is {}, and SGLang keeps it from 1 to the depth + 1: {clamped}",
            length.source, length.value
        ));
    }
    AcceptanceRates::from_mean_length(clamped, depth)
        .map(|value| Some(Sourced { value, source: length.source.clone() }))
        .map_err(|error| error.within(&length.source))
}
