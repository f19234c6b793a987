//! How low the error could get with a knot at a candidate, without solving for it.
//!
//! Beside a moving knot two columns change and the others stay, and so does the elimination of
//! those in use among them. Letting their prices take either sign leaves two unknowns.

use super::sums::Moved;
use crate::nnls::{APART, Elimination, NormalEquations, bits, usable};

/// The columns that stay, with those in use eliminated.
pub(super) struct Bound<const P: usize> {
    in_use: Elimination<P>,
    /// What is left of the products of each with the target when its turn comes.
    rhs: [f64; P],
    /// Columns that stay but are not in use, and how the error would fall along each.
    others: u32,
    gradient: [f64; P],
    /// The error without the two columns that change.
    error: f64,
}

impl<const P: usize> Bound<P> {
    /// `None` where the columns of `used` nearly depend on each other.
    pub(super) fn of(problem: &NormalEquations<P>, used: u32, moving: u32) -> Option<Self> {
        let in_use = Elimination::of(&problem.gram, used & !moving);
        let (mut gradient, mut error) = (problem.rhs, problem.target);
        let mut rhs = [0.0; P];
        in_use.reduce(&mut gradient, |i, left, price| {
            rhs[i] = left;
            error -= left * price;
        });
        in_use.is_apart().then_some(Self {
            in_use,
            rhs,
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
        let mut products: [[f64; P]; 2] = columns.map(|sums| std::array::from_fn(|i| sums.with[i]));
        let mut first = [0.0; P];
        self.in_use.reduce(&mut products[0], |i, left, price| {
            first[i] = left;
            scatters[0] -= left * price;
            rhs[0] -= price * self.rhs[i];
        });
        self.in_use.reduce(&mut products[1], |i, left, price| {
            between -= first[i] * price;
            scatters[1] -= left * price;
            rhs[1] -= price * self.rhs[i];
        });
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
        let is_optimal = bits(self.others)
            .all(|i| self.gradient[i] <= x[0] * products[0][i] + x[1] * products[1][i]);
        let error = self.error - x[0] * rhs[0] - x[1] * rhs[1];
        (is_optimal && error.is_finite()).then_some(error)
    }
}
