//! What answers and learns in a replay, one for each worker and contender.

use std::collections::BTreeMap;

use super::baseline::RecentLatencies;
use super::score::{INTERVALS, Intervals};
use crate::forecast::{Forecast, Reason, Source};
use crate::metrics::ForwardPassMetrics;
use crate::model::ForwardPassModel;
use crate::store::{StoreDiagnostics, Upkeep};
use crate::workload::{FEATURES, WorkloadKind};

/// A model, or a baseline.
pub(super) enum Learner {
    Model(Box<ForwardPassModel>),
    Recent(RecentLatencies),
}

/// A contender's word on one iteration.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) ms: Option<f64>,
    pub(super) source: &'static str,
    pub(super) reason: &'static str,
    pub(super) intervals: Option<Intervals>,
}

impl Learner {
    /// Predicts, and only then learns.
    pub(super) fn step(
        &mut self,
        ranks: &[ForwardPassMetrics],
        kind: WorkloadKind,
        observed_ms: f64,
    ) -> Answer {
        match self {
            Self::Model(model) => match model.workload(ranks) {
                Ok(workload) => {
                    let forecast = model.forecast_workload(workload.as_ref());
                    let intervals = intervals(model, &forecast);
                    model.learn(workload, Ok(observed_ms));
                    Answer {
                        ms: forecast.ms,
                        source: forecast.source.map_or("", Source::name),
                        reason: forecast.reason.map_or("", Reason::name),
                        intervals,
                    }
                }
                Err(error) => {
                    Answer { ms: None, source: "", reason: error.code(), intervals: None }
                }
            },
            Self::Recent(recent) => {
                let ms = recent.median(kind);
                recent.learn(kind, observed_ms);
                let (source, reason) = if ms.is_some() { ("baseline", "") } else { ("", "cold") };
                Answer { ms, source, reason, intervals: None }
            }
        }
    }

    /// What was done to it so far.
    pub(super) fn upkeep(&self) -> Upkeep {
        match self {
            Self::Model(model) => model.upkeep(),
            Self::Recent(_) => Upkeep::default(),
        }
    }

    /// The knots of its splines on each axis, by kind of work.
    pub(super) fn knots(&self) -> BTreeMap<&'static str, [Vec<f64>; FEATURES]> {
        let Self::Model(model) = self else { return BTreeMap::new() };
        let knots = |store: StoreDiagnostics| {
            let spline = store.spline.and_then(|spline| spline.knots);
            let knots = spline.or_else(|| store.adaptive.and_then(|fit| fit.knots));
            knots.map(|knots| (store.workload_kind.name(), knots))
        };
        model.diagnostics().stores.into_iter().filter_map(knots).collect()
    }
}

/// The intervals around a forecast; `None` of a fit that knows none at all.
fn intervals(model: &ForwardPassModel, forecast: &Forecast) -> Option<Intervals> {
    let store = model.store(forecast.kind?).filter(|store| store.has_intervals())?;
    Some(INTERVALS.map(|(_, level)| store.interval(forecast.ms?, level)))
}
