//! One kind of work: the observations kept of it and the fits that learn from them.

use serde::Serialize;

use crate::forecast::{FLOOR_MS, Forecast, Reason, Source};
use crate::linear::{LinearFit, LinearModel, LinearParams, Rebuilds};
use crate::retention::{Observation, Retention};
use crate::workload::{FEATURES, WorkloadKind};

/// What one kind of work has taught.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    kind: WorkloadKind,
    retention: Retention,
    linear: LinearFit,
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
    /// Why it does not.
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
}

impl Store {
    /// An empty store that keeps at most `max_observations` over a grid of `bins_per_axis`.
    pub fn new(
        kind: WorkloadKind,
        bins_per_axis: [usize; FEATURES],
        max_observations: usize,
        linear: LinearParams,
    ) -> Self {
        Self {
            kind,
            retention: Retention::new(bins_per_axis, max_observations),
            linear: LinearFit::new(linear),
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
        let evicted = self.retention.insert(observation);
        self.accepted = self.accepted.saturating_add(1);
        let retention = &self.retention;
        self.linear.update(
            &observation.row(),
            evicted.map(|row| row.row()).as_ref(),
            || retention.observations().map(Observation::row),
        );
    }

    /// Forecasts an iteration with these features.
    pub fn forecast(&self, features: &[f64; FEATURES]) -> Forecast {
        let abstain = |reason| Forecast {
            ms: None,
            source: None,
            kind: Some(self.kind),
            reason: Some(reason),
        };
        match self.linear.model() {
            Err(unready) => abstain(unready.into()),
            Ok(model) => {
                let value = model.value(features);
                if !value.is_finite() {
                    return abstain(Reason::Overflow);
                }
                let beyond = !self.retention.covers(features);
                Forecast {
                    ms: Some(value.max(FLOOR_MS)),
                    source: Some(Source::Linear),
                    kind: Some(self.kind),
                    reason: beyond.then_some(Reason::Extrapolating),
                }
            }
        }
    }

    /// The state of this store.
    pub fn diagnostics(&self) -> StoreDiagnostics {
        let model = self.linear.model();
        StoreDiagnostics {
            workload_kind: self.kind,
            ready: model.is_ok(),
            reason: model.err().map(Reason::from),
            accepted_observations: self.accepted,
            retained_observations: self.retention.len(),
            feature_range: (!self.retention.is_empty()).then(|| *self.retention.range()),
            linear: model.ok().copied(),
            rebuilds: self.linear.rebuilds(),
        }
    }
}
