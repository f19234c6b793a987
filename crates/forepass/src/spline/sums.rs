//! Sums over sorted rows from which the columns beside a moving knot follow.
//!
//! They are carried from one candidate to the next and only ever grow by terms of one sign or start
//! from the near end, so they keep their digits where a segment is short.

use crate::moments::{Centred, ROUNDING, is_constant};
use crate::nnls::NormalEquations;

/// Sums of one moving column with all fixed ones, for one candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ColumnSums<const D: usize> {
    /// Of the column alone, and of its square.
    sum: f64,
    square: f64,
    /// Of its products with each fixed column and with latency, those centred.
    pub(super) with: [f64; D],
}

/// The sums that move a knot along one axis.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AxisSums<const D: usize> {
    /// Scaled loads, ascending, the weights of their rows, and the centred columns, latency last,
    /// each times its row's weight.
    x: Vec<f64>,
    weights: Vec<f64>,
    columns: Vec<[f64; D]>,
    /// Columns that vary, as bits.
    fixed: u32,
    /// Sums of the columns of the last rows, and of their weights: of none, of the last, of the
    /// last two, ...
    last: Vec<[f64; D]>,
    last_weight: Vec<f64>,
    /// For each candidate, the segment that ends at it and the one that starts there.
    before: Vec<ColumnSums<D>>,
    after: Vec<ColumnSums<D>>,
}

impl<const D: usize> AxisSums<D> {
    /// Room for so many rows and candidates.
    pub(super) fn new(rows: usize, candidates: usize) -> Self {
        Self {
            x: Vec::with_capacity(rows),
            weights: Vec::with_capacity(rows),
            columns: Vec::with_capacity(rows),
            fixed: 0,
            last: Vec::with_capacity(rows + 1),
            last_weight: Vec::with_capacity(rows + 1),
            before: Vec::with_capacity(candidates),
            after: Vec::with_capacity(candidates),
        }
    }

    /// Takes in the rows along an axis: their loads and their columns, in this order.
    pub(super) fn sum(
        &mut self,
        loads: impl Fn(usize) -> f64,
        columns: &[[f64; D]],
        weights: &[f64],
        order: &[usize],
        statistics: &Centred<D>,
    ) {
        self.fixed = (0..D - 1).fold(0, |mask, i| {
            let varies = !is_constant(statistics.scatter[i][i], ROUNDING, statistics.count);
            mask | u32::from(varies) << i
        });
        let centred = |row: &usize| {
            std::array::from_fn(|i| weights[*row] * (columns[*row][i] - statistics.mean[i]))
        };
        self.x.clear();
        self.x.extend(order.iter().map(|&row| loads(row)));
        self.weights.clear();
        self.weights.extend(order.iter().map(|&row| weights[row]));
        self.columns.clear();
        self.columns.extend(order.iter().map(centred));
        self.last_weight.clear();
        let mut weight = 0.0;
        self.last_weight.push(weight);
        self.last_weight.extend(self.weights.iter().rev().map(|more| {
            weight += more;
            weight
        }));
        self.last.clear();
        let mut sums = [0.0; D];
        self.last.push(sums);
        self.last.extend(self.columns.iter().rev().map(|columns| {
            for i in 0..D {
                sums[i] += columns[i];
            }
            sums
        }));
    }

    /// The segment from `left` to each candidate, from the nearest on: rows beyond the candidate
    /// gain what it moves, rows that it passes what they lie beyond the last one.
    pub(super) fn sweep_up(&mut self, candidates: &[f64], left: f64) {
        self.before.clear();
        let mut sums = ColumnSums::ZERO;
        let mut passed = self.x.partition_point(|&x| x <= left);
        let mut at = left;
        for &candidate in candidates {
            while passed < self.x.len() && self.x[passed] < candidate {
                let weight = self.weights[passed];
                sums.grow(&self.columns[passed], weight, self.x[passed] - at, at - left);
                passed += 1;
            }
            let rest = self.x.len() - passed;
            sums.grow(&self.last[rest], self.last_weight[rest], candidate - at, at - left);
            at = candidate;
            self.before.push(sums);
        }
    }

    /// The segment from each candidate to `right`, from the nearest on: rows that are in it or
    /// beyond gain what the candidate moves, rows that it passes enter.
    pub(super) fn sweep_down(&mut self, candidates: &[f64], right: f64) {
        self.after.clear();
        let mut sums = ColumnSums::ZERO;
        let mut entered = self.x.partition_point(|&x| x < right);
        let mut at = right;
        for &candidate in candidates.iter().rev() {
            // Every row that is in gains the same, so the square gains twice that times the sum.
            let (step, rest) = (at - candidate, self.x.len() - entered);
            let weight = self.last_weight[rest];
            sums.square += step * (2.0 * sums.sum + step * weight);
            sums.sum += step * weight;
            for i in 0..D {
                sums.with[i] += step * self.last[rest][i];
            }
            while entered > 0 && self.x[entered - 1] > candidate {
                entered -= 1;
                let weight = self.weights[entered];
                sums.grow(&self.columns[entered], weight, self.x[entered] - candidate, 0.0);
            }
            at = candidate;
            self.after.push(sums);
        }
        self.after.reverse();
    }

    /// The two moving columns at a candidate `width` beyond the first one's start.
    pub(super) fn moved(&self, candidate: usize, width: f64) -> Moved<'_, D> {
        let columns = [&self.before[candidate], &self.after[candidate]];
        let [before, after] = columns;
        let share = 1.0 / self.x.len() as f64;
        Moved {
            columns,
            means: columns.map(|sums| sums.sum * share),
            scatters: columns.map(|sums| sums.square - sums.sum * sums.sum * share),
            // Where the second segment has begun, the first is as long as it gets.
            between: width * after.sum - before.sum * after.sum * share,
        }
    }

    /// Puts the knot between `segment` and the next one where the two moved with it.
    pub(super) fn move_knot<const P: usize>(
        &self,
        problem: &mut NormalEquations<P>,
        segment: usize,
        moved: &Moved<'_, D>,
    ) {
        for (side, sums) in moved.columns.into_iter().enumerate() {
            let column = segment + side;
            for i in 0..P {
                // Columns that are constant stay out.
                let product = if self.fixed >> i & 1 == 1 { sums.with[i] } else { 0.0 };
                problem.gram[column][i] = product;
                problem.gram[i][column] = product;
            }
            problem.rhs[column] = sums.with[P];
        }
        for side in 0..2 {
            problem.gram[segment + side][segment + 1 - side] = moved.between;
        }
        for (side, scatter) in moved.scatters.into_iter().enumerate() {
            let column = segment + side;
            problem.gram[column][column] = scatter;
            if is_constant(scatter, ROUNDING, self.x.len()) {
                problem.leave_out(column);
            }
        }
    }
}

/// The segments before and after a moved knot.
pub(super) struct Moved<'a, const D: usize> {
    pub(super) columns: [&'a ColumnSums<D>; 2],
    means: [f64; 2],
    pub(super) scatters: [f64; 2],
    /// Scatter of the two together.
    pub(super) between: f64,
}

impl<const D: usize> Moved<'_, D> {
    /// What [`AxisSums::move_knot`] does to the problem, done to the statistics.
    pub(super) fn move_statistics(&self, statistics: &mut Centred<D>, segment: usize) {
        for (side, sums) in self.columns.into_iter().enumerate() {
            let column = segment + side;
            statistics.mean[column] = self.means[side];
            for i in 0..D {
                statistics.scatter[column][i] = sums.with[i];
                statistics.scatter[i][column] = sums.with[i];
            }
        }
        for (side, scatter) in self.scatters.into_iter().enumerate() {
            statistics.scatter[segment + side][segment + side] = scatter;
            statistics.scatter[segment + side][segment + 1 - side] = self.between;
        }
    }
}

impl<const D: usize> ColumnSums<D> {
    const ZERO: Self = Self { sum: 0.0, square: 0.0, with: [0.0; D] };

    /// Adds `gain` to the column in rows whose weights sum to `weight`, whose fixed columns, times
    /// their weights, sum to `columns`, and in each of which the column was `present`.
    fn grow(&mut self, columns: &[f64; D], weight: f64, gain: f64, present: f64) {
        self.sum += weight * gain;
        self.square += weight * gain * (gain + 2.0 * present);
        for i in 0..D {
            self.with[i] += gain * columns[i];
        }
    }
}
