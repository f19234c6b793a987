//! One kind of work: the observations kept of it and the fits that learn from them.

use serde::Serialize;

use crate::adaptive::{Adaptive, AdaptiveDiagnostics};
use crate::config::CheckedFit;
use crate::forecast::{FLOOR_MS, Forecast, Reason, Source};
use crate::linear::{LinearFit, LinearModel, Rebuilds, Unready};
use crate::retention::{Freshness, Observation, Retention};
use crate::spline::{SplineDiagnostics, SplineFit};
use crate::workload::{FEATURES, WorkloadKind};

/// What one kind of work has taught.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    kind: WorkloadKind,
    retention: Retention,
    fit: Fit,
    accepted: u64,
}

/// What learns from the observations kept.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "the line is in use on every row")]
enum Fit {
    /// The line, and the spline that it gates.
    LeastSquares(LinearFit, Option<SplineFit>),
    /// Robust models, and the choice among them.
    Adaptive(Box<Adaptive>),
}

/// The state of one store, for people and monitoring.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoreDiagnostics {
    /// Kind of work.
    pub workload_kind: WorkloadKind,
    /// Whether it answers.
    pub ready: bool,
    /// Why it does not, or `stale` where it answers by an earlier line.
    pub reason: Option<Reason>,
    /// Observations learned since the start.
    pub accepted_observations: u64,
    /// Observations kept now.
    pub retained_observations: usize,
    /// Least and greatest kept value of each feature; `null` while empty.
    pub feature_range: Option<[[f64; 2]; FEATURES]>,
    /// The line that serves.
    pub linear: Option<LinearModel>,
    /// Rebuilds of the line's statistics.
    pub rebuilds: Rebuilds,
    /// The spline, where the store has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spline: Option<SplineDiagnostics>,
    /// The adaptive fit, where the store has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveDiagnostics>,
}

/// What was done to fits besides learning row by row, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Upkeep {
    /// Searches for knots.
    pub(crate) searches: u64,
    /// Refits of robust models.
    pub(crate) refits: u64,
    /// Rebuilds of statistics, because it was time or because their precision was used up.
    pub(crate) rebuilds: u64,
    /// Rebuilds because a fit was too close to call.
    pub(crate) fallbacks: u64,
}

impl Upkeep {
    /// Stable names, in the order of [`counts`](Self::counts).
    pub(crate) const NAMES: [&str; 4] = ["knot_search", "refit", "rebuild", "fallback"];

    pub(crate) fn counts(&self) -> [u64; 4] {
        [self.searches, self.refits, self.rebuilds, self.fallbacks]
    }

    /// Counts what was done to another store, too.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            searches: self.searches + other.searches,
            refits: self.refits + other.refits,
            rebuilds: self.rebuilds + other.rebuilds,
            fallbacks: self.fallbacks + other.fallbacks,
        }
    }
}

impl Store {
    /// An empty store that keeps at most `max_observations` over a grid of `bins_per_axis`.
    pub fn new(
        kind: WorkloadKind,
        bins_per_axis: [usize; FEATURES],
        max_observations: usize,
        freshness: Option<Freshness>,
        fit: &CheckedFit,
    ) -> Self {
        let retention = Retention::new(bins_per_axis, max_observations);
        let fit = match fit {
            CheckedFit::Linear(linear) => Fit::LeastSquares(LinearFit::new(*linear), None),
            CheckedFit::Spline(linear, spline) => {
                let (minimum, interval) = (linear.min_observations, linear.rebuild_interval);
                let spline = SplineFit::new(spline, max_observations, minimum, interval);
                Fit::LeastSquares(LinearFit::new(*linear), Some(spline))
            }
            CheckedFit::Adaptive(params) => {
                Fit::Adaptive(Box::new(Adaptive::new(*params, max_observations)))
            }
        };
        let retention = match freshness {
            Some(freshness) => retention.with_freshness(freshness),
            None => retention,
        };
        Self { kind, retention, fit, accepted: 0 }
    }

    /// The kind of work.
    pub fn kind(&self) -> WorkloadKind {
        self.kind
    }

    /// Observations learned since the start.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Observations kept now.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Learns one observation; `floor_ms` is as for [`forecast`](Self::forecast).
    pub fn observe(&mut self, observation: Observation, floor_ms: Option<f64>) {
        match &mut self.fit {
            Fit::LeastSquares(_, None) => {}
            Fit::LeastSquares(_, Some(spline)) => spline.monitor(&observation),
            Fit::Adaptive(adaptive) => adaptive.judge(&observation, &self.retention, floor_ms),
        }
        let evicted = self.retention.insert(observation);
        self.accepted = self.accepted.saturating_add(1);
        let retention = &self.retention;
        match &mut self.fit {
            Fit::LeastSquares(linear, spline) => {
                linear.update(&observation.row(), evicted.map(|row| row.row()).as_ref(), || {
                    retention.observations().map(Observation::row)
                });
                if let Some(spline) = spline {
                    let retained = || retention.observations();
                    spline.update(&observation, evicted.as_ref(), retained, retention.len());
                }
            }
            Fit::Adaptive(adaptive) => adaptive.update(retention),
        }
    }

    /// Forecasts an iteration with these features.
    ///
    /// The line decides whether there is an answer at all. Of least-squares fits, the spline gives
    /// it inside the box of retained loads, where it is ready; outside, the line does. An adaptive
    /// fit gives the best of its forecasts, and not less than `floor_ms`, what the work costs at
    /// the least, where that is known.
    pub fn forecast(&self, features: &[f64; FEATURES], floor_ms: Option<f64>) -> Forecast {
        let answered = if features.iter().all(|value| value.is_finite() && *value >= 0.0) {
            self.answer(features, floor_ms)
        } else {
            Err(Reason::InvalidQuery)
        };
        let kind = Some(self.kind);
        let forecast = Forecast { kind, ..Forecast::IDLE };
        match answered {
            Ok((ms, source, reason)) => {
                Forecast { ms: Some(ms), source: Some(source), reason, ..forecast }
            }
            Err(reason) => Forecast { ms: None, source: None, reason: Some(reason), ..forecast },
        }
    }

    /// Whether its fit knows intervals at all.
    pub(crate) fn has_intervals(&self) -> bool {
        matches!(self.fit, Fit::Adaptive(_))
    }

    /// The interval around a forecast that holds this share of latencies, where it is known.
    pub fn interval(&self, forecast_ms: f64, level: f64) -> Option<[f64; 2]> {
        match &self.fit {
            Fit::LeastSquares(..) => None,
            Fit::Adaptive(adaptive) => adaptive.interval(forecast_ms, level),
        }
    }

    fn answer(
        &self,
        features: &[f64; FEATURES],
        floor_ms: Option<f64>,
    ) -> Result<(f64, Source, Option<Reason>), Reason> {
        let (linear, spline) = match &self.fit {
            Fit::LeastSquares(linear, spline) => (linear, spline),
            Fit::Adaptive(adaptive) => {
                let served = adaptive.forecast(features, &self.retention, floor_ms)?;
                return Ok((served.ms, served.source, served.reason));
            }
        };
        let line = linear.model()?.value(features);
        if !line.is_finite() {
            return Err(Reason::Overflow);
        }
        let line = line.max(FLOOR_MS);
        if linear.is_stale() {
            return Ok((line, Source::Linear, Some(Reason::Stale)));
        }
        if !self.retention.covers(features) {
            return Ok((line, Source::Linear, Some(Reason::Extrapolating)));
        }
        let spline = spline.as_ref().and_then(|spline| spline.model());
        Ok(match spline.filter(|spline| spline.is_ready()).map(|spline| spline.value(features)) {
            Some(value) if value.is_finite() => (value.max(FLOOR_MS), Source::Spline, None),
            _ => (line, Source::Linear, None),
        })
    }

    /// The line, or why there is none, and whether it is of an earlier window.
    fn line(&self) -> (Result<&LinearModel, Unready>, bool) {
        match &self.fit {
            Fit::LeastSquares(linear, _) => (linear.model(), linear.is_stale()),
            Fit::Adaptive(adaptive) => (adaptive.line(), adaptive.is_stale()),
        }
    }

    /// What was done to its fit so far.
    pub(crate) fn upkeep(&self) -> Upkeep {
        match &self.fit {
            Fit::LeastSquares(linear, spline) => {
                let Rebuilds { scheduled, recovery, fallback } = linear.rebuilds();
                let spline = spline.as_ref().map_or([0; 3], SplineFit::upkeep);
                let [searches, rebuilds, fallbacks] = spline;
                Upkeep {
                    searches,
                    refits: 0,
                    rebuilds: scheduled + recovery + rebuilds - fallbacks,
                    fallbacks: fallback + fallbacks,
                }
            }
            Fit::Adaptive(adaptive) => {
                let [refits, searches] = adaptive.upkeep();
                Upkeep { searches, refits, ..Upkeep::default() }
            }
        }
    }

    /// The state of this store.
    pub fn diagnostics(&self) -> StoreDiagnostics {
        let (line, is_stale) = self.line();
        let (rebuilds, spline, adaptive) = match &self.fit {
            Fit::LeastSquares(linear, spline) => {
                (linear.rebuilds(), spline.as_ref().map(SplineFit::diagnostics), None)
            }
            Fit::Adaptive(adaptive) => (Rebuilds::default(), None, Some(adaptive.diagnostics())),
        };
        StoreDiagnostics {
            workload_kind: self.kind,
            ready: line.is_ok(),
            reason: match line {
                Err(unready) => Some(unready.into()),
                Ok(_) => is_stale.then_some(Reason::Stale),
            },
            accepted_observations: self.accepted,
            retained_observations: self.retention.len(),
            feature_range: (!self.retention.is_empty()).then(|| *self.retention.range()),
            linear: line.ok().copied(),
            rebuilds,
            spline,
            adaptive,
        }
    }
}
