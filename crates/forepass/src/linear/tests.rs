//! Tests of the module above.

use super::*;

fn batch(rows: &[[f64; 3]], params: &LinearParams) -> Result<LinearModel, Unready> {
    let mut moments = Moments::default();
    moments.rebuild(rows.iter().copied());
    fit(&moments.centred(), params).0
}

fn fitted(rows: &[[f64; 3]]) -> LinearModel {
    batch(rows, &LinearParams::default()).unwrap()
}

fn close(actual: f64, expected: f64, relative: f64) -> bool {
    (actual - expected).abs() <= relative * expected.abs()
}

/// Features of specification vector 10.
const SPREAD: [[f64; 2]; 6] =
    [[1.0, 2.0], [2.0, 7.0], [4.0, 3.0], [8.0, 11.0], [16.0, 5.0], [32.0, 13.0]];

#[test]
fn a_plane_is_recovered() {
    // Specification vector 10: y = 7 + 2.5 x0 + 4 x1, so (64, 17) gives 7 + 160 + 68 = 235.
    let rows = SPREAD.map(|[a, f]| [a, f, 7.0 + 2.5 * a + 4.0 * f]);
    assert!(close(fitted(&rows).value(&[64.0, 17.0]), 235.0, 1e-12));
}

#[test]
fn features_of_very_different_size_are_told_apart() {
    // Specification vector 11: y = 11 + 1e-9 x0 + 3 x1, x0 to 3.2e13; 11 + 64000 + 51 = 64062.
    let rows = SPREAD.map(|[a, f]| [a * 1e12, f, 11.0 + 1e-9 * (a * 1e12) + 3.0 * f]);
    assert!((fitted(&rows).value(&[6.4e13, 17.0]) - 64062.0).abs() < 1e-6);
}

#[test]
fn a_constant_feature_has_no_price() {
    // Specification vector 12: x = (i, 7), y = 2 + 4i; (10, 70) gives 42.
    let rows: Vec<_> = (1..=6).map(|i| [f64::from(i), 7.0, 2.0 + 4.0 * f64::from(i)]).collect();
    let model = fitted(&rows);
    assert_eq!(model.prices[1], 0.0);
    assert!(close(model.value(&[10.0, 70.0]), 42.0, 1e-14));
}

#[test]
fn a_falling_feature_is_solved_around_not_clamped() {
    // Specification vector 13: {0, 1, 2}², y = 20 - 2 x0 + 3 x1: slope 0 is exactly zero, the
    // rest is refitted: the mean over x0 is 18, so (100, 4) gives 30 and (0, 0) gives 18.
    let rows: Vec<_> = (0..9)
        .map(|i| (f64::from(i / 3), f64::from(i % 3)))
        .map(|(a, f)| [a, f, 20.0 - 2.0 * a + 3.0 * f])
        .collect();
    let model = fitted(&rows);
    assert_eq!(model.prices[0], 0.0);
    assert!(close(model.value(&[100.0, 4.0]), 30.0, 1e-12));
    assert!(close(model.value(&[0.0, 0.0]), 18.0, 1e-12));
}

#[test]
fn the_constrained_problem_is_solved_where_plain_squares_go_negative() {
    // Public report (aiconfigurator 1483): nonnegative least squares of these four decode rows
    // is 5.4403 + 0.00099194 KV with sum of squares 0.156; clamping afterwards gives 92.5 ms.
    let rows =
        [[8000.0, 8.0, 13.2], [20000.0, 16.0, 25.6], [36000.0, 32.0, 41.0], [80000.0, 64.0, 84.8]];
    let params = LinearParams { min_observations: 4, ..LinearParams::default() };
    let model = batch(&rows, &params).unwrap();
    assert_eq!(model.prices[1], 0.0);
    assert!(close(model.value(&[0.0, 0.0]), 5.4403, 1e-4));
    assert!(close(model.prices[0], 0.000_991_94, 1e-5));
    assert!(close(model.value(&[80000.0, 64.0]), 84.80, 1e-4));
    assert!(model.value(&[8000.0, 512.0]) > 0.0);
}

#[test]
fn dependent_features_give_the_earlier_one_the_price() {
    // Specification vector 15: x = (a, 2a), y = 7 + 3a: 28 at (7, 14) whatever the ridge.
    let rows: Vec<_> = (1..=6).map(f64::from).map(|a| [a, 2.0 * a, 7.0 + 3.0 * a]).collect();
    for singular_ridge_scale in [0.0, 1e-9, 0.25] {
        let params = LinearParams { singular_ridge_scale, ..LinearParams::default() };
        let model = batch(&rows, &params).unwrap();
        assert!(close(model.value(&[7.0, 14.0]), 28.0, 1e-12));
        assert_eq!(model.prices[1], 0.0);
    }
}

#[test]
fn without_a_load_signal_there_is_no_line() {
    // Specification vector 16, and case B14: latency constant while load varies.
    let constant_load = [[3.0, 4.0, 10.0]; 6];
    assert_eq!(batch(&constant_load, &LinearParams::default()), Err(Unready::ConstantLoad));
    let rows = |latency: fn(f64) -> f64| {
        (0..10).map(f64::from).map(|x| [x, 2.0 * x, latency(x)]).collect::<Vec<_>>()
    };
    let params = LinearParams::default();
    assert_eq!(batch(&rows(|x| 100.0 - x), &params), Err(Unready::NoLoadSignal));
    assert_eq!(batch(&rows(|_| 12.0), &params), Err(Unready::NoLoadSignal));
}

#[test]
fn no_more_rows_than_features_may_be_flat() {
    // Specification vector 17, min_observations 2.
    let params = LinearParams { min_observations: 2, ..LinearParams::default() };
    assert!(batch(&[[0.0, 0.0, 2.0], [1.0, 1.0, 1.0]], &params).is_ok());
    let one_active = [[0.0, 0.0, 2.0], [1.0, 0.0, 1.0]];
    assert_eq!(batch(&one_active, &params), Err(Unready::NoLoadSignal));
}

#[test]
fn constant_means_relative_to_the_size_of_the_feature() {
    // Specification vector 18 (spread 1e-7 at 1e6 is constant) and case B12: noise of an ulp
    // is constant, a tiny unit and a large offset are not.
    let ready = |values: [f64; 6]| {
        let rows: Vec<_> = (0..6).map(|i| [values[i], 0.0, 1.0 + i as f64]).collect();
        batch(&rows, &LinearParams::default()).is_ok()
    };
    let steps = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    assert!(!ready(steps.map(|step| 1e6 + 1e-7 * step)));
    assert!(!ready(steps.map(|step| 8.0 + 1e-15 * step)));
    assert!(ready(steps.map(|step| 1e-12 * (1.0 + step))));
    assert!(ready(steps.map(|step| 1e9 + step)));
}

#[test]
fn values_that_overflow_have_no_fit() {
    // Specification vector 35: latencies f64::MAX and 1.
    let params = LinearParams { min_observations: 2, ..LinearParams::default() };
    let rows = [[0.0, 0.0, f64::MAX], [1.0, 1.0, 1.0]];
    assert!(batch(&rows, &params).is_err());
    let mut recursive = LinearFit::new(params);
    recursive.update(&rows[0], None, || rows[..1].iter().copied());
    recursive.update(&rows[1], None, || rows.iter().copied());
    assert!(recursive.model().is_err());
}

/// Feeds rows through a window and counts the inputs at which statistics were rebuilt on time.
fn scheduled_at(interval: Option<u64>, capacity: usize, inputs: usize) -> Vec<usize> {
    let params = LinearParams { rebuild_interval: interval, ..LinearParams::default() };
    let mut recursive = LinearFit::new(params);
    // Features that are never collinear, so that no other rebuild resets the clock.
    let row = |i: usize| [(i * i % 7) as f64, (i % 2) as f64, 10.0 + (i % 2) as f64];
    let mut due = Vec::new();
    for i in 0..inputs {
        let first = (i + 1).saturating_sub(capacity);
        let evicted = (i >= capacity).then(|| row(i - capacity));
        let before = recursive.rebuilds().scheduled;
        recursive.update(&row(i), evicted.as_ref(), || (first..=i).map(row));
        if recursive.rebuilds().scheduled > before {
            due.push(i + 1);
        }
    }
    due
}

#[test]
fn the_rebuild_clock_counts_insertions_and_evictions() {
    // Specification vector 22.
    assert_eq!(scheduled_at(Some(1), 4, 6), [1, 2, 3, 4, 5, 6]);
    assert_eq!(scheduled_at(Some(5), 4, 12), [5, 8, 11]);
    assert_eq!(scheduled_at(Some(4096), 64, 4200), [2080, 4128]);
    assert!(scheduled_at(None, 64, 4200).is_empty());
}

#[test]
fn a_line_outlives_a_window_without_load_signal_but_not_one_without_load() {
    let mut recursive = LinearFit::new(LinearParams::default());
    let mut rows: Vec<[f64; 3]> = Vec::new();
    let mut learn = |recursive: &mut LinearFit, row: [f64; 3]| {
        rows.push(row);
        let evicted = (rows.len() > 6).then(|| rows.remove(0));
        recursive.update(&row, evicted.as_ref(), || rows.iter().copied());
    };
    for i in 0..6 {
        learn(&mut recursive, [f64::from(i), 0.0, 10.0 + f64::from(i)]);
    }
    let rising = *recursive.model().unwrap();
    for i in 0..6 {
        learn(&mut recursive, [f64::from(i), 0.0, 30.0 - f64::from(i)]);
    }
    let kept = *recursive.model().unwrap();
    assert_eq!(kept, rising);
    assert!(recursive.is_stale());
    for _ in 0..6 {
        learn(&mut recursive, [3.0, 0.0, 12.0]);
    }
    assert_eq!(recursive.model(), Err(Unready::ConstantLoad));
}

#[test]
fn the_ridge_scale_acts_where_features_are_opposite_to_within_rounding() {
    // Case A29. The features fall against each other but for parts in 1e8, and that difference
    // alone carries latency: only large equal prices of both reach it, as far as the ridge lets
    // them. For features that rise together the better one always stands for both.
    let rows: Vec<[f64; 3]> = (0..8)
        .map(|i| (f64::from(i) - 3.5, if i % 2 == 0 { 1e-8 } else { -1e-8 }))
        .map(|(d, small)| [10.0 + d, 10.0 - d + small, 100.0 + 1e8 * small])
        .collect();
    let with = |singular_ridge_scale| {
        let params = LinearParams { singular_ridge_scale, ..LinearParams::default() };
        batch(&rows, &params).unwrap()
    };
    assert_eq!(with(0.0).prices[0], 0.0);
    assert_ne!(with(1e-16).prices, with(1e-9).prices);
}
