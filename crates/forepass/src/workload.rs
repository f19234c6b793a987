//! From one iteration's ranks to what a forecast depends on: its kind of work and two features.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::metrics::ForwardPassMetrics;

/// Number of features of an iteration: attention and FFN.
pub const FEATURES: usize = 2;

/// Names of the two features, in order.
pub const FEATURE_NAMES: [&str; FEATURES] = ["attention", "ffn"];

/// Longest step, in seconds, that can be a duration and not a clock reading or a unit mistake.
pub const MAX_WALL_TIME_S: f64 = 3600.0;

/// What a worker serves; fixed for the life of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WorkerType {
    /// Prefill only: a scheduled decode request is an error.
    Prefill,
    /// Decode only: scheduled prefill tokens are an error.
    Decode,
    /// Any composition of the two.
    Aggregated,
}

/// What an iteration computed, which decides the store that learns from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkloadKind {
    /// Only decode, on any number of ranks.
    PureDecode,
    /// Prefill and decode, with at least one rank that did both.
    ContainsLocallyMixed,
    /// Prefill and decode, each rank doing only one of them.
    CrossRankAggregated,
    /// Only prefill, on any number of ranks.
    PurePrefill,
}

impl WorkloadKind {
    /// The stable name: `pure_decode`, `contains_locally_mixed`, ...
    pub fn name(self) -> &'static str {
        match self {
            Self::PureDecode => "pure_decode",
            Self::ContainsLocallyMixed => "contains_locally_mixed",
            Self::CrossRankAggregated => "cross_rank_aggregated",
            Self::PurePrefill => "pure_prefill",
        }
    }
}

impl FromStr for WorkerType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "prefill" => Ok(Self::Prefill),
            "decode" => Ok(Self::Decode),
            "aggregated" => Ok(Self::Aggregated),
            _ => Err(Error::config(
                "invalid_value",
                "worker_type",
                format!("no worker type `{name}`: use prefill, decode or aggregated"),
            )),
        }
    }
}

impl WorkerType {
    /// The stable name: `prefill`, `decode` or `aggregated`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Aggregated => "aggregated",
        }
    }

    /// The kinds of work such a worker can do, in the order in which its stores are listed.
    pub fn kinds(self) -> &'static [WorkloadKind] {
        match self {
            Self::Prefill => &[WorkloadKind::PurePrefill],
            Self::Decode => &[WorkloadKind::PureDecode],
            Self::Aggregated => &[
                WorkloadKind::PureDecode,
                WorkloadKind::ContainsLocallyMixed,
                WorkloadKind::CrossRankAggregated,
                WorkloadKind::PurePrefill,
            ],
        }
    }
}

/// Multipliers of the terms of the two features; each finite and positive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeatureWeights {
    /// Of the KV tokens that attention reads.
    pub attention_kv: f64,
    /// Of the query-key pairs that prefill computes.
    pub prefill_attention_pair: f64,
    /// Of the tokens that pass the feed-forward layers.
    pub ffn_token: f64,
}

impl Default for FeatureWeights {
    fn default() -> Self {
        Self { attention_kv: 1.0, prefill_attention_pair: 1.0, ffn_token: 1.0 }
    }
}

/// The counters of one rank that decide features, exact as f64 (each is at most 2^53).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct RankLoad {
    prefill_requests: f64,
    prefill_tokens: f64,
    prefill_kv_tokens: f64,
    decode_requests: f64,
    decode_kv_tokens: f64,
}

impl From<&ForwardPassMetrics> for RankLoad {
    fn from(metrics: &ForwardPassMetrics) -> Self {
        let scheduled = &metrics.scheduled_requests;
        Self {
            prefill_requests: scheduled.num_prefill_requests as f64,
            prefill_tokens: scheduled.sum_prefill_tokens as f64,
            prefill_kv_tokens: scheduled.sum_prefill_kv_tokens as f64,
            decode_requests: scheduled.num_decode_requests as f64,
            decode_kv_tokens: scheduled.sum_decode_kv_tokens as f64,
        }
    }
}

/// What a forecast of an iteration depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Kind of work.
    pub kind: WorkloadKind,
    /// Attention score of the busiest rank, and FFN tokens over all ranks; finite and nonnegative.
    pub features: [f64; FEATURES],
    /// What the features would be of its decode work alone.
    pub decode: [f64; FEATURES],
    /// What they would be of its prefill work alone.
    pub prefill: [f64; FEATURES],
}

impl Workload {
    /// Checks the ranks of one iteration and derives its workload; `None` when all are idle.
    ///
    /// # Errors
    /// An empty list, a malformed record, work that `worker_type` does not do, or a feature that
    /// overflows.
    pub fn of(
        ranks: &[ForwardPassMetrics],
        worker_type: WorkerType,
        weights: &FeatureWeights,
    ) -> Result<Option<Self>> {
        if ranks.is_empty() {
            return Err(Error::metrics(
                "empty_iteration",
                "",
                "an iteration needs the record of at least one rank",
            ));
        }
        for (index, metrics) in ranks.iter().enumerate() {
            metrics
                .check()
                .and_then(|()| check_role(&metrics.into(), worker_type))
                .map_err(|error| within_rank(error, index, ranks.len()))?;
        }
        let (mut any_prefill, mut any_decode, mut any_mixed) = (false, false, false);
        let (mut attention, mut tokens) = (0.0_f64, 0.0);
        let (mut decode_alone, mut prefill_alone) = ([0.0_f64; FEATURES], [0.0_f64; FEATURES]);
        for load in ranks.iter().map(RankLoad::from) {
            let (prefill, decode) = (load.prefill_tokens > 0.0, load.decode_requests > 0.0);
            any_prefill |= prefill;
            any_decode |= decode;
            any_mixed |= prefill && decode;
            let score = attention_score(&load, weights);
            // f64::max would drop a NaN (0 * inf).
            attention = if score.is_nan() { f64::INFINITY } else { attention.max(score) };
            tokens += load.prefill_tokens + load.decode_requests;
            decode_alone[0] = decode_alone[0].max(weights.attention_kv * load.decode_kv_tokens);
            decode_alone[1] += weights.ffn_token * load.decode_requests;
            let undecoded = RankLoad { decode_kv_tokens: 0.0, ..load };
            prefill_alone[0] = prefill_alone[0].max(attention_score(&undecoded, weights));
            prefill_alone[1] += weights.ffn_token * load.prefill_tokens;
        }
        let kind = match (any_prefill, any_decode) {
            (false, false) => return Ok(None),
            (false, true) => WorkloadKind::PureDecode,
            (true, false) => WorkloadKind::PurePrefill,
            (true, true) if any_mixed => WorkloadKind::ContainsLocallyMixed,
            (true, true) => WorkloadKind::CrossRankAggregated,
        };
        let features = [attention, weights.ffn_token * tokens];
        for (name, value) in FEATURE_NAMES.iter().zip(features) {
            if !value.is_finite() {
                return Err(Error::metrics(
                    "overflow",
                    "scheduled_requests",
                    format!("the {name} feature overflows: use smaller feature weights"),
                ));
            }
        }
        // Parts of features that are finite are finite.
        Ok(Some(Self { kind, features, decode: decode_alone, prefill: prefill_alone }))
    }
}

/// Whether a rank's work belongs to the worker's role.
fn check_role(load: &RankLoad, worker_type: WorkerType) -> Result<()> {
    let (field, count) = match worker_type {
        WorkerType::Prefill => ("num_decode_requests", load.decode_requests),
        WorkerType::Decode => ("sum_prefill_tokens", load.prefill_tokens),
        WorkerType::Aggregated => return Ok(()),
    };
    if count > 0.0 {
        let role = if worker_type == WorkerType::Prefill { "prefill" } else { "decode" };
        return Err(Error::metrics(
            "role_mismatch",
            format!("scheduled_requests.{field}"),
            format!("{count} on a {role} worker, where it must be 0"),
        ));
    }
    Ok(())
}

/// The attention score of one rank: KV tokens read, and query-key pairs of its prefills.
///
/// The pairs assume prefills of equal length: `H·P/N + P²/(2N) + P/2` for `P` fresh tokens on `H`
/// cached ones in `N` requests. Cached tokens of a rank that computes no prefill are not read.
/// One formula serves all roles: the loads that a role excludes are zero once it is checked.
fn attention_score(load: &RankLoad, weights: &FeatureWeights) -> f64 {
    let (kv_tokens, pairs) = if load.prefill_tokens > 0.0 {
        let (p, h, n) = (load.prefill_tokens, load.prefill_kv_tokens, load.prefill_requests);
        (h, h * p / n + p * p / (2.0 * n) + p / 2.0)
    } else {
        (0.0, 0.0)
    };
    weights.attention_kv * (kv_tokens + load.decode_kv_tokens)
        + weights.prefill_attention_pair * pairs
}

/// Why an observation of real work was not learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rejection {
    /// No rank reports a time above zero.
    NoPositiveTime,
    /// No rank reports a time above zero, and at least one is not finite.
    NonFiniteTime,
    /// The step would have lasted more than [`MAX_WALL_TIME_S`].
    ImplausibleDuration,
}

impl Rejection {
    /// All reasons, in the order in which they are counted.
    pub const ALL: [Self; 3] =
        [Self::NoPositiveTime, Self::NonFiniteTime, Self::ImplausibleDuration];

    /// The stable name: `no_positive_time`, ...
    pub fn name(self) -> &'static str {
        match self {
            Self::NoPositiveTime => "no_positive_time",
            Self::NonFiniteTime => "non_finite_time",
            Self::ImplausibleDuration => "implausible_duration",
        }
    }

    /// What is wrong with an iteration that is left out for the reason of this name, and what would
    /// be right.
    pub(crate) fn explain(reason: &'static str) -> String {
        let what = match reason {
            "no_positive_time" => "work, but no rank reports a time above zero",
            "non_finite_time" => "work, but no rank reports a time that is a number above zero",
            "implausible_duration" => {
                "more than an hour: wall_time is a duration in seconds, neither a clock nor \
                 milliseconds"
            }
            "no_worker_id" => "no worker_id, beside records that have one",
            _ => "not to be learned",
        };
        format!("{reason}: {what}")
    }
}

/// The latency of an iteration in milliseconds: that of its slowest rank, idle ranks included.
pub fn observed_ms(ranks: &[ForwardPassMetrics]) -> Result<f64, Rejection> {
    let mut slowest_s = 0.0_f64;
    let mut all_finite = true;
    for metrics in ranks {
        if metrics.wall_time.is_finite() {
            slowest_s = slowest_s.max(metrics.wall_time);
        } else {
            all_finite = false;
        }
    }
    if slowest_s > MAX_WALL_TIME_S {
        Err(Rejection::ImplausibleDuration)
    } else if slowest_s > 0.0 {
        Ok(slowest_s * 1000.0)
    } else if all_finite {
        Err(Rejection::NoPositiveTime)
    } else {
        Err(Rejection::NonFiniteTime)
    }
}

/// Names the rank at fault, where there is more than one.
fn within_rank(error: Error, index: usize, ranks: usize) -> Error {
    if ranks == 1 { error } else { error.within(&format!("[{index}]")) }
}
