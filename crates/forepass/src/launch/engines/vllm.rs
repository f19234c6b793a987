//! vLLM: `--speculative-config`, its shorthands, and the flags from before it.

mod names;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(super) use names::DIALECT;
use names::{
    DRAFT_TP, LENGTH, LOOKUP_MAX, LOOKUP_MIN, METHOD, MODEL, RATES, SAMPLE, SCHEDULE, SUFFIX_DEPTH,
    TARGET_TP, TOKENS, TREE,
};

use super::fault;
use super::options::{INERT, Options, Sourced, wrong};
use super::reading::{Quantity, Reading};
use super::tree;
use crate::codes::{E_ACCEPT_INVALID, E_DEPTH_CONFLICT, E_KIND, E_PARAM, E_TREE};
use crate::error::Result;
use crate::speculation::AcceptanceRates;

/// Methods with a scheme: vLLM's name, ours, and our parameter that holds the depth.
pub(super) const METHODS: [(&str, &str, &str); 7] = [
    ("mtp", "mtp", "num_speculative_tokens"),
    ("ngram", "ngram", "num_speculative_tokens"),
    ("ngram_gpu", "ngram", "num_speculative_tokens"),
    ("eagle3", "eagle3", "num_speculative_tokens"),
    ("draft_model", "draft_model", "num_speculative_tokens"),
    ("dflash", "dflash", "num_draft_tokens"),
    ("dspark", "dspark", "num_draft_tokens"),
];

pub(super) fn read(options: &mut Options) -> Result<Reading> {
    if options.fields().next().is_none() {
        return Ok(Reading::nothing("no speculative_config"));
    }
    let model = options.text(MODEL)?;
    let method = method(options, model.as_ref())?;
    let name = method.value.clone();
    let known = METHODS.iter().find(|(known, ..)| *known == name);
    let Some((_, kind, parameter)) = known.or_else(|| {
        // Each architecture once had a name of its own.
        METHODS.iter().find(|(known, ..)| *known == "mtp" && name.ends_with("_mtp"))
    }) else {
        return Ok(without_scheme(options, method));
    };
    let mut reading = Reading { kind: Some(kind), ..Reading::of(Some(method)) };
    let tokens = options.integer(TOKENS)?;
    reading = reading.chain(Quantity::given(tokens.as_ref()));
    schedule(options, &mut reading)?;
    let levels = token_tree(options, &mut reading)?;
    if reading.depth.value.is_none() {
        reading.refuse(fault(
            E_PARAM,
            TOKENS,
            "absent: vLLM takes it from the draft's checkpoint (n_predict), which is not read \
             here: set it"
                .to_owned(),
        ));
    }
    reading.draft = draft(options, kind, model, &mut reading)?;
    reading.lower(kind, parameter);
    parallelism(options, &mut reading)?;
    if *kind == "ngram" {
        lookup(options)?;
    }
    match levels {
        Some(levels) if *kind == "eagle3" => reading.branch(&levels),
        Some(_) => {
            let words = reading.words();
            reading.refuse(fault(
                E_TREE,
                TREE,
                format!("{words} branches: give a chain, or leave it out"),
            ));
        }
        None => {}
    }
    reading.acceptance = synthetic(options, &reading);
    options.ignore_unread(&name);
    Ok(reading)
}

fn method(options: &mut Options, model: Option<&Sourced<String>>) -> Result<Sourced<String>> {
    if let Some(method) = options.text(METHOD)? {
        return Ok(method);
    }
    match model {
        Some(model) if model.value == "ngram" || model.value == "[ngram]" => {
            Ok(Sourced { value: "ngram".to_owned(), source: model.source.clone() })
        }
        _ => Err(fault(
            E_KIND,
            METHOD,
            "absent: vLLM infers it from the draft's checkpoint, which is not read here: set it"
                .to_owned(),
        )),
    }
}

fn without_scheme(options: &mut Options, method: Sourced<String>) -> Reading {
    let name = method.value.as_str();
    let source = method.source.clone();
    let mut depth = Quantity::given(options.integer(TOKENS).ok().flatten().as_ref());
    let why = match name {
        "suffix" => {
            depth = match options.integer(SUFFIX_DEPTH) {
                Ok(Some(most)) => Quantity::new(most.value, format!("at most {}", most.source)),
                _ => Quantity::new(24, "at most the engine default"),
            };
            "drafts as many tokens as its data make likely".to_owned()
        }
        "extract_hidden_states" => "does not speed up decoding".to_owned(),
        "eagle" => {
            "has no scheme here: it is not eagle3, whose drafts are trained otherwise".into()
        }
        "medusa" | "mlp_speculator" | "custom_class" => "has no scheme here".to_owned(),
        _ => {
            let lower = name.to_lowercase();
            let meant = METHODS.iter().find(|(known, ..)| *known == lower);
            match meant {
                Some((meant, ..)) => format!("is written {meant:?}"),
                None => "is no method of vLLM that is known here".to_owned(),
            }
        }
    };
    let names: Vec<_> = METHODS.iter().map(|(name, ..)| *name).collect();
    let refusal = fault(
        E_KIND,
        &source,
        format!("{name:?} {why}: depth can be resolved for {}", names.join(", ")),
    );
    let mut reading = Reading::of(Some(method)).chain(depth);
    reading.refuse(refusal);
    reading
}

/// The draft's checkpoint, for the methods that have one.
fn draft(
    options: &mut Options,
    kind: &str,
    model: Option<Sourced<String>>,
    reading: &mut Reading,
) -> Result<Option<Sourced<String>>> {
    match kind {
        "ngram" => Ok(None),
        "mtp" => {
            let target = options.text("model")?;
            if let Some(model) = model.filter(|model| target.is_none_or(|t| t.value != model.value))
            {
                options.warnings.push(format!(
                    "{}: mtp is taken to draft with layers of the target model, whatever holds \
                     them",
                    model.source
                ));
            }
            Ok(None)
        }
        "dspark" => Ok(model),
        _ => {
            if model.is_none() {
                reading.refuse(fault(
                    E_PARAM,
                    MODEL,
                    format!("absent: {kind} needs the draft's checkpoint"),
                ));
            }
            Ok(model)
        }
    }
}

/// Depths by batch size, which must not differ.
fn schedule(options: &mut Options, reading: &mut Reading) -> Result<()> {
    let Some(Sourced { value, source }) = options.json(SCHEDULE)? else {
        return Ok(());
    };
    let ranges = value.as_array().and_then(|ranges| {
        let depth = |range: &Value| match range.as_array()?.as_slice() {
            [low, high, depth] if low.is_u64() && high.is_u64() => depth.as_u64(),
            _ => None,
        };
        ranges.iter().map(depth).collect::<Option<Vec<_>>>()
    });
    let depths = ranges.ok_or_else(|| {
        wrong(&source, &value, "a list of [from batch size, to batch size, tokens]")
    })?;
    let constant = depths.iter().chain(&reading.depth.value).min()
        == depths.iter().chain(&reading.depth.value).max();
    if !constant {
        reading.refuse(fault(
            E_PARAM,
            &source,
            format!("the depth changes with the batch size ({value}): give one depth for all"),
        ));
        reading.dynamic = Some(format!("{source}: by batch size"));
    } else if let (None, Some(depth)) = (reading.depth.value, depths.first()) {
        reading.depth = Quantity::new(*depth, &source).of(&source);
        reading.width = reading.depth.plus_one();
    }
    Ok(())
}

/// The levels of a tree that branches.
fn token_tree(options: &mut Options, reading: &mut Reading) -> Result<Option<Vec<u64>>> {
    let Some(Sourced { value, source }) = options.json(TREE)? else {
        return Ok(None);
    };
    let levels = tree::levels(&value)
        .ok_or_else(|| wrong(&source, &value, "the path of each node, as in \"[(0,), (0, 0)]\""))?;
    let nodes: u64 = levels.iter().sum();
    if let Some(tokens) = reading.depth.value.filter(|tokens| *tokens != nodes) {
        reading.refuse(fault(
            E_DEPTH_CONFLICT,
            &source,
            format!(
                "has {nodes} nodes, but {} is {tokens}, and is their number: give one of them",
                reading.depth.source
            ),
        ));
    }
    reading.depth = Quantity::new(levels.len() as u64, format!("levels of {source}")).of(&source);
    reading.width = reading.depth.derived(nodes + 1, format!("nodes of {source} + 1"));
    reading.tree = levels.iter().any(|nodes| *nodes > 1);
    Ok(reading.tree.then_some(levels))
}

fn parallelism(options: &mut Options, reading: &mut Reading) -> Result<()> {
    if let Some(given) = options.json(TARGET_TP)? {
        return Err(fault(
            E_PARAM,
            &given.source,
            "is no field of the draft: it is called draft_tensor_parallel_size".to_owned(),
        ));
    }
    let Some(draft) = options.integer(DRAFT_TP)? else {
        return Ok(());
    };
    let target = options.integer("tensor_parallel_size")?.map_or(1, |target| target.value);
    if draft.value != 1 && draft.value != target {
        return Err(wrong(
            &draft.source,
            &draft.value.into(),
            &format!("1 or the target's tensor_parallel_size, {target}"),
        ));
    }
    match reading.config.as_mut().filter(|config| config.kind == "draft_model") {
        Some(config) => {
            config.params.insert("draft_tp_size".to_owned(), draft.value.into());
            reading.origins.push(("params.draft_tp_size".to_owned(), draft.source));
        }
        None => options.ignore(&draft.source, INERT),
    }
    Ok(())
}

/// The lengths that are looked up change no depth, but they must make sense.
fn lookup(options: &mut Options) -> Result<()> {
    let (max, min) = (options.integer(LOOKUP_MAX)?, options.integer(LOOKUP_MIN)?);
    for bound in [&max, &min].into_iter().flatten() {
        if bound.value == 0 {
            return Err(wrong(&bound.source, &0.into(), "at least 1"));
        }
        options.ignore(&bound.source, INERT);
    }
    match (max, min) {
        (Some(max), Some(min)) if min.value > max.value => {
            let bound = format!("at most {}, {}", max.source, max.value);
            Err(wrong(&min.source, &min.value.into(), &bound))
        }
        _ => Ok(()),
    }
}

/// Acceptance that the engine pretends: unconditional rates, or the mean length of a step.
fn synthetic(options: &mut Options, reading: &Reading) -> Result<Option<Sourced<AcceptanceRates>>> {
    let sample = options.text(SAMPLE)?;
    let synthetic = match sample.as_ref().map(|sample| sample.value.as_str()) {
        None | Some("standard" | "block") => false,
        Some("synthetic") => true,
        Some(other) => {
            let source = sample.as_ref().map_or(SAMPLE, |sample| &sample.source);
            return Err(wrong(source, &other.into(), "standard, synthetic or block"));
        }
    };
    let (rates, length) = (options.json(RATES)?, options.real(LENGTH)?);
    let invalid =
        |source: &str, message: &str| Err(fault(E_ACCEPT_INVALID, source, message.to_owned()));
    if !synthetic {
        let unused = rates.as_ref().map(|rates| &rates.source);
        return match unused.or(length.as_ref().map(|length| &length.source)) {
            None => Ok(None),
            Some(unused) => invalid(unused, "needs rejection_sample_method \"synthetic\": set it"),
        };
    }
    let Some(depth) = reading.rated_depth() else {
        return Ok(None);
    };
    let (source, rates) = match (rates, length) {
        (None, None) => {
            return invalid(
                SAMPLE,
                "synthetic needs synthetic_acceptance_rates or synthetic_acceptance_length",
            );
        }
        (Some(rates), Some(length)) => {
            let both = format!("given beside {}, which says the same: give one", rates.source);
            return invalid(&length.source, &both);
        }
        (Some(Sourced { value, source }), None) => {
            let list = value
                .as_array()
                .and_then(|rates| rates.iter().map(Value::as_f64).collect::<Option<Vec<_>>>());
            let list = list.ok_or_else(|| wrong(&source, &value, "a list of rates"))?;
            let rates = AcceptanceRates::from_unconditional(&list);
            (source, rates.and_then(|rates| rates.exactly(depth)))
        }
        (None, Some(length)) => {
            (length.source, AcceptanceRates::from_mean_length(length.value, depth))
        }
    };
    rates
        .map(|value| Some(Sourced { value, source: source.clone() }))
        .map_err(|error| error.within(&source))
}
