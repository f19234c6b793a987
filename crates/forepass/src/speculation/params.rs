//! Reads the parameters of a scheme: strict integers, and nothing that it does not know.

use serde_json::Value;

use super::draft::{MAX_REPLAY_DEPTH, Source};
use crate::codes::{E_PARAM, E_RANGE};
use crate::config::SpeculationConfig;
use crate::error::{Error, Result};

/// A fault of a parameter or of a draft field.
pub(super) fn param(path: impl Into<String>, message: impl Into<String>) -> Error {
    Error::speculation(E_PARAM, path, message)
}

/// Refuses parameters that the scheme does not have.
pub(super) fn only(config: &SpeculationConfig, known: &[&str]) -> Result<()> {
    match config.params.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let kind = &config.kind;
            let right = match known {
                [] => "it takes none".to_owned(),
                known => format!("it takes {}", known.join(", ")),
            };
            Err(param(
                format!("params.{unknown}"),
                format!("{kind} has no such parameter: {right}"),
            ))
        }
    }
}

/// Refuses a draft model, for a scheme that has none.
pub(super) fn no_draft_model(config: &SpeculationConfig) -> Result<()> {
    let given = [
        ("draft_model_path", config.draft_model_path.is_some()),
        ("draft_config", config.draft_config.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => {
            Err(param(name, format!("{} has no draft model: leave {name} out", config.kind)))
        }
    }
}

/// Whether the configuration names a checkpoint of the draft model, which is not blank then.
pub(super) fn has_draft_path(config: &SpeculationConfig) -> Result<bool> {
    match config.draft_model_path.as_deref() {
        None => Ok(false),
        Some(path) if path.trim().is_empty() => {
            Err(param("draft_model_path", format!("{path:?}: must not be blank")))
        }
        Some(_) => Ok(true),
    }
}

/// A depth that is given under this name, if it is.
pub(super) fn depth(config: &SpeculationConfig, name: &str) -> Result<Option<(u32, Source)>> {
    let Some(value) = config.params.get(name) else {
        return Ok(None);
    };
    let path = format!("params.{name}");
    Ok(Some((depth_of(value, &path)?, Source::Path(path))))
}

/// The depth that must be given under this name.
pub(super) fn required_depth(config: &SpeculationConfig, name: &str) -> Result<(u32, Source)> {
    depth(config, name)?.ok_or_else(|| {
        param(format!("params.{name}"), format!("absent: {} requires it", config.kind))
    })
}

/// A value that is a depth; one that no verify width of 32 bits has is out of range.
fn depth_of(value: &Value, path: &str) -> Result<u32> {
    if !(value.is_u64() || value.is_i64()) {
        return Err(param(path, format!("{value}: must be a positive integer")));
    }
    match value.as_u64().and_then(|depth| u32::try_from(depth).ok()) {
        Some(depth) if (1..u32::MAX).contains(&depth) => Ok(depth),
        _ => Err(Error::speculation(
            E_RANGE,
            path,
            format!("depth {value} cannot be replayed: must be 1 to {MAX_REPLAY_DEPTH}"),
        )),
    }
}

/// A count of at least `least` under this name, if it is given.
pub(super) fn count(config: &SpeculationConfig, name: &str, least: u32) -> Result<Option<u32>> {
    let path = format!("params.{name}");
    config.params.get(name).map(|value| count_of(value, &path, least)).transpose()
}

/// A value that is a count of at least `least`.
pub(super) fn count_of(value: &Value, path: &str, least: u32) -> Result<u32> {
    value
        .as_u64()
        .and_then(|count| u32::try_from(count).ok())
        .filter(|count| *count >= least)
        .ok_or_else(|| {
            param(path, format!("{value}: must be an integer from {least} to {}", u32::MAX))
        })
}
