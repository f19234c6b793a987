//! What a replay found, in the shape of the `forepass.replay.v1` document.

use std::collections::BTreeMap;

use serde::Serialize;

use super::score::Stats;
use super::timeline::Timeline;

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
    /// Name of the protocol, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'static str>,
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// How each fit did.
    pub results: Vec<Result>,
    /// The course of the replay, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

/// One trace that was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InputReport {
    /// The trace as the caller named it.
    pub path: String,
    /// The files in which it stands, in the order in which they were read.
    pub files: Vec<String>,
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
    /// What the gym protocol adds, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gym: Option<GymScore>,
    /// Time to predict and learn one row, microseconds; the one part that differs between runs.
    pub cpu_us_per_row: Option<f64>,
}

/// How one fit did by the protocol of the FPM Gym, in which each input is a case of equal weight.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GymScore {
    /// Cases with an answer.
    pub cases: u64,
    /// Mean over the cases of the mean absolute percentage error over all answered rows.
    pub macro_full_mape_pct: Option<f64>,
    /// The same over the last 30 % of the rows of each worker and kind of work.
    pub macro_suffix_mape_pct: Option<f64>,
    /// Mean over the cases of the share of answered rows, percent.
    pub macro_coverage_pct: Option<f64>,
    /// Each case over the last 30 % of the rows of each worker and kind of work.
    pub suffix_by_input: BTreeMap<String, Stats>,
}
