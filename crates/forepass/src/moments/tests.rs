//! Tests of the module above.

use proptest::prelude::*;

use super::*;

fn of<const D: usize>(rows: &[[f64; D]]) -> Moments<D> {
    let mut moments = Moments::default();
    for row in rows {
        moments.insert(row);
    }
    moments
}

#[test]
fn means_and_scatter_follow_by_hand() {
    // Specification vector 23: hand-computed from the definition.
    let mut moments = of(&[[0.0, 0.0, 1.0], [2.0, 0.0, 5.0]]);
    assert_eq!([0, 1, 2].map(|i| moments.mean(i)), [1.0, 0.0, 3.0]);
    let scatter = |m: &Moments<3>| [0, 1, 2].map(|i| [0, 1, 2].map(|j| m.scatter(i, j)));
    let original = [[2.0, 0.0, 4.0], [0.0, 0.0, 0.0], [4.0, 0.0, 8.0]];
    assert_eq!(scatter(&moments), original);
    moments.insert(&[4.0, 0.0, 9.0]);
    assert_eq!([0, 1, 2].map(|i| moments.mean(i)), [2.0, 0.0, 5.0]);
    assert_eq!(
        [moments.scatter(0, 0), moments.scatter(0, 2), moments.scatter(2, 2)],
        [8.0, 16.0, 32.0]
    );
    moments.remove(&[0.0, 0.0, 1.0]);
    assert_eq!([0, 1, 2].map(|i| moments.mean(i)), [3.0, 0.0, 7.0]);
    assert_eq!(scatter(&moments), original);
}

#[test]
fn an_outlier_that_left_is_noticed_and_a_rebuild_restores_exact_zero() {
    // Specification vector 24: x = (10, i) throughout, and one outlier on every column.
    let rows: Vec<[f64; 3]> = (0..5).map(|i| [10.0, f64::from(i), 3.0 * f64::from(i)]).collect();
    let mut moments = of(&rows);
    let outlier = [1e12, 1e6, 1e12];
    moments.insert(&outlier);
    moments.remove(&outlier);
    assert!(!moments.is_sound());
    moments.rebuild(rows.iter().copied());
    assert!(moments.is_sound());
    assert_eq!(moments.scatter(0, 0), 0.0);
    assert_eq!([moments.scatter(1, 1), moments.scatter(1, 2)], [10.0, 30.0]);
}

#[test]
fn a_value_that_left_the_window_does_not_corrupt_the_rest() {
    // Public report (pandas 28244 kind): true scatter of 4096..4864 step 256 is 5 * 256² / ...
    let window = [[4096.0], [4352.0], [4608.0], [4864.0]];
    let mut moments = of(&[[1.0995e12], window[0], window[1], window[2], window[3]]);
    moments.remove(&[1.0995e12]);
    if !moments.is_sound() {
        moments.rebuild(window.iter().copied());
    }
    // Deviations are ±128 and ±384: 2 * (128² + 384²) = 327,680; variance 81,920.
    assert!((moments.scatter(0, 0) - 327_680.0).abs() < 1e-6);
}

#[test]
fn a_large_mean_with_a_small_spread_keeps_its_digits() {
    // 1e9 + {0, 1, 2, 3}: variance 1.25, where E[x²] - E[x]² gives 0.
    let moments = of(&[[1e9], [1e9 + 1.0], [1e9 + 2.0], [1e9 + 3.0]]);
    assert_eq!(moments.scatter(0, 0) / 4.0, 1.25);
}

#[test]
fn a_constant_column_has_no_scatter_at_all() {
    let mut moments = of(&vec![[14.62]; 1000]);
    assert_eq!(moments.scatter(0, 0), 0.0);
    moments.rebuild(std::iter::repeat_n([14.62], 1000));
    assert_eq!((moments.scatter(0, 0), moments.mean(0)), (0.0, 14.62));
}

#[test]
fn removing_from_nothing_is_noticed() {
    let mut moments = Moments::<1>::default();
    moments.remove(&[1.0]);
    assert!(!moments.is_sound());
    assert_eq!(moments.count(), 0);
}

#[test]
fn the_last_removal_leaves_an_empty_start() {
    let mut moments = of(&[[1e300]]);
    moments.remove(&[1e300]);
    moments.insert(&[2.0]);
    moments.insert(&[4.0]);
    assert_eq!((moments.mean(0), moments.scatter(0, 0)), (3.0, 2.0));
    assert!(moments.is_sound());
}

/// Mean and scatter in one obvious pass over exact differences from the first row.
fn plain(rows: &[[f64; 2]]) -> ([f64; 2], [[f64; 2]; 2]) {
    let n = rows.len() as f64;
    let mean =
        [0, 1].map(|i| rows[0][i] + rows.iter().map(|row| row[i] - rows[0][i]).sum::<f64>() / n);
    let scatter = [0, 1].map(|i| {
        [0, 1].map(|j| rows.iter().map(|row| (row[i] - mean[i]) * (row[j] - mean[j])).sum())
    });
    (mean, scatter)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// After any sequence of insertions and removals, with glitches up to 1e12, the statistics
    /// equal those of the rows that remain, rebuilding where `is_sound` says so.
    #[test]
    fn recursion_equals_the_plain_sums_over_what_remains(
        steps in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0..40u8), 3..120),
        window in 2..40usize,
        scale in prop::sample::select(vec![1e-12, 1e-3, 1.0, 1e5, 1e13]),
        offset in prop::sample::select(vec![0.0, 1.0, 1e3]),
    ) {
        let mut kept = std::collections::VecDeque::new();
        let mut moments = Moments::<2>::default();
        for (x, y, glitch) in steps {
            let row = match glitch {
                0 => [scale * 1e12, y],
                1 => [scale * x, 1e12],
                2 => [scale * 1e6, 1e6],
                _ => [scale * (offset + x), offset + y],
            };
            let mut exchanged = moments.clone();
            moments.insert(&row);
            kept.push_back(row);
            if kept.len() > window {
                let removed = kept.pop_front().unwrap();
                moments.remove(&removed);
                exchanged.exchange(&row, &removed);
                prop_assert_eq!(&exchanged, &moments, "one pass does what two do");
            }
            if !moments.is_sound() {
                moments.rebuild(kept.iter().copied());
            }
            let (mean, scatter) = plain(kept.make_contiguous());
            for i in 0..2 {
                prop_assert!((moments.mean(i) - mean[i]).abs() <= 1e-12 * mean[i].abs());
                prop_assert!(moments.scatter(i, i) >= 0.0);
                for j in 0..2 {
                    let size = (scatter[i][i] * scatter[j][j]).sqrt();
                    prop_assert!((moments.scatter(i, j) - scatter[i][j]).abs() <= 1e-11 * size);
                }
            }
        }
    }
}
