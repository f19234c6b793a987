//! What a replay found, in the shape of the `forepass.replay.v1` document.

use std::collections::BTreeMap;

use serde::Serialize;

use super::score::Stats;

/// The outcome of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Name and version of this shape.
    pub schema: &'static str,
    /// Version of the crate that computed it.
    pub forepass_version: &'static str,
    /// Observations that a store must have learned before its rows count.
    pub warmup: u64,
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// How each fit did.
    pub results: Vec<Result>,
}

/// One trace that was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InputReport {
    /// The file as the caller named it.
    pub path: String,
    /// Stable name of its format; `null` where it breaks off before that can be told.
    pub format: Option<&'static str>,
    /// Records in the file.
    pub rows: u64,
    /// Records that were read as iterations.
    pub iterations: u64,
    /// Records that no fit was scored on, by reason; with the scored ones they add up to `rows`.
    pub skipped: BTreeMap<&'static str, u64>,
    /// The first faults found, each with its place.
    pub faults: Vec<String>,
    /// What to know about the reading.
    pub warnings: Vec<String>,
}

/// How one fit did over all inputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Result {
    /// Name of the fit.
    pub fit: String,
    /// Its configuration in canonical form.
    pub config: serde_json::Value,
    /// Over all rows.
    pub overall: Stats,
    /// By kind of work.
    pub by_kind: BTreeMap<&'static str, Stats>,
    /// By input.
    pub by_input: BTreeMap<String, Stats>,
    /// By input and worker, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_worker: Option<BTreeMap<String, BTreeMap<String, Stats>>>,
    /// Time to predict and learn one row, microseconds; the one part that differs between runs.
    pub cpu_us_per_row: Option<f64>,
}
