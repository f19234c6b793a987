//! How low the error could get with a knot at a candidate, without solving for it.
//!
//! Beside a moving knot two columns change and the others stay, and so does the elimination of
//! those in use among them. Letting their prices take either sign leaves two unknowns.

use super::sums::Moved;
use crate::nnls::{APART, Elimination, NormalEquations, bits, usable};

/// The columns that stay, with those in use eliminated.
pub(super) struct Bound<const P: usize> {
    in_use: Elimination<P>,
    /// Columns that stay but are not in use, and how the error would fall along each.
    others: u32,
    gradient: [f64; P],
    /// The error without the two columns that change.
    error: f64,
}

impl<const P: usize> Bound<P> {
    /// `None` where the columns of `used` nearly depend on each other.
    pub(super) fn of(problem: &NormalEquations<P>, used: u32, moving: u32) -> Option<Self> {
        let in_use = Elimination::of(problem, used & !moving);
        let mut gradient = problem.rhs;
        let mut error = problem.target;
        for i in bits(used & !moving) {
            let price = in_use.rhs[i] * in_use.per_pivot[i];
            error -= price * in_use.rhs[i];
            for (gradient, product) in gradient.iter_mut().zip(&in_use.rows[i]) {
                *gradient -= price * product;
            }
        }
        in_use.is_apart().then_some(Self {
            in_use,
            others: usable(problem) & !used & !moving,
            gradient,
            error,
        })
    }

    /// No prices that are not negative give less error than this; `None` where that is unclear.
    pub(super) fn error<const D: usize>(&self, moved: &Moved<'_, D>) -> Option<f64> {
        const { assert!(P + 1 == D, "the last column is the target") };
        let Moved { columns, mut scatters, mut between, .. } = *moved;
        let whole = scatters;
        let mut rhs = columns.map(|sums| sums.with[P]);
        let mut products: [[f64; P]; 2] =
            columns.map(|sums| std::array::from_fn(|i| sums.with[i]));
        for i in bits(self.in_use.mask) {
            let known = [products[0][i], products[1][i]];
            let prices = known.map(|product| product * self.in_use.per_pivot[i]);
            between -= known[0] * prices[1];
            for side in 0..2 {
                scatters[side] -= known[side] * prices[side];
                rhs[side] -= prices[side] * self.in_use.rhs[i];
                for (product, above) in products[side].iter_mut().zip(&self.in_use.rows[i]) {
                    *product -= prices[side] * above;
                }
            }
        }
        let determinant = scatters[0] * scatters[1] - between * between;
        let is_apart = scatters[0] > APART * whole[0]
            && scatters[1] > APART * whole[1]
            && determinant > APART * scatters[0] * scatters[1];
        if !is_apart {
            return None;
        }
        let mut x = [
            (rhs[0] * scatters[1] - rhs[1] * between) / determinant,
            (rhs[1] * scatters[0] - rhs[0] * between) / determinant,
        ];
        if x[0] < 0.0 || x[1] < 0.0 {
            // One of them alone, then, or none.
            let gain = |side: usize| rhs[side].max(0.0) * (rhs[side] / scatters[side]);
            let side = usize::from(gain(1) > gain(0));
            x = [0.0; 2];
            x[side] = rhs[side].max(0.0) / scatters[side];
        }
        let is_optimal = bits(self.others).all(|i| {
            self.gradient[i] <= x[0] * products[0][i] + x[1] * products[1][i]
        });
        let error = self.error - x[0] * rhs[0] - x[1] * rhs[1];
        (is_optimal && error.is_finite()).then_some(error)
    }
}
