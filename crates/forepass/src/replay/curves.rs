//! Curves of errors: over the first rows, and along a feature.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::quantile::interpolated_quantile;

/// Shares of rows, percent, at which a distribution is told: finer where errors are great.
pub(super) const SHARES_PCT: [f64; 60] = shares();

/// Absolute percentage errors at [`SHARES_PCT`], by kind of work; none where no row counts.
pub(super) type Distributions = BTreeMap<&'static str, Option<Vec<f64>>>;

/// Counts of first rows at which a cold start is told.
const FIRST_ROWS: [usize; 12] = [1, 2, 5, 10, 20, 40, 64, 100, 200, 350, 600, 1000];

/// Bins along a feature at most, and rows in one at least.
const BINS: usize = 12;
const BIN_ROWS: usize = 8;

/// Every second percent, every fifth of one from 98 on, and the greatest.
const fn shares() -> [f64; 60] {
    let mut shares = [100.0; 60];
    let mut index = 0;
    while index < 49 {
        shares[index] = 2.0 * index as f64;
        index += 1;
    }
    while index < 59 {
        shares[index] = 98.0 + 0.2 * (index - 49) as f64;
        index += 1;
    }
    shares
}

/// Errors over the first rows that each store met, the warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ColdStart {
    /// First rows of each store.
    pub first: usize,
    /// Rows that these are, over all stores.
    pub rows: u64,
    /// Those with an answer.
    pub answered: u64,
    /// Mean absolute percentage error of these.
    pub mape_pct: Option<f64>,
    /// Median absolute percentage error of these.
    pub median_ape_pct: Option<f64>,
}

/// The errors of stores over their first rows; each gives its relative errors from the start, not
/// a number where there is no answer.
pub(super) fn cold_start<'a>(stores: &(impl Iterator<Item = &'a [f64]> + Clone)) -> Vec<ColdStart> {
    let longest = stores.clone().map(<[f64]>::len).max().unwrap_or(0);
    // Up to the first count that takes in all rows.
    let last = FIRST_ROWS.iter().position(|&first| first >= longest);
    let counts = &FIRST_ROWS[..last.map_or(FIRST_ROWS.len(), |last| last + 1)];
    let at = |&first: &usize| {
        let errors = || stores.clone().flat_map(|errors| &errors[..first.min(errors.len())]);
        let mut sizes: Vec<f64> =
            errors().filter(|error| !error.is_nan()).map(|error| 100.0 * error.abs()).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let mean = || sizes.iter().sum::<f64>() / sizes.len() as f64;
        ColdStart {
            first,
            rows: errors().count() as u64,
            answered: sizes.len() as u64,
            mape_pct: (!sizes.is_empty()).then(mean),
            median_ape_pct: interpolated_quantile(&sizes, 0.5),
        }
    };
    if longest == 0 { Vec::new() } else { counts.iter().map(at).collect() }
}

/// Rows whose loads lie next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoadBin {
    /// The least load.
    pub from: f64,
    /// The greatest load.
    pub to: f64,
    /// How many rows there are.
    pub rows: u64,
    /// Median of the signed percentage error.
    pub median_pct: f64,
    /// 90th percentile of the absolute percentage error.
    pub p90_ape_pct: f64,
}

/// Pairs of a load and a signed error, in bins of about as many rows; equal loads are in one.
pub(super) fn load_bins(mut pairs: Vec<(f64, f64)>) -> Vec<LoadBin> {
    pairs.sort_unstable_by(|one, other| {
        one.0.total_cmp(&other.0).then_with(|| one.1.total_cmp(&other.1))
    });
    let size = pairs.len().div_ceil(BINS).max(BIN_ROWS);
    let mut bins = Vec::new();
    let mut rest = &pairs[..];
    while let Some(&(from, _)) = rest.first() {
        // What would be left over too small is taken in, too.
        let wanted = if rest.len() < 2 * size { rest.len() } else { size };
        let to = rest[wanted - 1].0;
        let (bin, after) = rest.split_at(rest.partition_point(|&(load, _)| load <= to));
        rest = after;
        let errors = || bin.iter().map(|&(_, error)| error);
        bins.push(LoadBin {
            from,
            to,
            rows: bin.len() as u64,
            median_pct: quantile(errors(), 0.5),
            p90_ape_pct: quantile(errors().map(f64::abs), 0.9),
        });
    }
    bins
}

fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    interpolated_quantile(&sorted, share).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_start_counts_each_store_from_its_own_first_row() {
        // One store abstains once, then errs by 20 % and -10 %; the other by 30 %.
        let stores = [&[f64::NAN, 0.2, -0.1][..], &[0.3][..]];
        let curve = cold_start(&stores.into_iter());
        let told: Vec<_> = curve.iter().map(|at| (at.first, at.rows, at.answered)).collect();
        assert_eq!(told, [(1, 2, 1), (2, 3, 2), (5, 4, 3)]);
        let close = |actual: Option<f64>, expected: f64| (actual.unwrap() - expected).abs() < 1e-12;
        assert!(close(curve[0].mape_pct, 30.0) && close(curve[1].mape_pct, 25.0));
        assert!(close(curve[2].mape_pct, 20.0) && close(curve[2].median_ape_pct, 20.0));
        assert!(cold_start(&[&[][..]].into_iter()).is_empty());
        let silent = cold_start(&[&[f64::NAN; 3][..]].into_iter());
        assert_eq!((silent[0].mape_pct, silent[0].median_ape_pct), (None, None));
    }

    #[test]
    fn bins_hold_as_many_rows_and_equal_loads_together() {
        // 20 rows make two bins of at least 8, the last one taking what is left.
        let pairs: Vec<(f64, f64)> =
            (0..20).map(|load| (f64::from(load), f64::from(load))).collect();
        let bins = load_bins(pairs);
        let told: Vec<_> = bins.iter().map(|bin| (bin.from, bin.to, bin.rows)).collect();
        assert_eq!(told, [(0.0, 7.0, 8), (8.0, 19.0, 12)]);
        // Of 0 to 7: the middle, and position 0.9 * 7 = 6.3.
        assert!(
            (bins[0].median_pct - 3.5).abs() < 1e-12 && (bins[0].p90_ape_pct - 6.3).abs() < 1e-12
        );
        let constant = load_bins((0..50).map(|row| (5.0, -f64::from(row))).collect());
        assert_eq!((constant.len(), constant[0].rows, constant[0].median_pct), (1, 50, -24.5));
        assert!(load_bins(Vec::new()).is_empty());
    }

    #[test]
    fn shares_rise_to_all_of_the_rows() {
        assert!(SHARES_PCT.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(
            (SHARES_PCT[0], SHARES_PCT[25], SHARES_PCT[SHARES_PCT.len() - 1]),
            (0.0, 50.0, 100.0)
        );
    }
}
