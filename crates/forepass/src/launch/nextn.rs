//! The older spellings of a depth, of its acceptance and of its seed, brought into one.

use serde_json::{Map, Value};

use super::engine::DEFAULT_SEED;
use super::legacy;
use super::materialize::{RANK, says};
use crate::codes::{
    E_ACCEPT_INVALID, E_ACCEPT_MISSING, E_DEPTH_CONFLICT, E_ENGINE, E_LAUNCH_FIELD, E_ROLE,
};
use crate::error::{Error, Result};
use crate::speculation::{AcceptanceRates, MAX_REPLAY_DEPTH};
use crate::workload::WorkerType;

/// The spelling of a depth that leaves nothing of its acceptance to assume.
const NEXTN: &str = "nextn";

/// The spelling of a depth that an engine has.
pub(super) const AIC_NEXTN: &str = "aic_nextn";

/// Spellings of a depth, of its acceptance and of its seed that a speculation block replaces.
const DEPTHS: [&str; 3] = [AIC_NEXTN, "ais_nextn", NEXTN];
pub(super) const RATES: [&str; 2] = ["aic_nextn_accept_rates", "ais_nextn_accept_rates"];
const MEANS: [&str; 2] = ["aic_nextn_accepted", "nextn_accepted"];
pub(super) const SEEDS: [&str; 2] = ["aic_mtp_seed", "ais_mtp_seed"];

/// The engine options of one role with their speculation in one spelling.
///
/// A depth becomes `aic_nextn`, its acceptance `aic_nextn_accept_rates` with one rate for each
/// level, and a seed `aic_mtp_seed`; a depth of 0 or null goes, with all that belongs to it. A
/// `speculation` block stays as it is, and has none of these beside it. All other options are left
/// alone, and normal options stay the same.
///
/// # Errors
/// Spellings that contradict each other, acceptance or a seed other than 42 without a depth, a
/// depth or acceptance that is none, and another role.
pub fn normalize_speculation_engine_args(args: Value, role: WorkerType) -> Result<Value> {
    let Value::Object(mut args) = args else {
        return Err(Error::launch(E_LAUNCH_FIELD, "", "the options must be an object"));
    };
    match args.get_mut(RANK) {
        None => normalize(&mut args, role)?,
        Some(Value::Object(rank)) => {
            normalize(rank, role).map_err(|error| error.within(RANK))?;
        }
        Some(_) => return Err(Error::launch(E_LAUNCH_FIELD, RANK, "must be an object")),
    }
    Ok(args.into())
}

fn normalize(engine: &mut Map<String, Value>, role: WorkerType) -> Result<()> {
    if let Some(other) = engine.get("worker_type").filter(|other| !says(other, role.name())) {
        if !other.is_null() {
            let message = format!("{other}: the options are for {:?}", role.name());
            return Err(Error::launch(E_ROLE, "worker_type", message));
        }
    }
    if let Some(block) = engine.get("speculation").filter(|block| !block.is_null()) {
        let kind = block.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        return exclude(engine, &kind);
    }
    exclude_duplicates(engine)?;
    let depth = settle(engine)?;
    let [rates, seed] = [RATES[0], SEEDS[0]];
    for (older, name) in [(RATES[1], rates), (SEEDS[1], seed)] {
        if let Some(value) = engine.remove(older) {
            engine.insert(name.to_owned(), value);
        }
    }
    for name in [rates, seed] {
        if engine.get(name).is_some_and(Value::is_null) {
            engine.remove(name);
        }
    }
    let refuse = |name: &str, message: String| Err(Error::launch(E_ENGINE, name, message));
    let Some(depth) = depth else {
        if let Some(value) = engine.get(rates) {
            return refuse(rates, format!("{value}, but no tokens are drafted"));
        }
        return match engine.remove(seed) {
            Some(value) if value != DEFAULT_SEED => {
                refuse(seed, format!("{value}: must be {DEFAULT_SEED}, as no tokens are drafted"))
            }
            _ => Ok(()),
        };
    };
    let text = match engine.get(rates) {
        None => None,
        Some(Value::String(text)) => Some(text.as_str()),
        Some(other) => return refuse(rates, format!("{other}: must be rates, as in \"0.8,0.6\"")),
    };
    let accepted = AcceptanceRates::legacy(text, depth.levels)
        .map_err(|error| error.within(rates))?
        .to_string();
    engine.insert(rates.to_owned(), accepted.into());
    Ok(())
}

/// Refuses two spellings of one option.
pub(super) fn exclude_duplicates(engine: &Map<String, Value>) -> Result<()> {
    for (older, name) in legacy::RENAMED {
        if older != "engine_type" && engine.contains_key(older) && engine.contains_key(name) {
            let message = format!("given both as `{name}` and as `{older}`: give one");
            return Err(Error::launch(E_LAUNCH_FIELD, older, message));
        }
    }
    Ok(())
}

/// Refuses the older spellings beside a speculation block; `mtp` may have a depth of 0.
pub(super) fn exclude(engine: &mut Map<String, Value>, kind: &str) -> Result<()> {
    for (names, code) in [
        (&DEPTHS[..], E_DEPTH_CONFLICT),
        (&RATES, E_ACCEPT_INVALID),
        (&MEANS, E_ACCEPT_INVALID),
        (&SEEDS, E_LAUNCH_FIELD),
    ] {
        for name in names {
            let zero = code == E_DEPTH_CONFLICT && kind == "mtp";
            match engine.remove(*name) {
                None | Some(Value::Null) => {}
                Some(value) if zero && value == 0 => {}
                Some(value) => {
                    let message = format!("{value}, beside speculation: leave {name} out");
                    return Err(Error::launch(code, *name, message));
                }
            }
        }
    }
    Ok(())
}

/// A depth as it was authored.
pub(super) struct Depth {
    pub(super) name: &'static str,
    levels: u32,
}

impl Depth {
    fn read(name: &'static str, value: &Value) -> Result<Self> {
        let levels = value.as_u64().and_then(|levels| u32::try_from(levels).ok());
        let levels = levels.filter(|levels| (1..=MAX_REPLAY_DEPTH).contains(levels));
        levels.map(|levels| Self { name, levels }).ok_or_else(|| {
            let message = format!("{value}: must be an integer from 1 to {MAX_REPLAY_DEPTH}");
            Error::launch(E_ENGINE, name, message)
        })
    }
}

/// Brings the older spellings of a depth and its acceptance together; gives the depth.
pub(super) fn settle(engine: &mut Map<String, Value>) -> Result<Option<Depth>> {
    let mut depth: Option<(&'static str, Value)> = None;
    for name in DEPTHS {
        let Some(value) = engine.remove(name).filter(|value| !value.is_null()) else {
            continue;
        };
        match &depth {
            Some((other, before)) if *before != value => {
                let message = format!("{value}, but {other} is {before}: give one of them");
                return Err(Error::launch(E_DEPTH_CONFLICT, name, message));
            }
            _ => depth = Some((name, value)),
        }
    }
    let depth = depth.filter(|(_, value)| *value != 0);
    let depth = depth.map(|(name, value)| Depth::read(name, &value)).transpose()?;
    for name in RATES {
        if let Some(Value::Array(rates)) = engine.get(name) {
            let text: Vec<_> = rates.iter().map(Value::to_string).collect();
            engine.insert(name.to_owned(), text.join(",").into());
        }
    }
    for name in MEANS {
        let Some(value) = engine.remove(name).filter(|value| !value.is_null()) else {
            continue;
        };
        let rates =
            RATES.into_iter().find(|rates| engine.get(*rates).is_some_and(|v| !v.is_null()));
        if let Some(rates) = rates {
            let message = format!("{value}, beside {rates}: give one of them");
            return Err(Error::launch(E_ACCEPT_INVALID, name, message));
        }
        let Some(Depth { levels, .. }) = depth else {
            let message = format!("{value}, but no tokens are drafted");
            return Err(Error::launch(E_ENGINE, name, message));
        };
        let mean = value.as_f64().unwrap_or(f64::NAN);
        let rates = AcceptanceRates::from_mean_accepted(mean, levels)
            .map_err(|error| error.within(name))?;
        engine.insert(RATES[0].to_owned(), rates.to_string().into());
    }
    let accepted = RATES.iter().any(|name| engine.get(*name).is_some_and(|rates| !rates.is_null()));
    if depth.as_ref().is_some_and(|depth| depth.name == NEXTN) && !accepted {
        let message = format!("absent: {NEXTN} needs it, from 0 to {NEXTN}");
        return Err(Error::launch(E_ACCEPT_MISSING, "nextn_accepted", message));
    }
    engine.extend(depth.as_ref().map(|depth| (AIC_NEXTN.to_owned(), depth.levels.into())));
    Ok(depth)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normal(args: Value) -> Result<Value> {
        normalize_speculation_engine_args(args, WorkerType::Decode)
    }

    #[test]
    fn every_spelling_of_a_depth_becomes_one_that_stays() {
        for (args, expected) in [
            (json!({"nextn": 0}), json!({})),
            (json!({"aic_nextn": null, "aic_mtp_seed": 42, "tp": 2}), json!({"tp": 2})),
            (
                json!({"nextn": 3, "nextn_accepted": 1.5}),
                json!({"aic_nextn": 3, "aic_nextn_accept_rates": "1,0.5,0"}),
            ),
            // The rates that the older spelling assumes, cut to the depth.
            (
                json!({"ais_nextn": 2, "ais_mtp_seed": 7}),
                json!({"aic_nextn": 2, "aic_nextn_accept_rates": "0.85,0.3", "aic_mtp_seed": 7}),
            ),
            (
                json!({"aic_nextn": 1, "ais_nextn_accept_rates": [0.5]}),
                json!({"aic_nextn": 1, "aic_nextn_accept_rates": "0.5"}),
            ),
            (
                json!({"speculation": {"kind": "mtp"}, "nextn": 0}),
                json!({"speculation": {"kind": "mtp"}}),
            ),
            (json!({"rank": {"nextn": 0}, "dp_size": 1}), json!({"rank": {}, "dp_size": 1})),
        ] {
            let once = normal(args).unwrap();
            assert_eq!(once, expected);
            assert_eq!(normal(once).unwrap(), expected);
        }
    }

    #[test]
    fn what_has_no_depth_to_belong_to_is_refused_at_its_path() {
        for (args, code, path) in [
            (json!([]), E_LAUNCH_FIELD, ""),
            (json!({"rank": 3}), E_LAUNCH_FIELD, "rank"),
            (json!({"worker_type": "prefill"}), E_ROLE, "worker_type"),
            (json!({"aic_mtp_seed": 7}), E_ENGINE, "aic_mtp_seed"),
            (json!({"rank": {"nextn": 0, "ais_mtp_seed": 7}}), E_ENGINE, "rank.aic_mtp_seed"),
            (json!({"aic_nextn_accept_rates": "0.5"}), E_ENGINE, "aic_nextn_accept_rates"),
            (json!({"aic_nextn": 6}), E_ENGINE, "aic_nextn"),
            (json!({"ais_nextn": 6}), E_ENGINE, "ais_nextn"),
            (json!({"nextn": 6, "nextn_accepted": 2}), E_ENGINE, "nextn"),
            (json!({"nextn": true, "nextn_accepted": 1}), E_ENGINE, "nextn"),
            (json!({"aic_nextn": 3, "ais_nextn": 2}), E_LAUNCH_FIELD, "ais_nextn"),
            (json!({"aic_nextn": 3, "nextn": 2}), E_DEPTH_CONFLICT, "nextn"),
            (json!({"nextn": 3}), E_ACCEPT_MISSING, "nextn_accepted"),
            (json!({"nextn": 3, "nextn_accepted": 3.1}), E_ACCEPT_INVALID, "nextn_accepted"),
            (
                json!({"aic_nextn": 1, "aic_nextn_accept_rates": 0.5}),
                E_ENGINE,
                "aic_nextn_accept_rates",
            ),
            (json!({"speculation": {"kind": "ngram"}, "nextn": 0}), E_DEPTH_CONFLICT, "nextn"),
        ] {
            let error = normal(args.clone()).unwrap_err();
            assert_eq!((error.code(), error.path()), (code, path.to_owned()), "{args}");
        }
    }
}
