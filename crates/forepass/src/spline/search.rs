//! Where to put the knots: coordinate descent on the training error, one knot at a time.
//!
//! Moving a knot changes two columns of the basis, the segments to its left and right. Their
//! products with everything else follow from sums over rows sorted by the axis, which are carried
//! from one candidate to the next, so that a candidate costs one small least-squares problem and no
//! pass over the rows. Sums only ever grow by terms of one sign or start from the near end, so
//! they keep their digits where a segment is short.

use super::basis::{Axis, Basis, COLUMNS, SEGMENTS};
use super::fit::{Fitted, STATISTICS, fit, row_at};
use crate::moments::{Centred, Moments, ROUNDING, is_constant};
use crate::nnls::{self, NormalEquations};
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
pub(super) struct Search {
    /// The retained rows, in arrival order.
    rows: Vec<Observation>,
    /// Rows in ascending order of each axis.
    order: [Vec<usize>; FEATURES],
    /// Candidates of each axis, ascending.
    pub(super) candidates: [Vec<f64>; FEATURES],
    unique: Vec<f64>,
    axis: AxisSums,
}

/// Finds knots for the rows and fits the spline there.
///
/// Starts from quantiles, or from the knots of `previous` where those are better, and goes twice
/// over all knots, trying every candidate of each. Without a fit at the first knots there is none
/// anywhere, and they stay.
pub(super) fn learn<'a>(
    search: &mut Search,
    retained: impl Iterator<Item = &'a Observation>,
    knots_per_axis: usize,
    previous: Option<&Basis>,
) -> (Basis, Option<Fitted>) {
    let mut basis = search.prepare(retained, knots_per_axis);
    let mut statistics = search.statistics(&basis);
    let Some(first) = fit(&statistics, &basis, 0) else {
        return (basis, None);
    };
    let mut best = Best { sse: first.sse, used: first.used };
    let margin = IMPROVEMENT.max(RELATIVE_IMPROVEMENT * first.total);
    if let Some(rescaled) = previous.and_then(|previous| rescaled(previous, &basis)) {
        let at_rescaled = search.statistics(&rescaled);
        if let Some(fitted) = fit(&at_rescaled, &rescaled, best.used) {
            if fitted.sse < best.sse - margin {
                best = Best { sse: fitted.sse, used: fitted.used };
                (basis, statistics) = (rescaled, at_rescaled);
            }
        }
    }
    for _ in 0..SWEEPS {
        for axis in 0..FEATURES {
            for knot in 0..basis.axes[axis].knots().len() {
                search.improve(&mut basis, &mut statistics, axis, knot, &mut best, margin);
            }
        }
    }
    // The error found on the way is that of the sums; the fit that serves is that of the rows.
    let fitted = fit(&search.statistics(&basis), &basis, 0);
    (basis, fitted)
}

/// The least error so far, and the columns that reach it.
struct Best {
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

impl Search {
    /// Room for searches over `max_observations` rows.
    pub(super) fn new(max_observations: usize) -> Self {
        let rows = max_observations.min(RESERVED);
        let candidates = QUANTILES + STEPS;
        Self {
            rows: Vec::with_capacity(rows),
            order: std::array::from_fn(|_| Vec::with_capacity(rows)),
            candidates: std::array::from_fn(|_| Vec::with_capacity(candidates)),
            unique: Vec::with_capacity(rows),
            axis: AxisSums {
                x: Vec::with_capacity(rows),
                columns: Vec::with_capacity(rows),
                fixed: 0,
                beyond: Vec::with_capacity(rows + 1),
                before: Vec::with_capacity(candidates),
                after: Vec::with_capacity(candidates),
            },
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

    fn statistics(&self, basis: &Basis) -> Centred<STATISTICS> {
        let mut moments = Moments::default();
        moments.rebuild(self.rows.iter().map(|observation| row_at(basis, observation)));
        moments.centred()
    }

    /// Moves one knot to the candidate that lowers the error most, judged one after the other.
    fn improve(
        &mut self,
        basis: &mut Basis,
        statistics: &mut Centred<STATISTICS>,
        axis: usize,
        knot: usize,
        best: &mut Best,
        margin: f64,
    ) {
        let cut = &basis.axes[axis];
        let left = if knot == 0 { 0.0 } else { cut.knots()[knot - 1] };
        let last = self.order[axis].last().map_or(0.0, |&row| self.rows[row].features[axis]);
        let right = cut.knots().get(knot + 1).copied().unwrap_or(last / cut.scale());
        let all = &self.candidates[axis];
        let from = all.partition_point(|&candidate| candidate <= left + GAP);
        let to = all.partition_point(|&candidate| candidate < right - GAP);
        if from >= to {
            return;
        }
        let candidates = &all[from..to];
        let segment = axis * SEGMENTS + knot;
        self.axis.sum(&self.rows, &self.order[axis], basis, axis, statistics);
        self.axis.sweep_up(candidates, left);
        self.axis.sweep_down(candidates, right);
        let (mut problem, _) = statistics.regression::<COLUMNS>(|_| 1.0);
        let mut accepted = None;
        for (index, &candidate) in candidates.iter().enumerate() {
            self.axis.move_knot(&mut problem, segment, index, candidate - left);
            if let Some((sse, used)) = nnls::least_error(&problem, best.used) {
                if sse < best.sse - margin {
                    *best = Best { sse, used };
                    accepted = Some(index);
                }
            }
        }
        if let Some(index) = accepted {
            basis.axes[axis].place(knot, candidates[index]);
            self.axis.move_statistics(statistics, segment, index, candidates[index] - left);
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

/// Sums of one moving column with all fixed ones, for one candidate.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ColumnSums {
    /// Of the column alone, and of its square.
    sum: f64,
    square: f64,
    /// Of its products with each fixed column and with latency, those centred.
    with: [f64; STATISTICS],
}

/// The sums that move a knot along one axis.
#[derive(Debug, Clone, Default, PartialEq)]
struct AxisSums {
    /// Scaled loads, ascending, and the centred columns of their rows, latency last.
    x: Vec<f64>,
    columns: Vec<[f64; STATISTICS]>,
    /// Columns that vary, as bits.
    fixed: u32,
    /// Sums of the columns from each row to the end.
    beyond: Vec<[f64; STATISTICS]>,
    /// For each candidate, the segment that ends at it and the one that starts there.
    before: Vec<ColumnSums>,
    after: Vec<ColumnSums>,
}

impl AxisSums {
    fn sum(
        &mut self,
        rows: &[Observation],
        order: &[usize],
        basis: &Basis,
        axis: usize,
        statistics: &Centred<STATISTICS>,
    ) {
        self.fixed = (0..COLUMNS).fold(0, |mask, i| {
            let varies = !is_constant(statistics.scatter[i][i], ROUNDING, statistics.count);
            mask | u32::from(varies) << i
        });
        self.x.clear();
        self.columns.clear();
        for &row in order {
            self.x.push(rows[row].features[axis] / basis.axes[axis].scale());
            let columns = row_at(basis, &rows[row]);
            self.columns.push(std::array::from_fn(|i| columns[i] - statistics.mean[i]));
        }
        self.beyond.clear();
        self.beyond.resize(order.len() + 1, [0.0; STATISTICS]);
        for index in (0..order.len()).rev() {
            for i in 0..STATISTICS {
                self.beyond[index][i] = self.beyond[index + 1][i] + self.columns[index][i];
            }
        }
    }

    /// The segment from `left` to each candidate, from the nearest on: rows beyond the candidate
    /// gain what it moves, rows that it passes what they lie beyond the last one.
    fn sweep_up(&mut self, candidates: &[f64], left: f64) {
        self.before.clear();
        let mut sums = ColumnSums::default();
        let mut passed = self.x.partition_point(|&x| x <= left);
        let mut at = left;
        for &candidate in candidates {
            while passed < self.x.len() && self.x[passed] < candidate {
                sums.grow(&self.columns[passed], 1.0, self.x[passed] - at, at - left);
                passed += 1;
            }
            let rest = (self.x.len() - passed) as f64;
            sums.grow(&self.beyond[passed], rest, candidate - at, at - left);
            at = candidate;
            self.before.push(sums);
        }
    }

    /// The segment from each candidate to `right`, from the nearest on: rows that are in it or
    /// beyond gain what the candidate moves, rows that it passes enter.
    fn sweep_down(&mut self, candidates: &[f64], right: f64) {
        self.after.clear();
        let mut sums = ColumnSums::default();
        let mut entered = self.x.partition_point(|&x| x < right);
        let mut at = right;
        for &candidate in candidates.iter().rev() {
            // Every row that is in gains the same, so the square gains twice that times the sum.
            let (step, count) = (at - candidate, (self.x.len() - entered) as f64);
            sums.square += step * (2.0 * sums.sum + step * count);
            sums.sum += step * count;
            for i in 0..STATISTICS {
                sums.with[i] += step * self.beyond[entered][i];
            }
            while entered > 0 && self.x[entered - 1] > candidate {
                entered -= 1;
                sums.grow(&self.columns[entered], 1.0, self.x[entered] - candidate, 0.0);
            }
            at = candidate;
            self.after.push(sums);
        }
        self.after.reverse();
    }

    /// What [`move_knot`](Self::move_knot) does to the problem, done to the statistics.
    fn move_statistics(
        &self,
        statistics: &mut Centred<STATISTICS>,
        segment: usize,
        candidate: usize,
        width: f64,
    ) {
        let (before, after) = (&self.before[candidate], &self.after[candidate]);
        let share = 1.0 / self.x.len() as f64;
        let moving = [(segment, before), (segment + 1, after)];
        for (column, sums) in moving {
            statistics.mean[column] = sums.sum * share;
            for i in 0..STATISTICS {
                statistics.scatter[column][i] = sums.with[i];
                statistics.scatter[i][column] = sums.with[i];
            }
        }
        for (column, sums) in moving {
            statistics.scatter[column][column] = sums.square - sums.sum * sums.sum * share;
        }
        let between = width * after.sum - before.sum * after.sum * share;
        statistics.scatter[segment][segment + 1] = between;
        statistics.scatter[segment + 1][segment] = between;
    }

    /// Puts the knot between `segment` and the next one at a candidate, `width` beyond the
    /// segment's start.
    fn move_knot(
        &self,
        problem: &mut NormalEquations<COLUMNS>,
        segment: usize,
        candidate: usize,
        width: f64,
    ) {
        let (before, after) = (&self.before[candidate], &self.after[candidate]);
        let count = self.x.len();
        let share = 1.0 / count as f64;
        let moving = [(segment, before), (segment + 1, after)];
        for (column, sums) in moving {
            for i in 0..COLUMNS {
                // Columns that are constant stay out.
                let product = if self.fixed >> i & 1 == 1 { sums.with[i] } else { 0.0 };
                problem.gram[column][i] = product;
                problem.gram[i][column] = product;
            }
            problem.rhs[column] = sums.with[COLUMNS];
        }
        // Where the second segment has begun, the first is as long as it gets.
        let between = width * after.sum - before.sum * after.sum * share;
        problem.gram[segment][segment + 1] = between;
        problem.gram[segment + 1][segment] = between;
        for (column, sums) in moving {
            let scatter = sums.square - sums.sum * sums.sum * share;
            problem.gram[column][column] = scatter;
            if is_constant(scatter, ROUNDING, count) {
                problem.rhs[column] = 0.0;
                for i in 0..COLUMNS {
                    problem.gram[column][i] = 0.0;
                    problem.gram[i][column] = 0.0;
                }
            }
        }
    }
}

impl ColumnSums {
    /// Adds `gain` to the column in `count` rows whose fixed columns sum to `columns`, and in each
    /// of which the column was `present`.
    fn grow(&mut self, columns: &[f64; STATISTICS], count: f64, gain: f64, present: f64) {
        self.sum += count * gain;
        self.square += count * gain * (gain + 2.0 * present);
        for i in 0..STATISTICS {
            self.with[i] += gain * columns[i];
        }
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
