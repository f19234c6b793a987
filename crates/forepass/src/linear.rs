//! The standardized nonnegative line: latency as an intercept plus a price for each feature.

use serde::Serialize;

use crate::moments::{Centred, Moments};
use crate::nnls::{self, NormalEquations};
use crate::workload::FEATURES;

/// Columns of the statistics: the features and the latency.
pub const COLUMNS: usize = FEATURES + 1;

/// Largest correlation of latency with a feature that leaves open whether there is any load
/// signal; rounding in recursive statistics must not decide that.
const FAINT: f64 = 1e-9;

/// How a line is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LinearParams {
    /// Rows that must be retained before there is a fit; at least 1.
    pub min_observations: usize,
    /// Ridge, relative to the trace, with which a singular pair of features is tried once more.
    pub singular_ridge_scale: f64,
    /// Insertions and removals after which the statistics are rebuilt from the rows.
    pub rebuild_interval: Option<u64>,
    /// Whether the last usable line stays when latency has ceased to rise with any feature.
    pub keep_last_usable: bool,
}

impl Default for LinearParams {
    fn default() -> Self {
        Self {
            min_observations: 5,
            singular_ridge_scale: 1e-9,
            rebuild_interval: None,
            keep_last_usable: true,
        }
    }
}

/// A fitted line: `latency_ms + Σ price (x - center)`, with prices that are zero or positive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LinearModel {
    /// Latency at the center, milliseconds.
    pub latency_ms: f64,
    /// Mean of each feature over the rows fitted.
    pub center: [f64; FEATURES],
    /// Milliseconds for one more unit of each feature.
    pub prices: [f64; FEATURES],
}

impl LinearModel {
    /// The value of the line, milliseconds; below zero where it extrapolates that far.
    pub fn value(&self, features: &[f64; FEATURES]) -> f64 {
        let terms = (0..FEATURES).map(|i| self.prices[i] * (features[i] - self.center[i]));
        terms.fold(self.latency_ms, |sum, term| sum + term)
    }
}

/// Why there is no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unready {
    /// Fewer rows than `min_observations`.
    Cold,
    /// No feature varies over the rows.
    ConstantLoad,
    /// Latency does not rise with any feature.
    NoLoadSignal,
    /// The statistics are not finite, or no solution meets the optimality conditions.
    Unsolvable,
}

/// Fits the line to statistics of (features, latency) rows.
///
/// Also tells whether the result is decided by a wide enough margin for statistics that carry the
/// rounding of many updates; where it is not, they should be rebuilt from the rows first.
pub fn fit(
    statistics: &Centred<COLUMNS>,
    params: &LinearParams,
) -> (Result<LinearModel, Unready>, bool) {
    let Centred { count, ref mean, ref scatter, .. } = *statistics;
    if count < params.min_observations || count == 0 {
        return (Err(Unready::Cold), true);
    }
    // Products overflow no sooner than squares do.
    if !(0..COLUMNS).all(|i| scatter[i][i].is_finite() && mean[i].is_finite()) {
        return (Err(Unready::Unsolvable), false);
    }
    let (problem, mut decided) = statistics.regression::<FEATURES>(|i| mean[i]);
    let active: [bool; FEATURES] = std::array::from_fn(|i| problem.gram[i][i] > 0.0);
    if !active.contains(&true) {
        return (Err(Unready::ConstantLoad), decided);
    }
    let Some(solution) = nnls::solve(&problem, params.singular_ridge_scale) else {
        return (Err(Unready::Unsolvable), false);
    };
    decided &= solution.is_decided && has_clear_signal(&problem, active);

    let model = LinearModel {
        latency_ms: statistics.value_at_means(&solution.coefficients),
        center: std::array::from_fn(|i| mean[i]),
        prices: solution.coefficients,
    };
    // With no more rows than features, a flat line through them is all that can be asked for.
    let active_count = active.iter().filter(|&&is_active| is_active).count();
    let usable = count <= active_count || model.prices.iter().any(|&price| price > 0.0);
    (if usable { Ok(model) } else { Err(Unready::NoLoadSignal) }, decided)
}

/// Whether one active feature clearly rises with latency, or all clearly fall.
fn has_clear_signal(problem: &NormalEquations<FEATURES>, active: [bool; FEATURES]) -> bool {
    // Correlations squared, with the sign that makes them a load signal.
    let faint = FAINT * FAINT * problem.target;
    let is_clear = |i: usize| problem.rhs[i] * problem.rhs[i] > faint * problem.gram[i][i];
    let rises = |i: usize| active[i] && is_clear(i) && problem.rhs[i] > 0.0;
    let falls = |i: usize| !active[i] || (is_clear(i) && problem.rhs[i] < 0.0);
    problem.target == 0.0 || (0..FEATURES).any(rises) || (0..FEATURES).all(falls)
}

/// How often, and why, statistics were rebuilt from the retained rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rebuilds {
    /// Because `rebuild_interval` had passed.
    pub scheduled: u64,
    /// Because updates had used up the precision of the statistics.
    pub recovery: u64,
    /// Because the fit was too close to call from recursive statistics.
    pub fallback: u64,
}

/// The line of one store, kept up to date row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearFit {
    params: LinearParams,
    moments: Moments<COLUMNS>,
    model: Result<LinearModel, Unready>,
    /// Whether the line is of an earlier window, the present one having no load signal.
    is_stale: bool,
    rebuilds: Rebuilds,
    /// Insertions and evictions since the last rebuild that was scheduled.
    clock: u64,
}

impl LinearFit {
    /// A fit that has seen nothing.
    pub fn new(params: LinearParams) -> Self {
        Self {
            params,
            moments: Moments::default(),
            model: Err(Unready::Cold),
            is_stale: false,
            rebuilds: Rebuilds::default(),
            clock: 0,
        }
    }

    /// The line, or why there is none.
    pub fn model(&self) -> Result<&LinearModel, Unready> {
        self.model.as_ref().map_err(|&reason| reason)
    }

    /// Whether the line is of an earlier window, the present one having no load signal.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Rebuilds so far.
    pub fn rebuilds(&self) -> Rebuilds {
        self.rebuilds
    }

    /// Learns one row, forgets one, and fits again.
    ///
    /// `retained` gives the rows that remain, in arrival order; it is called only for a rebuild.
    pub fn update<I: Iterator<Item = [f64; COLUMNS]> + Clone>(
        &mut self,
        added: &[f64; COLUMNS],
        evicted: Option<&[f64; COLUMNS]>,
        retained: impl Fn() -> I,
    ) {
        match evicted {
            Some(evicted) => self.moments.exchange(added, evicted),
            None => self.moments.insert(added),
        }
        let mut statistics = self.moments.centred();
        self.clock = self.clock.saturating_add(1 + u64::from(evicted.is_some()));
        let mut rebuilt = true;
        if self.params.rebuild_interval.is_some_and(|interval| self.clock >= interval) {
            self.clock = 0;
            self.rebuilds.scheduled = self.rebuilds.scheduled.saturating_add(1);
        } else if !statistics.is_sound {
            self.rebuilds.recovery = self.rebuilds.recovery.saturating_add(1);
        } else {
            rebuilt = false;
        }
        if rebuilt {
            self.moments.rebuild(retained());
            statistics = self.moments.centred();
        }
        let (mut model, decided) = fit(&statistics, &self.params);
        if !decided && !rebuilt {
            self.rebuilds.fallback = self.rebuilds.fallback.saturating_add(1);
            self.moments.rebuild(retained());
            model = fit(&self.moments.centred(), &self.params).0;
        }
        let flat = model == Err(Unready::NoLoadSignal);
        self.is_stale = flat && self.params.keep_last_usable && self.model.is_ok();
        if !self.is_stale {
            self.model = model;
        }
    }
}

#[cfg(test)]
mod tests;
