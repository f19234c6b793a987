//! The EAGLE family of SGLang: steps, branches and verified tokens.

use super::names::{ADAPTIVE, DRAFT, DRAFT_TOKENS, STEPS, TOPK};
use crate::codes::{E_KIND, E_PARAM, E_TREE};
use crate::error::Result;
use crate::launch::engines::options::{Options, wrong};
use crate::launch::engines::reading::{DEEPEST, Quantity, Reading};
use crate::launch::engines::{fault, tree};

/// Which scheme the algorithm means, and its draft.
pub(super) fn read(options: &mut Options, name: &str, reading: &mut Reading) -> Result<()> {
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
    let Some(kind) = kind else {
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
    };
    match (kind, &reading.draft) {
        ("mtp", Some(draft)) => {
            if !own_layers {
                options.warnings.push(format!(
                    "{}: NEXTN is taken to draft with layers of the target model, whatever holds \
                     them",
                    draft.source
                ));
            }
            reading.draft = None;
        }
        ("eagle3" | "draft_model", None) => reading.refuse(fault(
            E_PARAM,
            DRAFT,
            format!("absent: {name} ({kind}) needs the draft's checkpoint"),
        )),
        _ => {}
    }
    reading.lower(kind, "num_speculative_tokens");
    if reading.tree { branch(options, kind, reading) } else { Ok(()) }
}

/// Steps, branches and verified tokens, all given or all chosen by the engine.
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
                None => Quantity::given(Some(&topk))
                    .derived(pool.saturating_add(1), "all candidates + 1"),
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
fn branch(options: &mut Options, kind: &str, reading: &mut Reading) -> Result<()> {
    let Some(topk) = options.integer(TOPK)? else {
        return Ok(());
    };
    match reading.depth.value {
        Some(depth) if kind == "eagle3" && (1..=DEEPEST).contains(&depth) => {
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
