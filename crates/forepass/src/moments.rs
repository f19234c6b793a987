//! Centred sufficient statistics of rows that come and go: count, means and scatter.
//!
//! The sums are taken of differences from an anchor near the data, in twice the working precision.
//! A row gives the same differences and the same rounded products when it comes and when it goes,
//! so removing it takes out exactly what inserting it put in: the statistics depend on the rows
//! that remain, not on the way there. What is left to go wrong can be read off the sums, and
//! [`Centred::is_sound`] says when to rebuild: the anchor has become remote from the data, or
//! something so large has left that even the doubled precision is used up.

use crate::nnls::NormalEquations;

/// Sums carried in two parts, so that what cancels does not take small terms with it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sums<const D: usize> {
    values: [f64; D],
    errors: [f64; D],
}

impl<const D: usize> Sums<D> {
    const ZERO: Self = Self { values: [0.0; D], errors: [0.0; D] };

    fn add(&mut self, i: usize, term: f64) {
        let value = self.values[i];
        let total = value + term;
        let virtual_term = total - value;
        self.errors[i] += (value - (total - virtual_term)) + (term - virtual_term);
        self.values[i] = total;
    }

    fn total(&self, i: usize) -> f64 {
        self.values[i] + self.errors[i]
    }
}

/// Remoteness of the anchor, in squared standard deviations, above which sums lose digits.
const REMOTE_ANCHOR: f64 = 1.0;

/// Ratio of the largest scatter seen since the last rebuild to the present one above which the
/// doubled precision (2^-104) no longer leaves thirteen digits.
const EXHAUSTED: f64 = 1e12;

/// Count, means and scatter of `D` columns, recursive under insertion and removal.
///
/// `scatter(i, j)` is the sum over rows of the products of deviations from the means.
///
/// ```
/// use forepass::moments::Moments;
///
/// let mut moments = Moments::<2>::default();
/// for row in [[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]] {
///     moments.insert(&row);
/// }
/// moments.remove(&[3.0, 60.0]);
/// assert_eq!(moments.mean(1), 15.0);
/// assert_eq!(moments.scatter(0, 1), 5.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Moments<const D: usize> {
    count: usize,
    damaged: bool,
    anchor: [f64; D],
    sums: Sums<D>,
    /// Sums of products of differences from the anchor: `products[apart]` at `i` is that of column
    /// `i` with the one so far beyond it, counted around, so that each pair stands there once and
    /// all rows are of one length; those beyond half way around are not in use.
    products: [Sums<D>; D],
    /// Largest sum of squares that each column has had since the last rebuild.
    peaks: [f64; D],
}

impl<const D: usize> Default for Moments<D> {
    fn default() -> Self {
        Self {
            count: 0,
            damaged: false,
            anchor: [0.0; D],
            sums: Sums::<D>::ZERO,
            products: [Sums::<D>::ZERO; D],
            peaks: [0.0; D],
        }
    }
}

impl<const D: usize> Moments<D> {
    /// Number of rows that are in.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds one row.
    pub fn insert(&mut self, row: &[f64; D]) {
        if self.count == 0 {
            self.anchor = *row;
        }
        self.count += 1;
        self.accumulate::<true, false>(row, row);
    }

    /// Takes out one row that was inserted before.
    pub fn remove(&mut self, row: &[f64; D]) {
        match self.count {
            0 => self.damaged = true,
            1 => *self = Self::default(),
            _ => {
                self.count -= 1;
                self.accumulate::<false, true>(row, row);
            }
        }
    }

    /// Adds one row and takes out another: as [`insert`](Self::insert) and then
    /// [`remove`](Self::remove), bit for bit, in one pass.
    pub fn exchange(&mut self, added: &[f64; D], removed: &[f64; D]) {
        if self.count == 0 {
            self.insert(added);
            self.remove(removed);
        } else {
            self.accumulate::<true, true>(added, removed);
        }
    }

    /// Starts again from the given rows, anchored at their means.
    pub fn rebuild(&mut self, rows: impl Iterator<Item = [f64; D]> + Clone) {
        *self = Self::default();
        let mut shift = Sums::<D>::ZERO;
        let mut first = [0.0; D];
        for row in rows.clone() {
            if self.count == 0 {
                first = row;
            }
            self.count += 1;
            for i in 0..D {
                shift.add(i, row[i] - first[i]);
            }
        }
        // A constant column is anchored exactly at its constant, so that its scatter is zero.
        for i in 0..D {
            self.anchor[i] = first[i] + shift.total(i) / self.count.max(1) as f64;
        }
        for row in rows {
            self.accumulate::<true, false>(&row, &row);
        }
    }

    fn accumulate<const ADD: bool, const REMOVE: bool>(
        &mut self,
        added: &[f64; D],
        removed: &[f64; D],
    ) {
        // Twice in a row, so that what is so far around is a slice.
        let differences = |row: &[f64; D]| [std::array::from_fn(|i| row[i] - self.anchor[i]); 2];
        let (added, removed): ([[f64; D]; 2], [[f64; D]; 2]) =
            (differences(added), differences(removed));
        for i in 0..D {
            if ADD {
                self.sums.add(i, added[0][i]);
            }
            if REMOVE {
                self.sums.add(i, -removed[0][i]);
            }
        }
        for apart in 0..=D / 2 {
            let sums = &mut self.products[apart];
            let (beyond_added, beyond_removed) =
                (&added.as_flattened()[apart..][..D], &removed.as_flattened()[apart..][..D]);
            for i in 0..D {
                if ADD {
                    sums.add(i, added[0][i] * beyond_added[i]);
                    if apart == 0 {
                        self.peaks[i] = self.peaks[i].max(sums.values[i]);
                    }
                }
                if REMOVE {
                    sums.add(i, -(removed[0][i] * beyond_removed[i]));
                }
            }
        }
    }

    /// The statistics about the means.
    #[inline]
    pub fn centred(&self) -> Centred<D> {
        let share = 1.0 / self.count.max(1) as f64;
        let mut centred = Centred {
            count: self.count,
            mean: [0.0; D],
            residue: [0.0; D],
            scatter: [[0.0; D]; D],
            is_sound: !self.damaged,
        };
        let sums: [[f64; D]; 2] = [std::array::from_fn(|i| self.sums.total(i)); 2];
        for i in 0..D {
            let offset = sums[0][i] * share;
            centred.mean[i] = self.anchor[i] + offset;
            centred.residue[i] = (self.anchor[i] - centred.mean[i]) + offset;
        }
        for apart in 0..=D / 2 {
            let (products, beyond) = (&self.products[apart], &sums.as_flattened()[apart..][..D]);
            let scatter: [f64; D] =
                std::array::from_fn(|i| products.total(i) - sums[0][i] * beyond[i] * share);
            for i in 0..D {
                let j = if i + apart < D { i + apart } else { i + apart - D };
                centred.scatter[i][j] = scatter[i];
                centred.scatter[j][i] = scatter[i];
            }
        }
        for i in 0..D {
            let scatter = centred.scatter[i][i];
            centred.is_sound &= scatter.is_finite()
                && sums[0][i] * sums[0][i] * share <= REMOTE_ANCHOR * scatter
                && self.peaks[i] <= EXHAUSTED * scatter;
            // Rounding must not make a sum of squares negative; NaN must stay visible.
            if scatter < 0.0 {
                centred.scatter[i][i] = 0.0;
            }
        }
        centred
    }

    /// Mean of column `i`; 0 while empty.
    pub fn mean(&self, i: usize) -> f64 {
        self.centred().mean[i]
    }

    /// Scatter of columns `i` and `j`.
    pub fn scatter(&self, i: usize, j: usize) -> f64 {
        self.centred().scatter[i][j]
    }

    /// Whether the scatter of every column is good to about 1e-14 of itself.
    ///
    /// Where it is not, a [`rebuild`](Self::rebuild) from the rows mends it.
    pub fn is_sound(&self) -> bool {
        self.centred().is_sound
    }
}

/// Statistics about the means.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Centred<const D: usize> {
    /// Number of rows.
    pub count: usize,
    /// Mean of each column; 0 while empty.
    pub mean: [f64; D],
    /// What rounding took from each mean: of a large mean, that can be much of a small spread.
    residue: [f64; D],
    /// Sums over rows of products of deviations from the means; the diagonal is not negative.
    pub scatter: [[f64; D]; D],
    /// Whether each diagonal entry is good to about 1e-14 of itself; where one is not, the
    /// statistics should be rebuilt from the rows.
    pub is_sound: bool,
}

/// Standard deviation, in the unit of a column, up to which it counts as constant.
pub(crate) const ROUNDING: f64 = 1e-12;

/// Whether the standard deviation of a column is no more than `deviation`.
pub(crate) fn is_constant(scatter: f64, deviation: f64, count: usize) -> bool {
    scatter <= deviation * deviation * count as f64
}

impl<const D: usize> Centred<D> {
    /// The statistics of rows that stay, each counted by its weight, in the working precision.
    ///
    /// The weights are those of the rows in order; they sum to the number of rows.
    pub(crate) fn of(rows: &[[f64; D]], weights: &[f64]) -> Self {
        let share = 1.0 / rows.len().max(1) as f64;
        let first = rows.first().copied().unwrap_or([0.0; D]);
        let mut shift = [0.0; D];
        for (row, weight) in rows.iter().zip(weights) {
            for i in 0..D {
                shift[i] += weight * (row[i] - first[i]);
            }
        }
        // A constant column has exactly its constant for a mean, so that its scatter is zero.
        let mean: [f64; D] = std::array::from_fn(|i| first[i] + shift[i] * share);
        let mut scatter = [[0.0; D]; D];
        for (row, weight) in rows.iter().zip(weights) {
            let difference: [f64; D] = std::array::from_fn(|i| row[i] - mean[i]);
            let weighted = difference.map(|difference| weight * difference);
            for i in 0..D {
                for j in 0..D {
                    scatter[i][j] += weighted[i] * difference[j];
                }
            }
        }
        // Weighting one factor leaves the halves a rounding apart.
        for i in 1..D {
            for j in 0..i {
                scatter[i][j] = scatter[j][i];
            }
        }
        Self { count: rows.len(), mean, residue: [0.0; D], scatter, is_sound: true }
    }

    /// The value at the rounded means of the plane through the true ones that has these slopes.
    pub(crate) fn value_at_means<const P: usize>(&self, slopes: &[f64; P]) -> f64 {
        const { assert!(P + 1 == D, "the last column is the target") };
        let shift =
            self.residue[P] - (0..P).fold(0.0, |shift, i| shift + slopes[i] * self.residue[i]);
        self.mean[P] + shift
    }

    /// The least-squares problem of the last column on the `P` before it, without an intercept.
    pub(crate) fn regression_from_zero<const P: usize>(&self) -> NormalEquations<P> {
        const { assert!(P + 1 == D, "the last column is the target") };
        let count = self.count as f64;
        let product = |i: usize, j: usize| self.scatter[i][j] + count * self.mean[i] * self.mean[j];
        NormalEquations {
            gram: std::array::from_fn(|i| std::array::from_fn(|j| product(i, j))),
            rhs: std::array::from_fn(|i| product(i, P)),
            target: product(P, P),
        }
    }

    /// The least-squares problem of the last column on the `P` before it, those that vary; and
    /// whether it is clear of each that it does or does not.
    ///
    /// `unit` is that of a column, in which [`ROUNDING`] counts.
    pub(crate) fn regression<const P: usize>(
        &self,
        unit: impl Fn(usize) -> f64,
    ) -> (NormalEquations<P>, bool) {
        const { assert!(P + 1 == D, "the last column is the target") };
        let row = |i: usize| std::array::from_fn(|j| self.scatter[i][j]);
        let mut problem = NormalEquations {
            gram: std::array::from_fn(row),
            rhs: row(P),
            target: self.scatter[P][P],
        };
        let mut all_clear = true;
        for i in 0..P {
            let (scatter, deviation) = (self.scatter[i][i], ROUNDING * unit(i));
            let is_constant = |factor: f64| is_constant(factor * scatter, deviation, self.count);
            all_clear &= is_constant(100.0) || !is_constant(0.01);
            if is_constant(1.0) {
                problem.leave_out(i);
            }
        }
        (problem, all_clear)
    }
}

#[cfg(test)]
mod tests;
