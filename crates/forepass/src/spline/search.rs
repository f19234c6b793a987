//! Where to put the knots: coordinate descent on the training error, one knot at a time.
//!
//! Moving a knot changes two columns of the basis, the segments to its left and right. Their
//! products with everything else follow from sums over rows sorted by the axis, which are carried
//! from one candidate to the next, so that a candidate costs one small least-squares problem and no
//! pass over the rows.

use super::basis::{Axis, Basis, segments};
use super::bound::Bound;
use super::fit::{Fitted, fit, row_at};
use super::sums::AxisSums;
use crate::moments::{Centred, Moments};
use crate::nnls;
use crate::quantile::interpolated_quantile;
use crate::retention::Observation;
use crate::workload::FEATURES;

/// Passes over all knots.
pub(super) const SWEEPS: usize = 2;

/// Distance, in units of the axis, that a knot keeps from its neighbours and from the ends.
pub(super) const GAP: f64 = 1e-10;

/// Least value, in units of the axis, from which geometric candidates start.
const LEAST_POSITIVE: f64 = 1e-8;

/// By how much a candidate must lower the error: absolutely, and relative to the total scatter, so
/// that rounding never decides between knots.
pub(super) const IMPROVEMENT: f64 = 1e-12;
pub(super) const RELATIVE_IMPROVEMENT: f64 = 1e-10;

/// Room for the work of searches, used again from one to the next.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Search<const D: usize> {
    /// The retained rows, in arrival order, and what each counts: as one, unless told otherwise.
    rows: Vec<Observation>,
    weights: Vec<f64>,
    /// Their columns at the knots that are being moved.
    columns: Vec<[f64; D]>,
    /// Rows in ascending order of each axis.
    order: [Vec<usize>; FEATURES],
    /// Candidates of each axis, ascending.
    pub(super) candidates: [Vec<f64>; FEATURES],
    unique: Vec<f64>,
    axis: AxisSums<D>,
}

/// Finds knots for the rows and fits the spline there, on statistics to go on from.
///
/// Starts from quantiles, or from the knots of `previous` where those are better, and goes twice
/// over all knots, trying every candidate of each. Without a fit at the first knots there is none
/// anywhere, and they stay.
pub(super) fn learn<'a, const P: usize, const D: usize>(
    search: &mut Search<D>,
    retained: impl Iterator<Item = &'a Observation>,
    knots_per_axis: usize,
    previous: Option<&Basis>,
) -> (Basis, Moments<D>, Option<Fitted>) {
    let first = search.prepare(retained, knots_per_axis);
    let found = search.find::<P>(first, previous);
    let basis = found.as_ref().map_or(first, |found| found.basis);
    // The error found on the way is that of the sums; the fit that serves is that of the rows.
    let mut moments = Moments::default();
    moments.rebuild(search.rows.iter().map(|observation| row_at(&basis, observation)));
    let fitted = found.and_then(|found| fit::<P, D>(&moments.centred(), &basis, found.used));
    (basis, moments, fitted)
}

/// Finds knots for rows that count by their weights, which sum to the number of rows.
///
/// `None` without a fit at the first knots.
pub(crate) fn find_weighted_knots<'a, const P: usize, const D: usize>(
    search: &mut Search<D>,
    rows: impl Iterator<Item = &'a Observation>,
    weights: &[f64],
    knots_per_axis: usize,
    previous: Option<&Basis>,
) -> Option<Basis> {
    let first = search.prepare(rows, knots_per_axis);
    search.weights.clear();
    search.weights.extend_from_slice(weights);
    search.find::<P>(first, previous).map(|found| found.basis)
}

/// The best knots so far: their least error, and the columns that reach it.
struct Best {
    basis: Basis,
    sse: f64,
    used: u32,
}

/// The knots of an earlier search in the units of this one, where their numbers agree.
pub(super) fn rescaled(previous: &Basis, basis: &Basis) -> Option<Basis> {
    let mut rescaled = *basis;
    for (axis, old) in rescaled.axes.iter_mut().zip(&previous.axes) {
        if old.knots().len() != axis.knots().len() {
            return None;
        }
        let change = old.scale() / axis.scale();
        for (knot, at) in old.knots().iter().enumerate() {
            axis.place(knot, at * change);
        }
    }
    Some(rescaled)
}

/// Candidates of an axis at the most: quantiles and geometric steps.
const QUANTILES: usize = 19;
const STEPS: usize = 17;

/// Room for this many rows is set aside at once; larger samples grow into theirs.
const RESERVED: usize = 1024;

impl<const D: usize> Search<D> {
    /// Room for searches over `max_observations` rows.
    pub(crate) fn new(max_observations: usize) -> Self {
        let rows = max_observations.min(RESERVED);
        let candidates = QUANTILES + STEPS;
        Self {
            rows: Vec::with_capacity(rows),
            weights: Vec::with_capacity(rows),
            columns: Vec::with_capacity(rows),
            order: std::array::from_fn(|_| Vec::with_capacity(rows)),
            candidates: std::array::from_fn(|_| Vec::with_capacity(candidates)),
            unique: Vec::with_capacity(rows),
            axis: AxisSums::new(rows, candidates),
        }
    }

    /// Takes in the rows: their order along each axis, the candidates, and the first knots.
    pub(super) fn prepare<'a>(
        &mut self,
        retained: impl Iterator<Item = &'a Observation>,
        knots_per_axis: usize,
    ) -> Basis {
        self.rows.clear();
        self.rows.extend(retained);
        self.weights.clear();
        self.weights.resize(self.rows.len(), 1.0);
        let mut axes = [Axis::new(1.0); FEATURES];
        for axis in 0..FEATURES {
            let rows = &self.rows;
            let value = |row: usize| rows[row].features[axis];
            let order = &mut self.order[axis];
            order.clear();
            order.extend(0..rows.len());
            // Rows of equal load stay in arrival order: the sums must not depend on the sort.
            order.sort_unstable_by(|&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
            let largest = order.last().map_or(0.0, |&row| value(row));
            let scale = if largest > 0.0 { largest } else { 1.0 };
            axes[axis] = Axis::new(scale);
            self.unique.clear();
            self.unique.extend(order.iter().map(|&row| value(row) / scale));
            self.unique.dedup();
            first_knots(&self.unique, knots_per_axis, &mut axes[axis]);
            candidates(&self.unique, &mut self.candidates[axis]);
        }
        Basis { axes }
    }

    /// The best knots that coordinate descent finds; `None` without a fit at the first ones.
    fn find<const P: usize>(&mut self, first: Basis, previous: Option<&Basis>) -> Option<Best> {
        let mut statistics = self.statistics(&first);
        let fitted = fit::<P, D>(&statistics, &first, 0)?;
        let mut best = Best { basis: first, sse: fitted.sse, used: fitted.used };
        let margin = IMPROVEMENT.max(RELATIVE_IMPROVEMENT * fitted.total);
        if let Some(basis) = previous.and_then(|previous| rescaled(previous, &first)) {
            let at_rescaled = self.statistics(&basis);
            match fit::<P, D>(&at_rescaled, &basis, best.used) {
                Some(Fitted { sse, used, .. }) if sse < best.sse - margin => {
                    best = Best { basis, sse, used };
                    statistics = at_rescaled;
                }
                _ => self.lay_out(&first),
            }
        }
        for _ in 0..SWEEPS {
            for axis in 0..FEATURES {
                for knot in 0..first.axes[axis].knots().len() {
                    self.improve::<P>(&mut statistics, axis, knot, &mut best, margin);
                }
            }
        }
        Some(best)
    }

    /// Computes the columns of the rows.
    fn lay_out(&mut self, basis: &Basis) {
        self.columns.clear();
        self.columns.extend(self.rows.iter().map(|observation| row_at(basis, observation)));
    }

    fn statistics(&mut self, basis: &Basis) -> Centred<D> {
        self.lay_out(basis);
        Centred::of(&self.columns, &self.weights)
    }

    /// Moves one knot to the candidate that lowers the error most, judged one after the other.
    fn improve<const P: usize>(
        &mut self,
        statistics: &mut Centred<D>,
        axis: usize,
        knot: usize,
        best: &mut Best,
        margin: f64,
    ) {
        let cut = &best.basis.axes[axis];
        let scale = cut.scale();
        let left = if knot == 0 { 0.0 } else { cut.knots()[knot - 1] };
        let last = self.order[axis].last().map_or(0.0, |&row| self.rows[row].features[axis]);
        let right = cut.knots().get(knot + 1).copied().unwrap_or(last / scale);
        let all = &self.candidates[axis];
        let from = all.partition_point(|&candidate| candidate <= left + GAP);
        let to = all.partition_point(|&candidate| candidate < right - GAP);
        if from >= to {
            return;
        }
        let candidates = &all[from..to];
        let segment = axis * segments(P) + knot;
        let load = |row: usize| self.rows[row].features[axis] / scale;
        self.axis.sum(load, &self.columns, &self.weights, &self.order[axis], statistics);
        self.axis.sweep_up(candidates, left);
        self.axis.sweep_down(candidates, right);
        let (mut problem, _) = statistics.regression::<P>(|_| 1.0);
        // Neighbouring candidates mostly use the same columns.
        let mut likely = best.used;
        let mut bound = Bound::of(&problem, likely, 0b11 << segment);
        let mut accepted = None;
        for (index, &candidate) in candidates.iter().enumerate() {
            let moved = self.axis.moved(index, candidate - left);
            let least = bound.as_ref().and_then(|bound| bound.error(&moved));
            if least.is_some_and(|least| least >= best.sse) {
                continue;
            }
            self.axis.move_knot(&mut problem, segment, &moved);
            let Some((sse, used)) = nnls::least_error(&problem, likely) else { continue };
            if used != likely {
                likely = used;
                bound = Bound::of(&problem, likely, 0b11 << segment);
            }
            if sse < best.sse - margin {
                (best.sse, best.used) = (sse, used);
                accepted = Some(index);
            }
        }
        if let Some(index) = accepted {
            best.basis.axes[axis].place(knot, candidates[index]);
            let moved = self.axis.moved(index, candidates[index] - left);
            moved.move_statistics(statistics, segment);
            let basis = best.basis;
            self.lay_out(&basis);
        }
    }
}

/// Evenly spaced quantiles of the unique values, at most one fewer than there are values.
fn first_knots(unique: &[f64], knots_per_axis: usize, axis: &mut Axis) {
    let count = knots_per_axis.min(unique.len().saturating_sub(1));
    for j in 1..=count {
        let share = j as f64 / (count + 1) as f64;
        if let Some(knot) = interpolated_quantile(unique, share) {
            if axis.knots().last() != Some(&knot) {
                axis.cut(knot);
            }
        }
    }
}

/// Nineteen quantiles of the unique values, and seventeen points in geometric steps.
fn candidates(unique: &[f64], candidates: &mut Vec<f64>) {
    candidates.clear();
    candidates.extend(
        (1..=QUANTILES)
            .filter_map(|i| interpolated_quantile(unique, i as f64 / (QUANTILES + 1) as f64)),
    );
    if let Some(&positive) = unique.iter().find(|&&value| value > 0.0) {
        let least = positive.max(LEAST_POSITIVE);
        let greatest = unique[unique.len() - 1];
        let steps = (1..=STEPS).map(|i| i as f64 / (STEPS + 1) as f64);
        candidates.extend(steps.map(|share| least * (greatest / least).powf(share)));
    }
    candidates.sort_unstable_by(f64::total_cmp);
    candidates.dedup();
}

#[cfg(test)]
mod tests;
