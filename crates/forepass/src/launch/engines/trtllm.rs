//! TensorRT-LLM: the `speculative_config` of its LLM API, told apart by `decoding_type`.

mod names;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(super) use names::DIALECT;
use names::{
    BATCH, CHOICES, CONCURRENCY, DYNAMIC_TREE, FORCED, LENGTH, MODEL, SCHEDULE, TOPK, TOTAL, TYPE,
};

use super::fault;
use super::options::{Options, Sourced, wrong};
use super::reading::{DEEPEST, Quantity, Reading};
use super::tree;
use crate::codes::{E_DEPTH_CONFLICT, E_KIND, E_PARAM};
use crate::error::Result;
use crate::speculation::AcceptanceRates;

/// Decoding types with a scheme: the engine's name, ours, and our parameter that holds the depth.
pub(super) const TYPES: [(&str, &str, &str); 8] = [
    ("MTP", "mtp", "num_speculative_tokens"),
    ("Eagle3", "eagle3", "num_speculative_tokens"),
    ("Eagle", "eagle3", "num_speculative_tokens"),
    ("NGram", "ngram", "num_speculative_tokens"),
    ("Draft_Target", "draft_model", "num_speculative_tokens"),
    ("DraftTarget", "draft_model", "num_speculative_tokens"),
    ("DFlash", "dflash", "num_draft_tokens"),
    ("DSpark", "dspark", "num_draft_tokens"),
];

pub(super) fn read(options: &mut Options) -> Result<Reading> {
    if options.fields().next().is_none() {
        return Ok(Reading::nothing("no speculative_config"));
    }
    let Some(method) = options.text(TYPE)? else {
        return Err(fault(
            E_KIND,
            TYPE,
            "absent: it tells what is drafted, such as MTP or Eagle3: set it".to_owned(),
        ));
    };
    let name = method.value.clone();
    let Some((_, kind, parameter)) = TYPES.iter().find(|(known, ..)| *known == name) else {
        return Ok(without_scheme(options, method));
    };
    let mut reading = Reading { kind: Some(kind), ..Reading::of(Some(method)) };
    let length = options.integer(LENGTH)?;
    reading = reading.chain(Quantity::given(length.as_ref()));
    trees(options, &name, kind)?;
    let levels = shape(options, &mut reading)?;
    if reading.depth.value.is_none() {
        let message = if *kind == "mtp" {
            "absent: TensorRT-LLM takes the number of MTP layers from the checkpoint (older \
             releases take 1), which is not read here: set it"
        } else {
            "absent: it is the draft's depth: set it"
        };
        reading.refuse(fault(E_PARAM, LENGTH, message.to_owned()));
    }
    schedule(options, &mut reading)?;
    if matches!(*kind, "eagle3" | "draft_model" | "dflash" | "dspark") {
        reading.draft = options.text(MODEL)?;
        if reading.draft.is_none() && matches!(*kind, "eagle3" | "draft_model") {
            let message = format!("absent: {name} needs the draft's checkpoint");
            reading.refuse(fault(E_PARAM, MODEL, message));
        }
    }
    reading.lower(kind, parameter);
    if reading.tree && *kind == "eagle3" {
        reading.branch(&levels);
    }
    reading.acceptance = forced(options, &reading);
    options.ignore_unread(&name);
    Ok(reading)
}

fn without_scheme(options: &mut Options, method: Sourced<String>) -> Reading {
    let name = method.value.as_str();
    let why = match name {
        "AUTO" => "leaves the choice to the engine".to_owned(),
        "User_Provided" => "drafts by a program of the user".to_owned(),
        "SaveState" => "does not speed up decoding".to_owned(),
        "Medusa" | "Lookahead" => "has no scheme here, and runs on TensorRT engines only".into(),
        "PARD" | "SA" => "has no scheme here".to_owned(),
        _ => match TYPES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)) {
            Some((meant, ..)) => format!("is written {meant:?}"),
            None => "is no decoding type that is known here".to_owned(),
        },
    };
    let names: Vec<_> = TYPES.iter().map(|(name, ..)| *name).collect();
    let refusal = fault(
        E_KIND,
        &method.source,
        format!("{name:?} {why}: depth can be resolved for {}", names.join(", ")),
    );
    let parallel = name == "PARD";
    let depth = Quantity::given(options.integer(LENGTH).ok().flatten().as_ref());
    let mut reading = Reading::of(Some(method)).chain(depth);
    if let (true, Some(depth)) = (parallel, reading.depth.value) {
        let source = format!("2 x {}", reading.depth.source);
        reading.width = reading.depth.derived(depth.saturating_mul(2), source);
    }
    reading.refuse(refusal);
    reading
}

/// Refuses the fields of a tree where the type has none.
fn trees(options: &mut Options, name: &str, kind: &str) -> Result<()> {
    for (field, mtp_too) in [(CHOICES, false), (DYNAMIC_TREE, true), (TOPK, true)] {
        let known = kind == "eagle3" || (mtp_too && kind == "mtp");
        if let Some(given) = options.json(field)?.filter(|_| !known) {
            let message = format!("{name} has no such field: leave it out");
            return Err(fault(E_PARAM, &given.source, message));
        }
    }
    Ok(())
}

/// Sets depth, width and whether it is a tree; gives the widths of the levels of a tree.
fn shape(options: &mut Options, reading: &mut Reading) -> Result<Vec<u64>> {
    let total = options.integer(TOTAL)?;
    let choices = options.json(CHOICES)?;
    let topk = options.integer(TOPK)?.filter(|topk| topk.value > 0);
    let dynamic = options.switch(DYNAMIC_TREE)?.filter(|dynamic| dynamic.value);
    let dynamic = topk.as_ref().map(|topk| &topk.source).or(dynamic.as_ref().map(|d| &d.source));
    if let Some(Sourced { value, source }) = choices {
        if let Some(dynamic) = dynamic {
            let message = format!("given beside {dynamic}: a tree is either static or dynamic");
            return Err(fault(E_PARAM, &source, message));
        }
        let levels = tree::levels(&value)
            .ok_or_else(|| wrong(&source, &value, "the path of each node, as in [[0], [0, 0]]"))?;
        reading.tree = levels.iter().any(|nodes| *nodes > 1);
        if reading.depth.value.is_some_and(|depth| depth != levels.len() as u64) {
            options.warnings.push(format!(
                "{}: the levels of {source}, {}, are the depth in its place",
                reading.depth.source,
                levels.len()
            ));
        }
        reading.depth =
            Quantity::new(levels.len() as u64, format!("levels of {source}")).of(&source);
        let nodes = levels.iter().sum::<u64>();
        reading.width = reading.depth.derived(nodes + 1, format!("nodes of {source} + 1"));
        return Ok(levels);
    }
    let Some(depth) = reading.depth.value else {
        return Ok(Vec::new());
    };
    let widest = match (dynamic, &topk) {
        (None, _) => depth,
        (Some(_), Some(topk)) => depth.saturating_mul(topk.value),
        (Some(_), None) => u64::MAX,
    };
    if let Some(total) = &total {
        if dynamic.is_some() && !(depth..=widest).contains(&total.value) {
            let bound = format!("from {depth} to {widest}, the depth to topK times it");
            return Err(wrong(&total.source, &total.value.into(), &bound));
        }
        reading.width = Quantity::given(Some(total)).plus_one();
    } else if dynamic.is_some() {
        reading.width = match &topk {
            Some(topk) => Quantity::given(Some(topk)).derived(
                widest.saturating_add(1),
                format!("{} x {} + 1", topk.source, reading.depth.source),
            ),
            None => Quantity::of_engine(),
        };
    }
    // The engine takes a draft for a chain where it has as many tokens as levels.
    reading.tree = dynamic.is_some() || total.is_some_and(|total| total.value != depth);
    Ok(match topk {
        Some(topk) if (1..=DEEPEST).contains(&depth) => tree::fan(topk.value, depth),
        _ => Vec::new(),
    })
}

/// What makes the engine draft less as more requests run.
fn schedule(options: &mut Options, reading: &mut Reading) -> Result<()> {
    let batch = options.integer(BATCH)?;
    let (concurrency, lengths) = (options.integer(CONCURRENCY)?, options.json(SCHEDULE)?);
    let covers = |most: u64| batch.as_ref().is_some_and(|batch| batch.value <= most);
    match (concurrency, lengths) {
        (None, None) => {}
        (Some(concurrency), Some(lengths)) => {
            let message = format!("given beside {}: give one of them", concurrency.source);
            return Err(fault(E_PARAM, &lengths.source, message));
        }
        (Some(Sourced { value, source }), None) => {
            if !covers(value) {
                reading.dynamic = Some(format!("{source}: 0 above {value} requests"));
                let message = format!(
                    "nothing is drafted above {value} requests: leave it out, or set \
                     max_batch_size to {value} or less"
                );
                reading.refuse(fault(E_PARAM, &source, message));
            }
        }
        (None, Some(Sourced { value, source })) => {
            let entries = value.as_object().filter(|entries| !entries.is_empty());
            let lengths = entries.and_then(|entries| {
                let entry = |(batch, length): (&String, &Value)| {
                    Some((batch.parse::<u64>().ok()?, length.as_u64()?))
                };
                entries.iter().map(entry).collect::<Option<std::collections::BTreeMap<_, _>>>()
            });
            let lengths = lengths
                .ok_or_else(|| wrong(&source, &value, "an object of batch size to draft length"))?;
            let first = lengths.values().next().copied();
            if let (Some(first), Some(depth)) = (first, reading.depth.value) {
                if first != depth {
                    reading.refuse(fault(
                        E_DEPTH_CONFLICT,
                        &source,
                        format!(
                            "begins with {first}, but {} is {depth}: they must be the same",
                            reading.depth.source
                        ),
                    ));
                }
            }
            let last = lengths.keys().next_back().copied().unwrap_or_default();
            if !covers(last) || lengths.values().any(|length| Some(*length) != first) {
                reading.dynamic = Some(format!("{source}: by batch size"));
                let message = format!(
                    "the depth changes with the batch size ({value}, and 0 above {last}): give \
                     one depth for all up to max_batch_size, or leave it out"
                );
                reading.refuse(fault(E_PARAM, &source, message));
            }
        }
    }
    Ok(())
}

/// The number of accepted drafts that the engine pretends.
fn forced(options: &mut Options, reading: &Reading) -> Result<Option<Sourced<AcceptanceRates>>> {
    let (Some(accepted), Some(depth)) = (options.real(FORCED)?, reading.rated_depth()) else {
        return Ok(None);
    };
    AcceptanceRates::from_mean_accepted(accepted.value, depth)
        .map(|value| Some(Sourced { value, source: accepted.source.clone() }))
        .map_err(|error| error.within(&accepted.source))
}
