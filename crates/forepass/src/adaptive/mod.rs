//! The fit that can be left switched on: robust models, their level of late, and the best of them.
//!
//! A line and a spline are fitted to the retained rows with bounded weights (`reweighted`), again
//! and again as rows come in. Each model is also scaled to the level of the newest latencies
//! (`level`), over windows of several lengths. Of these forecasts the one is served that errors
//! of late speak for (`choice`), within an interval that past errors support (`interval`).

mod choice;
mod floor;
mod interval;
mod level;
mod reweighted;

use serde::Serialize;

pub use reweighted::Weighting;

use crate::forecast::{FLOOR_MS, Reason, Source};
use crate::linear::{LinearModel, LinearParams, Unready};
use crate::retention::{Observation, Retention};
use crate::spline::SplineModel;
use crate::workload::FEATURES;
use choice::Choice;
use floor::Floor;
use interval::Conformal;
use level::{Newest, WINDOWS};
use reweighted::Refitter;

/// Models: the line and the spline.
const MODELS: usize = 2;

/// Forecasts: each model at each level.
const ARMS: usize = MODELS * WINDOWS.len();

/// Retained rows from which a spline is fitted.
const SPLINE_FROM: usize = 32;

/// Rows accepted from one refit to the next: an eighth of those before, at most this many.
const REFIT_SHARE: u64 = 8;
const REFIT_AT_MOST: u64 = 64;

/// Rows accepted from one search for knots to the next: a quarter of those before, at most this
/// many.
const SEARCH_SHARE: u64 = 4;
const SEARCH_AT_MOST: u64 = 1024;

/// How an adaptive fit learns.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct AdaptiveParams {
    /// What the line needs; it decides whether there is an answer at all.
    pub linear: LinearParams,
    /// Whether the line is one of the forecasts, besides standing in for the spline.
    pub line: bool,
    /// Interior knots of the spline along each axis, up to 3; `None` without a spline.
    pub knots_per_axis: Option<usize>,
    /// What counts as a large error.
    pub weighting: Weighting,
    /// Whether models are also scaled to the level of late.
    pub level_tracking: bool,
}

/// What one store has learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Adaptive {
    params: AdaptiveParams,
    refitter: Refitter,
    line: Result<LinearModel, Unready>,
    is_stale: bool,
    spline: Option<SplineModel>,
    newest: Newest<MODELS>,
    choice: Choice<ARMS>,
    floor: Floor,
    conformal: Conformal,
    accepted: u64,
    next_refit: u64,
    next_search: u64,
    refits: u64,
    searches: u64,
}

/// What is served, and how it came about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// Latency, milliseconds.
    pub ms: f64,
    /// Which forecast it is.
    pub source: Source,
    /// What to know about it.
    pub reason: Option<Reason>,
}

/// The state of an adaptive fit, for people and monitoring.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AdaptiveDiagnostics {
    /// The forecasts that are chosen from.
    pub arms: Vec<ArmDiagnostics>,
    /// Refits of the models from the retained rows.
    pub refits: u64,
    /// Searches for knots.
    pub knot_searches: u64,
    /// Knots of each axis in units of its feature; `null` without a spline.
    pub knots: Option<[Vec<f64>; FEATURES]>,
    /// Past errors that intervals are calibrated on.
    pub calibration_observations: usize,
}

/// One of the forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ArmDiagnostics {
    /// Its name as a source.
    pub source: Source,
    /// Newest latencies that its level is taken from; 0 for a model as it is.
    pub level_window: usize,
    /// What the model is multiplied by.
    pub level: f64,
    /// Its share in the choice.
    pub weight: f64,
}

impl Adaptive {
    /// A fit that has seen nothing, of a store that keeps `max_observations`.
    pub fn new(params: AdaptiveParams, max_observations: usize) -> Self {
        let admitted = std::array::from_fn(|arm| {
            let (model, window) = (arm / WINDOWS.len(), arm % WINDOWS.len());
            let is_in = if model == 0 { params.line } else { params.knots_per_axis.is_some() };
            is_in && (window == 0 || params.level_tracking)
        });
        Self {
            params,
            refitter: Refitter::new(params.weighting, max_observations),
            line: Err(Unready::Cold),
            is_stale: false,
            spline: None,
            newest: Newest::default(),
            choice: Choice::new(admitted),
            floor: Floor::default(),
            conformal: Conformal::default(),
            accepted: 0,
            next_refit: 0,
            next_search: 0,
            refits: 0,
            searches: 0,
        }
    }

    /// The line, or why there is none.
    pub fn line(&self) -> Result<&LinearModel, Unready> {
        self.line.as_ref().map_err(|&reason| reason)
    }

    /// Whether the line is of an earlier window, the present one having no load signal.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Learns from an observation how good the forecasts were, before it is retained.
    pub fn judge(
        &mut self,
        observation: &Observation,
        retention: &Retention,
        floor_ms: Option<f64>,
    ) {
        let Ok(line) = self.line else { return };
        let values = values(&line, self.spline.as_ref(), &observation.features, retention);
        let arms = self.arms(&values);
        let chosen = arms[self.choice.pick(&arms)];
        let observed = observation.latency_ms;
        self.conformal.learn(self.floor.under(chosen, floor_ms).unwrap_or(chosen), observed);
        self.floor.learn(chosen, floor_ms, observed);
        self.choice.learn(&arms, observed);
        self.newest.learn(observation, &values);
    }

    /// Learns that a row has been retained, and fits again where that is due.
    pub fn update(&mut self, retention: &Retention) {
        self.accepted += 1;
        if self.accepted < self.next_refit || retention.len() < self.params.linear.min_observations
        {
            return;
        }
        self.next_refit = self.accepted + (self.accepted / REFIT_SHARE).clamp(1, REFIT_AT_MOST);
        self.refits += 1;
        self.refitter.load(retention.observations());
        let line = self.refitter.line(&self.params.linear);
        let is_flat = line == Err(Unready::NoLoadSignal);
        self.is_stale = is_flat && self.line.is_ok();
        if !self.is_stale {
            self.line = line;
        }
        self.refit_spline(retention);
        if let Ok(line) = self.line {
            let spline = self.spline;
            self.newest.relearn(|features| values(&line, spline.as_ref(), features, retention));
        }
    }

    fn refit_spline(&mut self, retention: &Retention) {
        let (Some(knots), Ok(line)) = (self.params.knots_per_axis, self.line) else { return };
        if retention.len() < SPLINE_FROM {
            return;
        }
        let mut basis = self.spline.map(|spline| spline.basis);
        if self.accepted >= self.next_search {
            self.next_search =
                self.accepted + (self.accepted / SEARCH_SHARE).clamp(1, SEARCH_AT_MOST);
            self.searches += 1;
            let start = basis.and_then(|basis| self.refitter.spline(&basis));
            let start = |features: &[f64; FEATURES]| match &start {
                Some(spline) => spline.value(features),
                None => line.value(features),
            };
            basis = self.refitter.knots(start, knots, basis.as_ref()).or(basis);
        }
        self.spline =
            basis.and_then(|basis| self.refitter.spline(&basis)).filter(SplineModel::is_ready);
    }

    /// Forecasts a load; `floor_ms` is what it costs at the least, where that is known.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn forecast(
        &self,
        features: &[f64; FEATURES],
        retention: &Retention,
        floor_ms: Option<f64>,
    ) -> Result<Served, Reason> {
        let line = self.line?;
        let arms = self.arms(&values(&line, self.spline.as_ref(), features, retention));
        let arm = self.choice.pick(&arms);
        let (ms, source) = match self.floor.under(arms[arm], floor_ms) {
            Some(floor_ms) => (floor_ms, Source::PartFloor),
            None => (arms[arm], self.source(arm)),
        };
        if !ms.is_finite() {
            return Err(Reason::Overflow);
        }
        let reason = if self.is_stale {
            Some(Reason::Stale)
        } else if retention.covers(features) {
            None
        } else {
            Some(Reason::Extrapolating)
        };
        Ok(Served { ms, source, reason })
    }

    /// The interval around a forecast that holds this share of latencies; `None` until there are
    /// errors enough to tell.
    pub fn interval(&self, served_ms: f64, level: f64) -> Option<[f64; 2]> {
        self.conformal.interval(served_ms, level)
    }

    fn arms(&self, values: &[f64; MODELS]) -> [f64; ARMS] {
        let factors = self.newest.factors.as_flattened();
        std::array::from_fn(|arm| (values[arm / WINDOWS.len()] * factors[arm]).max(FLOOR_MS))
    }

    fn source(&self, arm: usize) -> Source {
        let is_line = arm < WINDOWS.len() || self.spline.is_none();
        match (is_line, arm % WINDOWS.len()) {
            (true, 0) => Source::RobustLinear,
            (true, _) => Source::TrackedLinear,
            (false, 0) => Source::RobustSpline,
            (false, _) => Source::TrackedSpline,
        }
    }

    /// Refits and searches so far.
    pub(crate) fn upkeep(&self) -> [u64; 2] {
        [self.refits, self.searches]
    }

    /// The state of this fit.
    pub fn diagnostics(&self) -> AdaptiveDiagnostics {
        let total: f64 = self.choice.weights.iter().sum();
        let factors = self.newest.factors.as_flattened();
        let arms = (0..ARMS).filter(|&arm| self.choice.weights[arm] > 0.0);
        AdaptiveDiagnostics {
            arms: arms
                .map(|arm| ArmDiagnostics {
                    source: self.source(arm),
                    level_window: WINDOWS[arm % WINDOWS.len()],
                    level: factors[arm],
                    weight: self.choice.weights[arm] / total,
                })
                .collect(),
            refits: self.refits,
            knot_searches: self.searches,
            knots: self.spline.map(|spline| spline.basis.raw_knots()),
            calibration_observations: self.conformal.len(),
        }
    }
}

/// What the models say of a load. The spline ends with the box of retained loads. Below it, it goes
/// on in proportion to the line; beyond it, it rises as the line does. Without a spline the line
/// stands in for it.
fn values(
    line: &LinearModel,
    spline: Option<&SplineModel>,
    features: &[f64; FEATURES],
    retention: &Retention,
) -> [f64; MODELS] {
    let along = |features: &[f64; FEATURES]| line.value(features).max(FLOOR_MS);
    let Some(spline) = spline else { return [along(features); MODELS] };
    let range = retention.range();
    let capped: [f64; FEATURES] = std::array::from_fn(|axis| features[axis].min(range[axis][1]));
    let inside = std::array::from_fn(|axis| capped[axis].max(range[axis][0]));
    let mut value = spline.value(&inside).max(FLOOR_MS);
    if inside != capped {
        value *= along(&capped) / along(&inside);
    }
    if capped != *features {
        let beyond = |axis: usize| line.prices[axis] * (features[axis] - capped[axis]);
        value += (0..FEATURES).map(beyond).sum::<f64>();
    }
    [along(features), value.max(FLOOR_MS)]
}

#[cfg(test)]
mod tests;
