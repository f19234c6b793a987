//! The answer to "how long would this iteration take", or why there is none.

use serde::Serialize;

use crate::linear::Unready;
use crate::workload::WorkloadKind;

/// Shortest latency that is ever served, milliseconds.
pub const FLOOR_MS: f64 = 1e-6;

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// No rank has work: zero, whatever has been learned.
    Idle,
    /// The line of the iteration's store.
    Linear,
    /// The spline of the iteration's store, inside the box of retained loads.
    Spline,
    /// The robust line of an adaptive fit.
    RobustLinear,
    /// The robust spline of an adaptive fit.
    RobustSpline,
    /// The robust line, scaled to the level of the newest latencies.
    TrackedLinear,
    /// The robust spline, scaled to the level of the newest latencies.
    TrackedSpline,
    /// The decode or the prefill part of a mixed iteration alone, which costs more than the mixed
    /// store knew.
    PartFloor,
}

impl Source {
    /// The stable name: `idle`, `linear`, `spline`, `robust_linear`, ...
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Linear => "linear",
            Self::Spline => "spline",
            Self::RobustLinear => "robust_linear",
            Self::RobustSpline => "robust_spline",
            Self::TrackedLinear => "tracked_linear",
            Self::TrackedSpline => "tracked_spline",
            Self::PartFloor => "part_floor",
        }
    }
}

/// Why there is no answer, or what to know about the one there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// No answer: too few observations of this kind of work.
    Cold,
    /// No answer: no feature has varied, so nothing is known about the price of load.
    ConstantLoad,
    /// No answer: latency does not rise with load.
    NoLoadSignal,
    /// No answer: the statistics admit no solution.
    Unsolvable,
    /// No answer: the forecast is not a finite number.
    Overflow,
    /// No answer: the features are not finite, or negative.
    InvalidQuery,
    /// Answered by an earlier line: in the rows kept now, latency does not rise with load.
    Stale,
    /// Answered, by following the line beyond the loads it was fitted to.
    Extrapolating,
}

impl Reason {
    /// The stable name: `cold`, `no_load_signal`, ...
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::ConstantLoad => "constant_load",
            Self::NoLoadSignal => "no_load_signal",
            Self::Unsolvable => "unsolvable",
            Self::Overflow => "overflow",
            Self::InvalidQuery => "invalid_query",
            Self::Stale => "stale",
            Self::Extrapolating => "extrapolating",
        }
    }
}

impl From<Unready> for Reason {
    fn from(unready: Unready) -> Self {
        match unready {
            Unready::Cold => Self::Cold,
            Unready::ConstantLoad => Self::ConstantLoad,
            Unready::NoLoadSignal => Self::NoLoadSignal,
            Unready::Unsolvable => Self::Unsolvable,
        }
    }
}

/// A forecast, or an honest "not known".
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Forecast {
    /// Latency in milliseconds; `None` where it is not known.
    pub ms: Option<f64>,
    /// What answered; `None` where nothing did.
    pub source: Option<Source>,
    /// Kind of work; `None` for an idle iteration.
    pub kind: Option<WorkloadKind>,
    /// Why there is no answer, or a caution about the one there is.
    pub reason: Option<Reason>,
    /// Least and greatest latency of the interval that was asked for, in milliseconds; `None`
    /// where none was, or where there are not errors enough to tell.
    pub interval_ms: Option<[f64; 2]>,
}

impl Forecast {
    /// The forecast of an iteration without work.
    pub(crate) const IDLE: Self = Self {
        ms: Some(0.0),
        source: Some(Source::Idle),
        kind: None,
        reason: None,
        interval_ms: None,
    };

    /// Name of the kind of work, `idle` where there is none.
    pub fn kind_name(&self) -> &'static str {
        self.kind.map_or("idle", WorkloadKind::name)
    }
}
