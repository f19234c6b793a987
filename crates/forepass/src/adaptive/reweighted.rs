//! Robust fits: least squares solved again and again, with weights that bound what a row can do.

use crate::linear::{self, LinearModel, LinearParams, Unready};
use crate::moments::Centred;
use crate::nnls;
use crate::retention::Observation;
use crate::spline::{Basis, Search, SplineModel, find_weighted_knots, fit_weighted, row_at};
use crate::workload::FEATURES;

/// What counts as a large error, and how much a large one counts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Weighting {
    /// Whether errors are relative to the latency, rather than in milliseconds.
    pub relative: bool,
    /// Error, in robust standard deviations, beyond which a row counts only in proportion; `None`
    /// for least squares.
    pub huber: Option<f64>,
}

/// Solutions after the first, each with the weights that the one before it gives.
const ITERATIONS: usize = 3;

/// Robust standard deviations are not taken to be less than this: of clean rows all count alike.
const LEAST_DEVIATION: f64 = 1e-3;

/// Standard deviations of a normal distribution for one median absolute deviation of it.
const DEVIATIONS: f64 = 1.4826;

/// Columns of the widest spline, and those with the latency.
const SEGMENTS: usize = crate::spline::COLUMNS;
const COLUMNS: usize = SEGMENTS + 1;

/// The rows of one store, and room to fit them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refitter {
    weighting: Weighting,
    rows: Vec<Observation>,
    weights: Vec<f64>,
    errors: Vec<f64>,
    sorted: Vec<f64>,
    line_rows: Vec<[f64; FEATURES + 1]>,
    spline_rows: Vec<[f64; COLUMNS]>,
    search: Search<COLUMNS>,
    /// Columns that the last spline used, as bits.
    used: u32,
}

impl Refitter {
    pub(super) fn new(weighting: Weighting, max_observations: usize) -> Self {
        let room = max_observations.min(1024);
        Self {
            weighting,
            rows: Vec::with_capacity(room),
            weights: Vec::with_capacity(room),
            errors: Vec::with_capacity(room),
            sorted: Vec::with_capacity(room),
            line_rows: Vec::with_capacity(room),
            spline_rows: Vec::with_capacity(room),
            search: Search::new(room),
            used: 0,
        }
    }

    /// Takes in the rows to fit, in arrival order.
    pub(super) fn load<'a>(&mut self, rows: impl Iterator<Item = &'a Observation>) {
        self.rows.clear();
        self.rows.extend(rows);
    }

    /// The line through the rows.
    pub(super) fn line(&mut self, params: &LinearParams) -> Result<LinearModel, Unready> {
        self.line_rows.clear();
        self.line_rows.extend(self.rows.iter().map(Observation::row));
        self.weigh(None);
        let fit = |this: &Self| {
            let statistics = Centred::of(&this.line_rows, &this.weights);
            linear::fit(&statistics, params).0.map(|line| from_zero(line, &statistics, params))
        };
        let mut line = fit(self)?;
        for _ in 0..self.iterations() {
            self.weigh(Some(&|row: &Observation| line.value(&row.features)));
            line = fit(self)?;
        }
        Ok(line)
    }

    /// Knots for the rows, weighed by how far `start` is off them.
    pub(super) fn knots(
        &mut self,
        start: impl Fn(&[f64; FEATURES]) -> f64,
        knots_per_axis: usize,
        previous: Option<&Basis>,
    ) -> Option<Basis> {
        self.weigh(Some(&|row: &Observation| start(&row.features)));
        let (rows, weights) = (self.rows.iter(), &self.weights);
        find_weighted_knots::<SEGMENTS, COLUMNS>(
            &mut self.search,
            rows,
            weights,
            knots_per_axis,
            previous,
        )
    }

    /// The spline through the rows at these knots.
    pub(super) fn spline(&mut self, basis: &Basis) -> Option<SplineModel> {
        self.spline_rows.clear();
        self.spline_rows.extend(self.rows.iter().map(|row| row_at(basis, row)));
        self.weigh(None);
        let fit =
            |this: &Self, likely| fit_weighted(&this.spline_rows, &this.weights, basis, likely);
        let (mut spline, mut used) = fit(self, self.used)?;
        for _ in 0..self.iterations() {
            self.weigh(Some(&|row: &Observation| spline.value(&row.features)));
            (spline, used) = fit(self, used)?;
        }
        self.used = used;
        Some(spline)
    }

    fn iterations(&self) -> usize {
        if self.weighting.huber.is_some() { ITERATIONS } else { 0 }
    }

    /// Weighs the rows by how far a model is off them; without one all errors are taken for small.
    ///
    /// A relative error is one of the larger of latency and forecast, so that it stays within -1
    /// and 1: neither a spike nor a reading near zero can be off by more.
    fn weigh(&mut self, model: Option<&dyn Fn(&Observation) -> f64>) {
        let Weighting { relative, huber } = self.weighting;
        self.errors.clear();
        self.weights.clear();
        for row in &self.rows {
            let latency = row.latency_ms;
            let value = model.filter(|_| huber.is_some()).map(|model| model(row));
            let scale = if relative { value.unwrap_or(latency).max(latency) } else { 1.0 };
            self.weights.push(scale);
            self.errors.push(value.map_or(0.0, |value| ((value - latency) / scale).abs()));
        }
        // Squares of scales relative to the least one neither overflow nor all vanish.
        let least = self.weights.iter().copied().fold(f64::INFINITY, f64::min);
        for weight in &mut self.weights {
            let share = least / *weight;
            *weight = share * share;
        }
        if let (Some(huber), Some(_)) = (huber, model) {
            let bound = huber * self.deviation();
            for (weight, error) in self.weights.iter_mut().zip(&self.errors) {
                if *error > bound {
                    *weight *= bound / error;
                }
            }
        }
        let total: f64 = self.weights.iter().sum();
        let unit = self.weights.len() as f64 / total;
        for weight in &mut self.weights {
            *weight *= unit;
        }
    }

    /// The robust standard deviation of the errors.
    fn deviation(&mut self) -> f64 {
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.errors);
        let middle = self.sorted.len() / 2;
        let median = match self.sorted.get(middle) {
            Some(_) => *self.sorted.select_nth_unstable_by(middle, f64::total_cmp).1,
            None => 0.0,
        };
        let unit = if self.weighting.relative {
            1.0
        } else {
            self.rows.iter().map(|row| row.latency_ms).fold(f64::INFINITY, f64::min)
        };
        (DEVIATIONS * median).max(LEAST_DEVIATION * unit)
    }
}

/// The line, or the best one through zero where it would fall below that without any load: no
/// step takes less than no time.
fn from_zero(
    line: LinearModel,
    statistics: &Centred<{ FEATURES + 1 }>,
    params: &LinearParams,
) -> LinearModel {
    if line.value(&[0.0; FEATURES]) >= 0.0 {
        return line;
    }
    nnls::solve(&statistics.regression_from_zero(), params.singular_ridge_scale).map_or(
        line,
        |solution| LinearModel {
            latency_ms: 0.0,
            center: [0.0; FEATURES],
            prices: solution.coefficients,
        },
    )
}
