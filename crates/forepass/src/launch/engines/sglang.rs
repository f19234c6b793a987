//! SGLang: `--speculative-algorithm` and the flags that go with each algorithm.

mod eagle;
mod names;
#[cfg(test)]
mod tests;

pub(super) use names::DIALECT;
use names::{
    ALGORITHM, BREADTH, DFLASH_BLOCK, DFLASH_TREE, DP_ATTENTION, DRAFT, DRAFT_TOKENS, DSPARK_BLOCK,
    PIPELINE, SIMULATED, STEPS, TOPK,
};

use super::fault;
use super::options::{Options, Sourced, wrong};
use super::reading::{Quantity, Reading};
use crate::codes::{E_DEPTH_CONFLICT, E_KIND, E_PARAM};
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
        let idle: Vec<_> = options.fields().map(str::to_owned).collect();
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
        Family::Eagle => eagle::read(options, &name, &mut reading)?,
        Family::Ngram => ngram(options, &mut reading)?,
        Family::Dflash => dflash(options, &mut reading)?,
        Family::Dspark => dspark(options, &mut reading)?,
    }
    topology(options, &name, *family, &mut reading)?;
    reading.acceptance = simulated(options, &reading);
    options.ignore_unread(&name);
    Ok(reading)
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
        width.derived(verified / branches, format!("{} / breadth ({source})", width.source))
    } else {
        width.derived(verified - 1, format!("{} - 1", width.source))
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
        let verified = Quantity::given(Some(&block));
        reading.depth = verified.derived(depth, format!("{} - 1", block.source));
        reading.width = match tree_width {
            0 | 1 => verified,
            width => verified.derived(
                depth.saturating_mul(width).saturating_add(1),
                format!("1 + depth x {DFLASH_TREE}"),
            ),
        };
    }
    reading.tree = tree_width > 1;
    needs_draft(reading, "DFLASH");
    chosen_by_checkpoint(reading, DFLASH_BLOCK, 16);
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
            let verified = Quantity::given(Some(&tokens));
            reading.depth = verified.derived(tokens.value - 1, format!("{} - 1", tokens.source));
            reading.width = verified;
        }
        gamma => {
            reading.depth = Quantity::given(gamma.as_ref());
            reading.width = reading.depth.plus_one();
        }
    }
    reading.lower("dspark", "num_draft_tokens");
    chosen_by_checkpoint(reading, DSPARK_BLOCK, 7);
    Ok(())
}

/// The block size, or the draft tokens where it is not given, which must be `more` than it.
fn agreed(
    options: &mut Options,
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

/// Refuses a block size that the engine takes from the checkpoint, or else by default.
fn chosen_by_checkpoint(reading: &mut Reading, option: &str, default: u64) {
    if reading.depth.value.is_none() {
        let message = format!(
            "absent: SGLang takes it from the draft's checkpoint, and is it not there, {default}; \
             the checkpoint is not read here: set it"
        );
        reading.refuse(fault(E_PARAM, option, message));
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
fn topology(
    options: &mut Options,
    name: &str,
    family: Family,
    reading: &mut Reading,
) -> Result<()> {
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
    let Some(depth) = reading.rated_depth() else {
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
