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

/// A minimiser over nonnegative coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Solution<const P: usize> {
    /// The coefficients, each exactly zero or positive.
    pub coefficients: [f64; P],
    /// Sum of squared errors at the coefficients, not below zero.
    pub sse: f64,
}

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
    interior(problem).or_else(|| {
        let unit = UnitProblem::of(problem)?;
        let point = unit.active_set(ridge).or_else(|| unit.best_face())?;
        unit.solution(&point)
    })
}

/// The unconstrained optimum, where it is clearly nonnegative already: most often it is.
fn interior<const P: usize>(problem: &NormalEquations<P>) -> Option<Solution<P>> {
    let NormalEquations { gram, rhs, target } = problem;
    let usable = (0..P).fold(0, |mask, i| mask | u32::from(gram[i][i] > 0.0) << i);
    let x = face(gram, rhs, usable, 0.0)?;
    let mut sse = *target;
    for i in 0..P {
        let gradient = (0..P).fold(rhs[i], |gradient, j| gradient - gram[i][j] * x[j]);
        let small = KKT_TOLERANCE * KKT_TOLERANCE * target * gram[i][i];
        let clear = CLEARLY_POSITIVE * CLEARLY_POSITIVE * target;
        let inside = x[i] > 0.0 && x[i] * x[i] * gram[i][i] > clear && gradient * gradient <= small;
        if !inside && usable >> i & 1 == 1 {
            return None;
        }
        sse -= x[i] * (rhs[i] + gradient);
    }
    sse.is_finite().then_some(Solution {
        coefficients: x,
        sse: sse.max(0.0),
    })
}

/// The unconstrained optimum of the columns in `mask`, the others zero; `None` if singular.
///
/// The units of columns and target do not matter to it.
fn face<const P: usize>(
    gram: &[[f64; P]; P],
    rhs: &[f64; P],
    mask: u32,
    ridge: f64,
) -> Option<[f64; P]> {
    let diagonal = 1.0 + ridge * f64::from(mask.count_ones() + 1);
    // The factors L D Lᵀ, with the reciprocals of D; unused rows stay zero.
    let mut lower = [[0.0; P]; P];
    let mut per_pivot = [0.0; P];
    let mut x = [0.0; P];
    for i in 0..P {
        if mask >> i & 1 == 0 {
            continue;
        }
        let mut entries = [0.0; P];
        let mut pivot = gram[i][i] * diagonal;
        x[i] = rhs[i];
        for j in 0..i {
            if mask >> j & 1 == 1 {
                entries[j] = gram[i][j];
                for k in 0..j {
                    entries[j] -= entries[k] * lower[j][k];
                }
                lower[i][j] = entries[j] * per_pivot[j];
                pivot -= entries[j] * lower[i][j];
                x[i] -= lower[i][j] * x[j];
            }
        }
        if pivot <= DEPENDENT * gram[i][i] {
            return None;
        }
        per_pivot[i] = 1.0 / pivot;
    }
    for i in (0..P).rev() {
        x[i] *= per_pivot[i];
        for k in i + 1..P {
            x[i] -= lower[k][i] * x[k];
        }
    }
    Some(x)
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
    let point = unit.face(mask, ridge)?;
    unit.solution(&Point {
        x: point,
        ..Point::default()
    })
}

/// The problem with columns, and a target, of about unit length.
///
/// The units are powers of two, so that nothing is rounded and no root is taken.
struct UnitProblem<const P: usize> {
    gram: [[f64; P]; P],
    rhs: [f64; P],
    target: f64,
    /// Factor that was applied to each column, zero for a zero column.
    column_scale: [f64; P],
    target_scale: f64,
    /// Columns that are not zero.
    usable: u32,
}

struct Point<const P: usize> {
    x: [f64; P],
    /// Columns left out because they depend on others.
    dependent: u32,
    /// Whether a ridge was needed, so that the plain gradient is not zero.
    ridged: bool,
}

impl<const P: usize> Default for Point<P> {
    fn default() -> Self {
        Self {
            x: [0.0; P],
            dependent: 0,
            ridged: false,
        }
    }
}

impl<const P: usize> UnitProblem<P> {
    fn of(problem: &NormalEquations<P>) -> Option<Self> {
        const { assert!(P <= 16, "faces are numbered by bits of a u32") };
        let target_scale = per_root(problem.target);
        let target_scale = if target_scale > 0.0 {
            target_scale
        } else {
            1.0
        };
        let column_scale: [f64; P] = std::array::from_fn(|i| per_root(problem.gram[i][i]));
        let mut unit = Self {
            gram: [[0.0; P]; P],
            rhs: [0.0; P],
            target: problem.target.max(0.0) * target_scale * target_scale,
            column_scale,
            target_scale,
            usable: 0,
        };
        let mut finite = problem.target.is_finite();
        for i in 0..P {
            unit.usable |= u32::from(column_scale[i] > 0.0) << i;
            unit.rhs[i] = problem.rhs[i] * column_scale[i] * target_scale;
            finite &= unit.rhs[i].is_finite();
            for j in 0..P {
                unit.gram[i][j] = problem.gram[i][j] * column_scale[i] * column_scale[j];
                finite &= unit.gram[i][j].is_finite();
            }
        }
        finite.then_some(unit)
    }

    /// Lawson and Hanson's method: columns enter by steepest descent and leave at zero.
    fn active_set(&self, ridge: f64) -> Option<Point<P>> {
        let mut point = Point::default();
        let mut passive = 0u32;
        for _ in 0..4 * P + 8 {
            let Some(entering) = self.entering(&point.x, passive | point.dependent) else {
                return self.is_optimal(&point).then_some(point);
            };
            let trial = passive | 1 << entering;
            if let Some(optimum) = self.face(trial, 0.0) {
                let before = passive;
                passive = self.step(&mut point.x, trial, optimum)?;
                point.ridged = false;
                // What depended on columns that have left may enter again.
                point.dependent = if before & !passive == 0 {
                    point.dependent
                } else {
                    0
                };
                if passive & (1 << entering) == 0 {
                    point.dependent |= 1 << entering;
                }
                continue;
            }
            match self.face(trial, ridge) {
                Some(x)
                    if ridge > 0.0
                        && bits(trial).all(|i| x[i] > 0.0)
                        && self.sse(&x) < self.sse(&point.x) - GRADIENT_TOLERANCE =>
                {
                    point.x = x;
                    point.ridged = true;
                    passive = trial;
                }
                _ => point.dependent |= 1 << entering,
            }
        }
        None
    }

    /// The column whose coefficient, raised from zero, lowers the error fastest.
    fn entering(&self, x: &[f64; P], excluded: u32) -> Option<usize> {
        let candidates = bits(self.usable & !excluded);
        let steepest = candidates
            .clone()
            .map(|i| self.gradient(x, i))
            .fold(GRADIENT_TOLERANCE, f64::max);
        if steepest <= GRADIENT_TOLERANCE {
            return None;
        }
        candidates
            .into_iter()
            .find(|&i| self.gradient(x, i) >= steepest * (1.0 - TIE))
    }

    /// Moves from `x` towards the optimum of the face `trial` without leaving the nonnegative
    /// region, dropping columns that reach zero; returns the columns that stay.
    fn step(&self, x: &mut [f64; P], mut trial: u32, mut optimum: [f64; P]) -> Option<u32> {
        let blocks = |optimum: &[f64; P], i: usize| optimum[i] <= 0.0;
        while bits(trial).any(|i| blocks(&optimum, i)) {
            let reach = |i: usize| {
                if x[i] > 0.0 {
                    x[i] / (x[i] - optimum[i])
                } else {
                    0.0
                }
            };
            let blocking = bits(trial).filter(|&i| blocks(&optimum, i));
            let fraction = blocking.clone().map(reach).fold(1.0, f64::min);
            let leaving = blocking
                .filter(|&i| reach(i) <= fraction)
                .fold(0, |mask, i| mask | 1 << i);
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
            optimum = self.face(trial, 0.0)?;
        }
        *x = optimum;
        Some(trial)
    }

    fn face(&self, mask: u32, ridge: f64) -> Option<[f64; P]> {
        face(&self.gram, &self.rhs, mask, ridge)
    }

    /// The best nonnegative face of all, each solved by itself: slow and obvious.
    fn best_face(&self) -> Option<Point<P>> {
        let mut best = Point::default();
        let mut best_sse = self.sse(&best.x);
        for mask in 1..1u32 << P {
            if mask & !self.usable != 0 {
                continue;
            }
            let Some(x) = self.face(mask, 0.0) else {
                continue;
            };
            let sse = self.sse(&x);
            if x.iter().all(|&value| value >= 0.0) && sse < best_sse - GRADIENT_TOLERANCE {
                best = Point {
                    x,
                    ..Point::default()
                };
                best_sse = sse;
            }
        }
        self.is_optimal(&best).then_some(best)
    }

    /// How fast the error falls as coefficient `i` rises.
    fn gradient(&self, x: &[f64; P], i: usize) -> f64 {
        (0..P).fold(self.rhs[i], |gradient, j| gradient - self.gram[i][j] * x[j])
    }

    /// Error at `x` in units of the squared target.
    fn sse(&self, x: &[f64; P]) -> f64 {
        (0..P).fold(self.target, |sse, i| {
            sse - x[i] * (self.rhs[i] + self.gradient(x, i))
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
        finite.then_some(Solution { coefficients, sse })
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
fn bits(mask: u32) -> impl DoubleEndedIterator<Item = usize> + Clone {
    (0..(u32::BITS - mask.leading_zeros()) as usize).filter(move |i| mask >> i & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The normal equations of a design matrix.
    fn products<const P: usize>(rows: &[[f64; P]], target: &[f64]) -> NormalEquations<P> {
        let mut problem = NormalEquations {
            gram: [[0.0; P]; P],
            rhs: [0.0; P],
            target: 0.0,
        };
        for (row, t) in rows.iter().zip(target) {
            for i in 0..P {
                for j in 0..P {
                    problem.gram[i][j] += row[i] * row[j];
                }
                problem.rhs[i] += row[i] * t;
            }
            problem.target += t * t;
        }
        problem
    }

    fn close(actual: f64, expected: f64) -> bool {
        (actual - expected).abs() <= 1e-12 * expected.abs().max(1e-300)
    }

    #[test]
    fn a_boundary_optimum_is_found_at_any_scale() {
        // Public report (scipy 25389): the optimum is [0, 1.6] with residual √0.2; by hand the
        // second column alone gives 8 / 5 and 13 - 64 / 5 = 0.2.
        for scale in [1.0, 1e-21, 1e9] {
            let rows = [[scale, scale], [3.0 * scale, 2.0 * scale]];
            let target = [2.0 * scale, 3.0 * scale];
            let solution = solve(&products(&rows, &target), 0.0).unwrap();
            assert_eq!(solution.coefficients[0], 0.0);
            assert!(close(solution.coefficients[1], 1.6));
            assert!((solution.sse / (0.2 * scale * scale) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn columns_of_very_different_magnitude_stand_side_by_side() {
        // t = 1e-9 a + 3 b exactly, with a around 5e9 and b around 8.
        let rows: Vec<[f64; 2]> = (1..=6)
            .map(|i| [5e9 + 1e8 * f64::from(i * i), 8.0 + f64::from(i % 3)])
            .collect();
        let target: Vec<f64> = rows
            .iter()
            .map(|row| 1e-9 * row[0] + 3.0 * row[1])
            .collect();
        let solution = solve(&products(&rows, &target), 0.0).unwrap();
        assert!((solution.coefficients[0] / 1e-9 - 1.0).abs() < 1e-9);
        assert!((solution.coefficients[1] / 3.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn degenerate_problems_end_with_zeros_and_no_panic() {
        let zeros = |problem: &NormalEquations<2>| solve(problem, 1e-9).unwrap().coefficients;
        let nothing = products::<2>(&[], &[]);
        assert_eq!(zeros(&nothing), [0.0, 0.0]);
        let zero_column = products(&[[1.0, 0.0], [2.0, 0.0]], &[1.0, 2.0]);
        assert_eq!(zeros(&zero_column), [1.0, 0.0]);
        let zero_target = products(&[[1.0, 2.0], [2.0, 1.0]], &[0.0, 0.0]);
        assert_eq!(zeros(&zero_target), [0.0, 0.0]);
        let orthogonal = products(&[[1.0, 1.0], [1.0, 1.0]], &[1.0, -1.0]);
        assert_eq!(zeros(&orthogonal), [0.0, 0.0]);
        let duplicate = products(&[[1.0, 1.0], [2.0, 2.0]], &[1.0, 2.0]);
        assert_eq!(zeros(&duplicate), [1.0, 0.0]);
    }

    #[test]
    fn what_is_not_finite_has_no_solution() {
        let mut problem = products(&[[1.0, 2.0], [2.0, 1.0]], &[1.0, 2.0]);
        problem.rhs[0] = f64::NAN;
        assert_eq!(solve(&problem, 0.0), None);
        problem.rhs[0] = f64::INFINITY;
        assert_eq!(solve(&problem, 0.0), None);
    }

    #[test]
    fn the_ridge_weighs_on_slopes_of_a_singular_face_only() {
        // Specification vector 15: x = (a, 2a), y = 7 + 3a, a = 1..6, ridge 0.25. On centred
        // columns both slopes are equal in standard units and the prediction at (7, 14) is 553/22.
        let rows: Vec<[f64; 2]> = (1..=6)
            .map(|a| f64::from(a) - 3.5)
            .map(|d| [d, 2.0 * d])
            .collect();
        let target: Vec<f64> = rows.iter().map(|row| 3.0 * row[0]).collect();
        let problem = products(&rows, &target);
        assert_eq!(solve_face(&problem, 0b11, 0.0), None);
        let face = solve_face(&problem, 0b11, 0.25).unwrap();
        let at_7_14 = 17.5 + face.coefficients[0] * 3.5 + face.coefficients[1] * 7.0;
        assert!(close(at_7_14, 553.0 / 22.0));
        // The full search keeps the first column alone: 17.5 + 3 * 3.5 = 28.
        let full = solve(&problem, 0.25).unwrap();
        assert_eq!(full.coefficients[1], 0.0);
        assert!(close(17.5 + full.coefficients[0] * 3.5, 28.0));
    }

    #[test]
    fn a_ridge_changes_a_nearly_singular_fit_measurably() {
        // The columns are opposite but for parts in 1e8, and that difference carries the target,
        // which large equal amounts of both would reach. Columns that nearly agree never need it:
        // nonnegative amounts of them stay as close together as they are.
        let rows: Vec<[f64; 2]> = (0..8)
            .map(|i| (f64::from(i) - 3.5, if i % 2 == 0 { 1e-8 } else { -1e-8 }))
            .map(|(d, small)| [d, small - d])
            .collect();
        let target: Vec<f64> = rows.iter().map(|row| 1e8 * (row[0] + row[1])).collect();
        let problem = products(&rows, &target);
        let without = solve(&problem, 0.0).unwrap();
        let weak = solve(&problem, 1e-16).unwrap();
        let strong = solve(&problem, 1e-9).unwrap();
        assert_eq!(without.coefficients[0], 0.0);
        assert!(weak.sse <= without.sse && strong.sse <= without.sse);
        assert_ne!(weak.coefficients, strong.coefficients);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

        /// The method never does worse than trying every face, and equals plain least squares
        /// where that is nonnegative already.
        #[test]
        fn the_active_set_equals_the_best_of_all_faces(
            entries in prop::collection::vec(-2.0..2.0f64, 12 * 5),
            discrete in any::<bool>(),
            magnitude in prop::collection::vec(-12..10i32, 4),
        ) {
            let rounded = |value: f64| if discrete { value.round() } else { value };
            let rows: Vec<[f64; 4]> = (0..12)
                .map(|r| std::array::from_fn(|c| {
                    rounded(entries[r * 5 + c]) * 10f64.powi(magnitude[c])
                }))
                .collect();
            let target: Vec<f64> = (0..12).map(|r| entries[r * 5 + 4]).collect();
            let problem = products(&rows, &target);
            let solution = solve(&problem, 0.0).unwrap();
            let unit = UnitProblem::of(&problem).unwrap();
            let best = unit.solution(&unit.best_face().unwrap()).unwrap();
            prop_assert!(solution.coefficients.iter().all(|&value| value >= 0.0));
            prop_assert!(solution.sse <= best.sse + 1e-10 * problem.target);
            if let Some(plain) = solve_face(&problem, 0b1111, 0.0) {
                if plain.coefficients.iter().all(|&value| value >= 0.0) {
                    prop_assert!((solution.sse - plain.sse).abs() <= 1e-10 * problem.target);
                }
            }
        }

        /// Any numbers at all: a nonnegative answer or none.
        #[test]
        fn arbitrary_products_never_panic(
            values in prop::collection::vec(any::<f64>(), 13),
            ridge in prop::sample::select(vec![0.0, 1e-9, 1.0]),
        ) {
            let problem = NormalEquations::<3> {
                gram: std::array::from_fn(|i| std::array::from_fn(|j| values[i * 3 + j])),
                rhs: std::array::from_fn(|i| values[9 + i]),
                target: values[12],
            };
            if let Some(solution) = solve(&problem, ridge) {
                prop_assert!(solution.coefficients.iter().all(|value| *value >= 0.0));
                prop_assert!(solution.coefficients.iter().all(|value| value.is_finite()));
            }
        }
    }
}
