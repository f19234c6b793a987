//! Nonnegative least squares on normal equations, with the optimality conditions checked.

/// A least-squares problem `min |A b - t|²` given by its products, in `P` unknowns.
///
/// Only `AᵀA`, `Aᵀt` and `tᵀt` are needed, so the number of rows does not matter. Columns of any
/// magnitude may stand side by side: the solver works on unit columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormalEquations<const P: usize> {
    /// `AᵀA`, symmetric.
    pub gram: [[f64; P]; P],
    /// `Aᵀt`.
    pub rhs: [f64; P],
    /// `tᵀt`.
    pub target: f64,
}

impl<const P: usize> NormalEquations<P> {
    /// Makes a column one of zeros.
    pub(crate) fn leave_out(&mut self, column: usize) {
        self.rhs[column] = 0.0;
        self.gram[column] = [0.0; P];
        for row in &mut self.gram {
            row[column] = 0.0;
        }
    }
}

/// A minimiser over nonnegative coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Solution<const P: usize> {
    /// The coefficients, each exactly zero or positive.
    pub coefficients: [f64; P],
    /// Sum of squared errors at the coefficients, not below zero.
    pub sse: f64,
    /// Columns in use, as bits.
    pub used: u32,
    /// Whether the margins by which columns depend on others, or do not, are wide: where they are
    /// not, rounding in the products decides more of the answer than it should.
    pub is_decided: bool,
}

/// Squared distance from the span of other columns, relative to a column's squared length, above
/// which a column is clearly apart, and below which it clearly depends on them.
pub(crate) const APART: f64 = 1e-6;
const CLEARLY_DEPENDENT: f64 = 1e-13;

/// A gradient this small, for a target and a column of about unit length, is rounding.
const GRADIENT_TOLERANCE: f64 = 1e-12;

/// Largest violation of the optimality conditions that a solution may have, on that scale.
const KKT_TOLERANCE: f64 = 1e-8;

/// Squared distance from the span of others, relative to its squared length, below which a column
/// depends on them.
pub const DEPENDENT: f64 = 1e-12;

/// A coefficient this large on that scale is not rounding.
const CLEARLY_POSITIVE: f64 = 1e-9;

/// Two entering columns whose gradients agree this well are a tie; the first one enters.
const TIE: f64 = 1e-9;

/// Solves the problem over nonnegative coefficients.
///
/// Where a column depends on those already used ([`DEPENDENT`]), the set is solved once more with
/// `ridge` times its size plus one on the unit diagonal, and kept only if that lowers the
/// unpenalised error; otherwise the earlier columns stand for it and its coefficient is zero.
///
/// `None` where a number is not finite or the optimality conditions cannot be met.
///
/// ```
/// use forepass::nnls::{NormalEquations, solve};
///
/// // A = [[1, 1], [3, 2]], t = [2, 3]: the optimum lies on the boundary.
/// let problem = NormalEquations { gram: [[10.0, 7.0], [7.0, 5.0]], rhs: [11.0, 8.0], target: 13.0 };
/// let solution = solve(&problem, 0.0).unwrap();
/// assert_eq!(solution.coefficients[0], 0.0);
/// assert!((solution.coefficients[1] - 1.6).abs() < 1e-14);
/// assert!((solution.sse - 0.2).abs() < 1e-13);
/// ```
pub fn solve<const P: usize>(problem: &NormalEquations<P>, ridge: f64) -> Option<Solution<P>> {
    solve_from(problem, ridge, 0)
}

/// As [`solve`], trying first whether the columns of `likely` are those in use.
///
/// The answer is the same, and sooner found where the guess is right.
pub fn solve_from<const P: usize>(
    problem: &NormalEquations<P>,
    ridge: f64,
    likely: u32,
) -> Option<Solution<P>> {
    let usable = usable(problem);
    let start = if likely & usable == 0 { usable } else { likely & usable };
    // Where no column depends on others there is one optimum, however it is found.
    let quick = exchanged(problem, start).and_then(|(solution, mut independence)| {
        if solution.used != usable {
            independence = Elimination::of(&problem.gram, usable).independence;
        }
        let is_decided = independence > APART;
        (independence > DEPENDENT).then_some(Solution { is_decided, ..solution })
    });
    quick.or_else(|| {
        let unit = UnitProblem::of(problem)?;
        let point = unit.active_set(ridge).or_else(|| unit.best_face())?;
        unit.solution(&point)
    })
}

/// The least error over nonnegative coefficients and the columns that reach it, trying first
/// whether those of `likely` do; where columns depend on others, any of the optima will do.
pub fn least_error<const P: usize>(
    problem: &NormalEquations<P>,
    likely: u32,
) -> Option<(f64, u32)> {
    let quick = exchanged(problem, likely & usable(problem)).map(|(solution, _)| solution);
    let Solution { sse, used, .. } = quick.or_else(|| solve(problem, 0.0))?;
    Some((sse, used))
}

/// The columns that are not zero, as bits.
pub(crate) fn usable<const P: usize>(problem: &NormalEquations<P>) -> u32 {
    (0..P).fold(0, |mask, i| mask | u32::from(problem.gram[i][i] > 0.0) << i)
}

/// The optimum of all, where a few exchanges of columns lead to it from those in `mask`, and the
/// independence of its columns.
fn exchanged<const P: usize>(
    problem: &NormalEquations<P>,
    mut mask: u32,
) -> Option<(Solution<P>, f64)> {
    const EXCHANGES: usize = 8;
    for _ in 0..EXCHANGES {
        let face = Elimination::of(&problem.gram, mask);
        if !face.is_independent() {
            return None;
        }
        match certified(problem, mask, face.optimum(&problem.rhs)) {
            Ok(solution) => return Some((solution, face.independence)),
            Err(0) => return None,
            Err(exchange) => mask ^= exchange,
        }
    }
    None
}

/// The optimum of a face as the optimum of all, where it clearly is nonnegative and no other
/// column would lower the error; else the columns to take in or out, none where that is unclear.
fn certified<const P: usize>(
    problem: &NormalEquations<P>,
    mask: u32,
    x: [f64; P],
) -> Result<Solution<P>, u32> {
    let NormalEquations { gram, rhs, target } = problem;
    let clear = CLEARLY_POSITIVE * CLEARLY_POSITIVE * target;
    let is_clear = |i: usize| x[i] > 0.0 && x[i] * x[i] * gram[i][i] > clear;
    let leaving = bits(mask).filter(|&i| !is_clear(i)).fold(0, |mask, i| mask | 1 << i);
    if leaving != 0 {
        let is_finite = x.iter().chain(rhs).all(|value| value.is_finite());
        return Err(if is_finite { leaving } else { 0 });
    }
    let mut gradients = *rhs;
    for j in bits(mask) {
        for (gradient, product) in gradients.iter_mut().zip(&gram[j]) {
            *gradient -= x[j] * product;
        }
    }
    if !gradients.iter().all(|gradient| gradient.is_finite()) {
        return Err(0);
    }
    let mut sse = *target;
    let (mut entering, mut steepest) = (0, 0.0);
    for i in 0..P {
        let (gradient, squared_length) = (gradients[i], gram[i][i]);
        if mask >> i & 1 == 1 {
            let small = KKT_TOLERANCE * KKT_TOLERANCE * squared_length * target;
            if gradient * gradient > small {
                return Err(0);
            }
            sse -= x[i] * (rhs[i] + gradient);
        } else if gradient > 0.0 && squared_length > 0.0 {
            let small = GRADIENT_TOLERANCE * GRADIENT_TOLERANCE * squared_length * target;
            let descent = gradient * gradient / squared_length;
            if gradient * gradient > small && descent > steepest {
                (entering, steepest) = (1 << i, descent);
            }
        }
    }
    if entering != 0 {
        return Err(entering);
    }
    let solution = Solution { coefficients: x, sse: sse.max(0.0), used: mask, is_decided: true };
    if sse.is_finite() { Ok(solution) } else { Err(0) }
}

/// The products of some columns after elimination from the top.
///
/// The units of columns and target do not matter to it.
pub(crate) struct Elimination<const P: usize> {
    /// The columns, as bits.
    mask: u32,
    /// Whole rows, without the columns above each.
    rows: [[f64; P]; P],
    per_pivot: [f64; P],
    /// Least squared distance of a column from the span of those before it, relative to its own
    /// squared length; where that is no more than [`DEPENDENT`], nothing else has a meaning.
    independence: f64,
}

impl<const P: usize> Elimination<P> {
    /// Eliminates the columns of `mask`; the others stay out.
    pub(crate) fn of(gram: &[[f64; P]; P], mask: u32) -> Self {
        Self::with_ridge(gram, mask, 0.0)
    }

    #[inline]
    fn with_ridge(gram: &[[f64; P]; P], mask: u32, ridge: f64) -> Self {
        let mut face = Self { mask, rows: *gram, per_pivot: [0.0; P], independence: f64::INFINITY };
        if ridge > 0.0 {
            for i in bits(mask) {
                face.rows[i][i] *= 1.0 + ridge * f64::from(mask.count_ones() + 1);
            }
        }
        for i in (0..P).filter(|i| mask >> i & 1 == 1) {
            let row = face.rows[i];
            let relative = row[i] / gram[i][i];
            if relative <= DEPENDENT || relative.is_nan() {
                face.independence = relative.max(0.0);
                break;
            }
            face.independence = face.independence.min(relative);
            face.per_pivot[i] = 1.0 / row[i];
            for j in (i + 1..P).filter(|j| mask >> j & 1 == 1) {
                let factor = row[j] * face.per_pivot[i];
                for (entry, above) in face.rows[j].iter_mut().zip(&row) {
                    *entry -= factor * above;
                }
            }
        }
        face
    }

    /// Takes the columns, from the top, out of a vector of products with all columns: calls `take`
    /// with each column, what was left of its product then, and its price without those below.
    pub(crate) fn reduce(&self, products: &mut [f64; P], mut take: impl FnMut(usize, f64, f64)) {
        for i in (0..P).filter(|i| self.mask >> i & 1 == 1) {
            let (left, price) = (products[i], products[i] * self.per_pivot[i]);
            for (product, above) in products.iter_mut().zip(&self.rows[i]) {
                *product -= price * above;
            }
            take(i, left, price);
        }
    }

    /// The unconstrained optimum of the columns, the others zero.
    fn optimum(&self, rhs: &[f64; P]) -> [f64; P] {
        let mut prices = [0.0; P];
        self.reduce(&mut { *rhs }, |i, _, price| prices[i] = price);
        let mut x = [0.0; P];
        for i in (0..P).rev().filter(|i| self.mask >> i & 1 == 1) {
            // Columns above are still zero.
            let below = (0..P).fold(0.0, |below, k| below + self.rows[i][k] * x[k]);
            x[i] = prices[i] - below * self.per_pivot[i];
        }
        x
    }

    fn is_independent(&self) -> bool {
        self.independence > DEPENDENT
    }

    pub(crate) fn is_apart(&self) -> bool {
        self.independence > APART
    }
}

/// Solves on one face: the columns of `mask` free in sign, the others zero, with `ridge` as in
/// [`solve`] but always applied.
///
/// `None` where the set is singular.
pub fn solve_face<const P: usize>(
    problem: &NormalEquations<P>,
    mask: u32,
    ridge: f64,
) -> Option<Solution<P>> {
    let unit = UnitProblem::of(problem)?;
    let face = unit.face(mask, ridge)?;
    let (x, is_decided) = (face.optimum(&unit.problem.rhs), face.is_apart());
    unit.solution(&Point { x, used: mask, is_decided, ..Point::default() })
}

/// The problem with columns, and a target, of about unit length.
///
/// The units are powers of two, so that nothing is rounded and no root is taken.
struct UnitProblem<const P: usize> {
    problem: NormalEquations<P>,
    /// Factor that was applied to each column, zero for a zero column.
    column_scale: [f64; P],
    target_scale: f64,
    /// Columns that are not zero.
    usable: u32,
}

struct Point<const P: usize> {
    x: [f64; P],
    used: u32,
    /// Columns left out because they depend on others.
    dependent: u32,
    /// Whether a ridge was needed, so that the plain gradient is not zero.
    ridged: bool,
    is_decided: bool,
}

impl<const P: usize> Default for Point<P> {
    fn default() -> Self {
        Self { x: [0.0; P], used: 0, dependent: 0, ridged: false, is_decided: true }
    }
}

impl<const P: usize> UnitProblem<P> {
    fn of(problem: &NormalEquations<P>) -> Option<Self> {
        let target_scale = per_root(problem.target);
        let target_scale = if target_scale > 0.0 { target_scale } else { 1.0 };
        let column_scale: [f64; P] = std::array::from_fn(|i| per_root(problem.gram[i][i]));
        let mut unit = Self {
            problem: NormalEquations {
                gram: [[0.0; P]; P],
                rhs: [0.0; P],
                target: problem.target.max(0.0) * target_scale * target_scale,
            },
            column_scale,
            target_scale,
            usable: 0,
        };
        let mut finite = problem.target.is_finite();
        for i in 0..P {
            unit.usable |= u32::from(column_scale[i] > 0.0) << i;
            unit.problem.rhs[i] = problem.rhs[i] * column_scale[i] * target_scale;
            finite &= unit.problem.rhs[i].is_finite();
            for j in 0..P {
                unit.problem.gram[i][j] = problem.gram[i][j] * column_scale[i] * column_scale[j];
                finite &= unit.problem.gram[i][j].is_finite();
            }
        }
        finite.then_some(unit)
    }

    /// Lawson and Hanson's method: columns enter by steepest descent and leave at zero.
    fn active_set(&self, ridge: f64) -> Option<Point<P>> {
        let mut point = Point::default();
        for _ in 0..4 * P + 8 {
            let Some(entering) = self.entering(&point) else {
                return self.is_optimal(&point).then_some(point);
            };
            let trial = point.used | 1 << entering;
            let face = Elimination::of(&self.problem.gram, trial);
            if face.is_independent() {
                point.is_decided &= face.is_apart();
                let before = point.used;
                self.step(&mut point, trial, face.optimum(&self.problem.rhs))?;
                point.ridged = false;
                if before & !point.used != 0 {
                    // What depended on columns that have left may enter again.
                    point.dependent = 0;
                }
                if point.used & (1 << entering) == 0 {
                    point.dependent |= 1 << entering;
                }
                continue;
            }
            point.is_decided &= face.independence <= CLEARLY_DEPENDENT;
            match self.face(trial, ridge).map(|face| face.optimum(&self.problem.rhs)) {
                Some(x)
                    if ridge > 0.0
                        && bits(trial).all(|i| x[i] > 0.0)
                        && self.sse(&x) < self.sse(&point.x) - GRADIENT_TOLERANCE =>
                {
                    point.x = x;
                    point.ridged = true;
                    point.used = trial;
                }
                _ => point.dependent |= 1 << entering,
            }
        }
        None
    }

    /// The column whose coefficient, raised from zero, lowers the error fastest for its length.
    fn entering(&self, point: &Point<P>) -> Option<usize> {
        let candidates = bits(self.usable & !point.used & !point.dependent);
        let descent = |i: usize| self.gradient(&point.x, i) / self.problem.gram[i][i].sqrt();
        let steepest = candidates.clone().map(descent).fold(0.0, f64::max);
        if steepest <= GRADIENT_TOLERANCE * self.problem.target.sqrt() {
            return None;
        }
        candidates.into_iter().find(|&i| descent(i) >= steepest * (1.0 - TIE))
    }

    /// Moves towards the optimum of the face `trial` without leaving the nonnegative region,
    /// dropping columns that reach zero.
    fn step(&self, point: &mut Point<P>, mut trial: u32, mut optimum: [f64; P]) -> Option<()> {
        let x = &mut point.x;
        while bits(trial).any(|i| optimum[i] <= 0.0) {
            let reach = |i: usize| {
                if x[i] > 0.0 { x[i] / (x[i] - optimum[i]) } else { 0.0 }
            };
            let blocking = bits(trial).filter(|&i| optimum[i] <= 0.0);
            let fraction = blocking.clone().map(reach).fold(1.0, f64::min);
            let leaving =
                blocking.filter(|&i| reach(i) <= fraction).fold(0, |mask, i| mask | 1 << i);
            if leaving == 0 {
                return None; // only where a number is not finite
            }
            for i in bits(trial) {
                x[i] += fraction * (optimum[i] - x[i]);
            }
            for i in bits(leaving) {
                x[i] = 0.0;
            }
            trial &= !leaving;
            optimum = self.face(trial, 0.0)?.optimum(&self.problem.rhs);
        }
        point.x = optimum;
        point.used = trial;
        Some(())
    }

    fn face(&self, mask: u32, ridge: f64) -> Option<Elimination<P>> {
        let face = Elimination::with_ridge(&self.problem.gram, mask, ridge);
        face.is_independent().then_some(face)
    }

    /// The best nonnegative face of all, each solved by itself: slow and obvious.
    fn best_face(&self) -> Option<Point<P>> {
        let mut best = Point::default();
        let mut best_sse = self.sse(&best.x);
        for mask in (1..1u32 << P).filter(|mask| mask & !self.usable == 0) {
            let Some(face) = self.face(mask, 0.0) else {
                continue;
            };
            let x = face.optimum(&self.problem.rhs);
            let sse = self.sse(&x);
            if x.iter().all(|&value| value >= 0.0) && sse < best_sse - GRADIENT_TOLERANCE {
                let is_decided = face.is_apart();
                best = Point { x, used: mask, is_decided, ..Point::default() };
                best_sse = sse;
            }
        }
        self.is_optimal(&best).then_some(best)
    }

    /// How fast the error falls as coefficient `i` rises.
    fn gradient(&self, x: &[f64; P], i: usize) -> f64 {
        (0..P).fold(self.problem.rhs[i], |gradient, j| gradient - self.problem.gram[i][j] * x[j])
    }

    /// Squared error at `x`, the squared target being about one.
    fn sse(&self, x: &[f64; P]) -> f64 {
        (0..P).fold(self.problem.target, |sse, i| {
            sse - x[i] * (self.problem.rhs[i] + self.gradient(x, i))
        })
    }

    /// Karush, Kuhn and Tucker: no column in use can be improved, none at zero should rise.
    fn is_optimal(&self, point: &Point<P>) -> bool {
        bits(self.usable & !point.dependent).all(|i| {
            let gradient = self.gradient(&point.x, i);
            point.x[i] >= 0.0
                && point.x[i].is_finite()
                && gradient <= KKT_TOLERANCE
                && (point.x[i] == 0.0 || point.ridged || gradient >= -KKT_TOLERANCE)
        })
    }

    fn solution(&self, point: &Point<P>) -> Option<Solution<P>> {
        let per_target = 1.0 / self.target_scale;
        let coefficients: [f64; P] =
            std::array::from_fn(|i| point.x[i] * self.column_scale[i] * per_target);
        let sse = self.sse(&point.x).max(0.0) * per_target * per_target;
        let finite = sse.is_finite() && coefficients.iter().all(|value| value.is_finite());
        let (used, is_decided) = (point.used, point.is_decided);
        finite.then_some(Solution { coefficients, sse, used, is_decided })
    }
}

/// A power of two within a factor of two of `1 / sqrt(value)`; zero unless that is positive.
fn per_root(value: f64) -> f64 {
    const BIAS: u64 = 1023;
    if value > 0.0 && value.is_finite() {
        // The exponent, halved and negated; subnormal values count as the smallest normal ones.
        let exponent = (value.to_bits() >> 52).max(1);
        f64::from_bits((BIAS + (BIAS >> 1) - (exponent >> 1)) << 52)
    } else {
        0.0
    }
}

/// The positions of the bits of `mask`, ascending.
pub(crate) fn bits(mut mask: u32) -> impl Iterator<Item = usize> + Clone {
    std::iter::from_fn(move || {
        let position = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (position < u32::BITS).then_some(position as usize)
    })
}

#[cfg(test)]
mod tests;
