//! Tests of the module above.

use proptest::prelude::*;

use super::*;

/// The normal equations of a design matrix.
fn products<const P: usize>(rows: &[[f64; P]], target: &[f64]) -> NormalEquations<P> {
    let mut problem = NormalEquations { gram: [[0.0; P]; P], rhs: [0.0; P], target: 0.0 };
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
    let rows: Vec<[f64; 2]> =
        (1..=6).map(|i| [5e9 + 1e8 * f64::from(i * i), 8.0 + f64::from(i % 3)]).collect();
    let target: Vec<f64> = rows.iter().map(|row| 1e-9 * row[0] + 3.0 * row[1]).collect();
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
    let rows: Vec<[f64; 2]> = (1..=6).map(|a| f64::from(a) - 3.5).map(|d| [d, 2.0 * d]).collect();
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
