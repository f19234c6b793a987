//! The spline of one store: fitted at fixed knots row by row, and searched anew when it is due.

use serde::Serialize;

use super::basis::{Basis, COLUMNS, segments};
use super::schedule::Schedule;
use super::search::{Search, learn};
use crate::config::SplineParams;
use crate::moments::{Centred, Moments};
use crate::nnls;
use crate::retention::Observation;
use crate::workload::FEATURES;

/// A fitted spline: `latency_ms + Σ price (column - center)`, with prices that are not negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplineModel {
    pub(crate) basis: Basis,
    latency_ms: f64,
    center: [f64; COLUMNS],
    prices: [f64; COLUMNS],
}

impl SplineModel {
    /// The spline at given knots, fitted to rows in one go, and its sum of squared errors in ms².
    ///
    /// `None` where the statistics are not finite or admit no solution.
    pub fn fit(basis: &Basis, rows: &[Observation]) -> Option<(Self, f64)> {
        let mut moments = Moments::default();
        moments.rebuild(rows.iter().map(|row| row_at(basis, row)));
        let fitted = fit::<COLUMNS, { COLUMNS + 1 }>(&moments.centred(), basis, 0)?;
        Some((fitted.model, fitted.sse))
    }

    /// Milliseconds for one more unit of its axis along each segment: those of the first axis,
    /// [`MAX_KNOTS`](super::MAX_KNOTS) + 1 of them, then those of the second; zero where unused.
    pub fn prices(&self) -> &[f64; COLUMNS] {
        &self.prices
    }

    /// The value of the spline, milliseconds; it may be below zero, and beyond the last knots it
    /// follows their segments on.
    pub fn value(&self, features: &[f64; FEATURES]) -> f64 {
        let columns: [f64; COLUMNS] = self.basis.columns(features);
        (0..COLUMNS).fold(self.latency_ms, |value, i| {
            value + self.prices[i] * (columns[i] - self.center[i])
        })
    }

    /// Whether latency rises along at least one segment.
    pub fn is_ready(&self) -> bool {
        self.prices.iter().any(|&price| price > 0.0)
    }
}

/// A spline fitted to statistics of rows at a basis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fitted {
    pub(super) model: SplineModel,
    pub(super) sse: f64,
    /// Error of the mean alone: the scatter of latency.
    pub(super) total: f64,
    /// Columns in use, as bits.
    pub(super) used: u32,
    /// Whether statistics that carry the rounding of many updates may decide it.
    pub(super) is_decided: bool,
}

/// Fits the spline at a basis, trying first whether the columns of `likely` are those in use.
///
/// `None` where the statistics are not finite or admit no solution.
pub(super) fn fit<const P: usize, const D: usize>(
    statistics: &Centred<D>,
    basis: &Basis,
    likely: u32,
) -> Option<Fitted> {
    let (problem, is_clear) = statistics.regression::<P>(|_| 1.0);
    let solution = nnls::solve_from(&problem, 0.0, likely)?;
    let model = SplineModel {
        basis: *basis,
        latency_ms: statistics.value_at_means(&solution.coefficients),
        center: spread::<P>(&statistics.mean),
        prices: spread::<P>(&solution.coefficients),
    };
    let is_finite =
        model.latency_ms.is_finite() && model.center.iter().all(|mean| mean.is_finite());
    is_finite.then_some(Fitted {
        model,
        sse: solution.sse,
        total: problem.target,
        used: solution.used,
        is_decided: is_clear && solution.is_decided,
    })
}

/// The spline at a basis, fitted to rows that count by their weights, which sum to their number;
/// and the columns in use, as bits, of which those of `likely` are tried first.
pub(crate) fn fit_weighted(
    rows: &[[f64; COLUMNS + 1]],
    weights: &[f64],
    basis: &Basis,
    likely: u32,
) -> Option<(SplineModel, u32)> {
    let fitted = fit::<COLUMNS, { COLUMNS + 1 }>(&Centred::of(rows, weights), basis, likely)?;
    Some((fitted.model, fitted.used))
}

/// The first `P` numbers, at the columns of a basis with as many segments as it can have.
fn spread<const P: usize>(narrow: &[f64]) -> [f64; COLUMNS] {
    let (from, to) = const { (segments(P), segments(COLUMNS)) };
    let mut wide = [0.0; COLUMNS];
    for (wide, narrow) in wide.chunks_exact_mut(to).zip(narrow[..P].chunks_exact(from)) {
        wide[..from].copy_from_slice(narrow);
    }
    wide
}

/// A row of the statistics: the columns of the basis, and the latency.
pub(crate) fn row_at<const D: usize>(basis: &Basis, observation: &Observation) -> [f64; D] {
    let mut row = basis.columns(&observation.features);
    row[D - 1] = observation.latency_ms;
    row
}

/// The state of a store's spline, for people and monitoring; counters saturate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SplineDiagnostics {
    /// Whether a first search has run, whatever it found.
    pub initialized: bool,
    /// Whether the spline itself could serve, apart from the line that gates it.
    pub ready: bool,
    /// Observations learned since the start.
    pub accepted_observations: u64,
    /// Searches for knots.
    pub knot_searches: u64,
    /// Observations that had been learned at the last search.
    pub last_search_observation: Option<u64>,
    /// Rebuilds of the statistics between searches, for whatever reason.
    pub numerical_rebuilds: u64,
    /// Those of them because a fit was too close to call.
    pub batch_fallbacks: u64,
    /// Knots of each axis in units of its feature; `null` before the first search.
    pub knots: Option<[Vec<f64>; FEATURES]>,
}

/// The statistics and the fit at the knots of the last search.
#[derive(Debug, Clone, PartialEq)]
struct Epoch<const D: usize> {
    basis: Basis,
    moments: Moments<D>,
    fitted: Option<Fitted>,
    /// Insertions and evictions since the search, or the last rebuild that was scheduled.
    clock: u64,
}

/// The spline of one store, as wide as its knots need.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SplineFit {
    /// Up to two knots an axis.
    Narrow(Box<Spline<6, 7>>),
    /// Three.
    Wide(Box<Spline<8, 9>>),
}

/// The same call at either width.
macro_rules! at_width {
    ($fit:expr, $spline:ident => $call:expr) => {
        match $fit {
            SplineFit::Narrow($spline) => $call,
            SplineFit::Wide($spline) => $call,
        }
    };
}

impl SplineFit {
    /// A spline that has seen nothing, of a store that keeps `max_observations` and answers from
    /// `min_observations` on.
    pub fn new(
        params: &SplineParams,
        max_observations: usize,
        min_observations: usize,
        rebuild_interval: Option<u64>,
    ) -> Self {
        let (most, least) = (max_observations, min_observations);
        if params.knots_per_axis > 2 {
            Self::Wide(Box::new(Spline::new(params, most, least, rebuild_interval)))
        } else {
            Self::Narrow(Box::new(Spline::new(params, most, least, rebuild_interval)))
        }
    }

    /// The fitted spline, if there is one.
    pub fn model(&self) -> Option<&SplineModel> {
        at_width!(self, spline => spline.model())
    }

    /// Watches how far the spline is off an observation that it has not learned yet.
    pub fn monitor(&mut self, observation: &Observation) {
        at_width!(self, spline => spline.monitor(observation));
    }

    /// Learns one row and forgets one; searches anew if that is due.
    ///
    /// `retained` gives the rows that remain, in arrival order.
    pub fn update<'a, I: Iterator<Item = &'a Observation> + Clone>(
        &mut self,
        added: &Observation,
        evicted: Option<&Observation>,
        retained: impl Fn() -> I,
        retained_count: usize,
    ) {
        at_width!(self, spline => spline.update(added, evicted, retained, retained_count));
    }

    /// Searches, rebuilds and, among these, fallbacks so far.
    pub(crate) fn upkeep(&self) -> [u64; 3] {
        at_width!(self, spline => [spline.schedule.searches(), spline.rebuilds, spline.fallbacks])
    }

    /// The state of this spline.
    pub fn diagnostics(&self) -> SplineDiagnostics {
        at_width!(self, spline => spline.diagnostics())
    }
}

/// The spline of one store, in `P` columns; its statistics have `D`, with the latency.
#[derive(Debug, Clone, PartialEq)]
pub struct Spline<const P: usize, const D: usize> {
    knots_per_axis: usize,
    rebuild_interval: Option<u64>,
    schedule: Schedule,
    epoch: Option<Epoch<D>>,
    search: Search<D>,
    rebuilds: u64,
    fallbacks: u64,
}

impl<const P: usize, const D: usize> Spline<P, D> {
    fn new(
        params: &SplineParams,
        max_observations: usize,
        min_observations: usize,
        rebuild_interval: Option<u64>,
    ) -> Self {
        Self {
            knots_per_axis: params.knots_per_axis,
            rebuild_interval,
            schedule: Schedule::new(&params.search, min_observations),
            epoch: None,
            search: Search::new(max_observations),
            rebuilds: 0,
            fallbacks: 0,
        }
    }

    fn model(&self) -> Option<&SplineModel> {
        self.epoch.as_ref()?.fitted.as_ref().map(|fitted| &fitted.model)
    }

    fn monitor(&mut self, observation: &Observation) {
        if self.schedule.is_adaptive() {
            let prior_ms = self.model().map(|model| model.value(&observation.features));
            self.schedule.monitor(prior_ms, observation.latency_ms);
        }
    }

    fn update<'a, I: Iterator<Item = &'a Observation> + Clone>(
        &mut self,
        added: &Observation,
        evicted: Option<&Observation>,
        retained: impl Fn() -> I,
        retained_count: usize,
    ) {
        if self.schedule.is_due(retained_count) {
            self.learn(retained());
        } else if let Some(epoch) = &mut self.epoch {
            let row = |observation| row_at(&epoch.basis, observation);
            match evicted {
                Some(evicted) => epoch.moments.exchange(&row(added), &row(evicted)),
                None => epoch.moments.insert(&row(added)),
            }
            epoch.clock = epoch.clock.saturating_add(1 + u64::from(evicted.is_some()));
            self.refit(retained);
        }
    }

    fn learn<'a>(&mut self, retained: impl Iterator<Item = &'a Observation>) {
        let previous = self.epoch.as_ref().map(|epoch| &epoch.basis);
        let (basis, moments, fitted) =
            learn::<P, D>(&mut self.search, retained, self.knots_per_axis, previous);
        self.epoch = Some(Epoch { basis, moments, fitted, clock: 0 });
        self.schedule.searched();
    }

    fn refit<'a, I: Iterator<Item = &'a Observation> + Clone>(&mut self, retained: impl Fn() -> I) {
        let Some(epoch) = &mut self.epoch else { return };
        let basis = epoch.basis;
        let rows = || retained().map(move |observation| row_at(&basis, observation));
        let mut statistics = epoch.moments.centred();
        let is_due = self.rebuild_interval.is_some_and(|interval| epoch.clock >= interval);
        if is_due {
            epoch.clock = 0;
        }
        let rebuild = is_due || !statistics.is_sound;
        if rebuild {
            self.rebuilds = self.rebuilds.saturating_add(1);
            epoch.moments.rebuild(rows());
            statistics = epoch.moments.centred();
        }
        let used = epoch.fitted.as_ref().map_or(0, |fitted| fitted.used);
        epoch.fitted = fit::<P, D>(&statistics, &basis, used);
        if !rebuild && !epoch.fitted.as_ref().is_some_and(|fitted| fitted.is_decided) {
            self.rebuilds = self.rebuilds.saturating_add(1);
            self.fallbacks = self.fallbacks.saturating_add(1);
            epoch.moments.rebuild(rows());
            epoch.fitted = fit::<P, D>(&epoch.moments.centred(), &basis, used);
        }
    }

    fn diagnostics(&self) -> SplineDiagnostics {
        SplineDiagnostics {
            initialized: self.epoch.is_some(),
            ready: self.model().is_some_and(SplineModel::is_ready),
            accepted_observations: self.schedule.accepted(),
            knot_searches: self.schedule.searches(),
            last_search_observation: self.schedule.last_search(),
            numerical_rebuilds: self.rebuilds,
            batch_fallbacks: self.fallbacks,
            knots: self.epoch.as_ref().map(|epoch| epoch.basis.raw_knots()),
        }
    }
}
