//! One kind of work: the observations kept of it and the fits that learn from them.

use serde::Serialize;

use crate::config::CheckedFit;
use crate::forecast::{FLOOR_MS, Forecast, Reason, Source};
use crate::linear::{LinearFit, LinearModel, Rebuilds};
use crate::retention::{Observation, Retention};
use crate::spline::{SplineDiagnostics, SplineFit};
use crate::workload::{FEATURES, WorkloadKind};

/// What one kind of work has taught.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    kind: WorkloadKind,
    retention: Retention,
    linear: LinearFit,
    spline: Option<SplineFit>,
    accepted: u64,
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
}

impl Store {
    /// An empty store that keeps at most `max_observations` over a grid of `bins_per_axis`.
    pub fn new(
        kind: WorkloadKind,
        bins_per_axis: [usize; FEATURES],
        max_observations: usize,
        fit: &CheckedFit,
    ) -> Self {
        let (linear, spline) = match fit {
            CheckedFit::Linear(linear) => (linear, None),
            CheckedFit::Spline(linear, spline) => {
                let (minimum, interval) = (linear.min_observations, linear.rebuild_interval);
                let spline = SplineFit::new(spline, max_observations, minimum, interval);
                (linear, Some(spline))
            }
        };
        Self {
            kind,
            retention: Retention::new(bins_per_axis, max_observations),
            linear: LinearFit::new(*linear),
            spline,
            accepted: 0,
        }
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

    /// Learns one observation.
    pub fn observe(&mut self, observation: Observation) {
        if let Some(spline) = &mut self.spline {
            spline.monitor(&observation);
        }
        let evicted = self.retention.insert(observation);
        self.accepted = self.accepted.saturating_add(1);
        let retention = &self.retention;
        self.linear.update(&observation.row(), evicted.map(|row| row.row()).as_ref(), || {
            retention.observations().map(Observation::row)
        });
        if let Some(spline) = &mut self.spline {
            let retained = || retention.observations();
            spline.update(&observation, evicted.as_ref(), retained, retention.len());
        }
    }

    /// Forecasts an iteration with these features.
    ///
    /// The line decides whether there is an answer at all. Inside the box of retained loads the
    /// spline gives it, where it is ready; outside, the line does.
    pub fn forecast(&self, features: &[f64; FEATURES]) -> Forecast {
        let kind = Some(self.kind);
        let abstain = |reason| Forecast { ms: None, source: None, kind, reason: Some(reason) };
        if !features.iter().all(|value| value.is_finite() && *value >= 0.0) {
            return abstain(Reason::InvalidQuery);
        }
        let line = match self.linear.model() {
            Ok(model) => model.value(features),
            Err(unready) => return abstain(unready.into()),
        };
        if !line.is_finite() {
            return abstain(Reason::Overflow);
        }
        let answer = |value: f64, source, reason| Forecast {
            ms: Some(value.max(FLOOR_MS)),
            source: Some(source),
            kind,
            reason,
        };
        if self.linear.is_stale() {
            return answer(line, Source::Linear, Some(Reason::Stale));
        }
        if !self.retention.covers(features) {
            return answer(line, Source::Linear, Some(Reason::Extrapolating));
        }
        let spline = self.spline.as_ref().and_then(SplineFit::model);
        match spline.filter(|spline| spline.is_ready()).map(|spline| spline.value(features)) {
            Some(value) if value.is_finite() => answer(value, Source::Spline, None),
            _ => answer(line, Source::Linear, None),
        }
    }

    /// The state of this store.
    pub fn diagnostics(&self) -> StoreDiagnostics {
        let model = self.linear.model();
        StoreDiagnostics {
            workload_kind: self.kind,
            ready: model.is_ok(),
            reason: match model {
                Err(unready) => Some(unready.into()),
                Ok(_) => self.linear.is_stale().then_some(Reason::Stale),
            },
            accepted_observations: self.accepted,
            retained_observations: self.retention.len(),
            feature_range: (!self.retention.is_empty()).then(|| *self.retention.range()),
            linear: model.ok().copied(),
            rebuilds: self.linear.rebuilds(),
            spline: self.spline.as_ref().map(SplineFit::diagnostics),
        }
    }
}
