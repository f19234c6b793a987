//! How well forecasts met what was then observed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::errors::{Errors, Spread};

/// The levels at which intervals are scored, by their names.
pub(super) const INTERVALS: [(&str, f64); 3] = [("0.8", 0.8), ("0.9", 0.9), ("0.95", 0.95)];

/// The interval of one row at each level, in milliseconds, where it is known.
pub(super) type Intervals = [Option<[f64; 2]>; INTERVALS.len()];

/// How far a forecast was off, as a share of what was observed; positive where it was too high.
pub(super) fn relative_error(predicted_ms: f64, observed_ms: f64) -> f64 {
    (predicted_ms - observed_ms) / observed_ms
}

/// How intervals of one level did over some rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct IntervalTally {
    rows: u64,
    covered: u64,
    /// Sum of widths as shares of the forecast.
    width: f64,
}

/// Errors of one fit over some rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tally {
    rows: u64,
    errors: Errors,
    /// Of a fit that knows intervals.
    intervals: Option<[IntervalTally; INTERVALS.len()]>,
}

impl Tally {
    /// One of no rows, which keeps each error by itself up to so many of them.
    pub(super) fn new(keep_at_most: usize) -> Self {
        Self { rows: 0, errors: Errors::new(keep_at_most), intervals: None }
    }

    /// Takes in one row; it counts towards accuracy only where it is `eligible`.
    pub(super) fn add(
        &mut self,
        observed_ms: f64,
        predicted_ms: Option<f64>,
        intervals: Option<&Intervals>,
        eligible: bool,
    ) {
        self.rows += 1;
        let tallies = intervals.map(|known| (known, self.intervals.get_or_insert_default()));
        if !eligible {
            return;
        }
        let error = predicted_ms.map(|predicted_ms| relative_error(predicted_ms, observed_ms));
        self.errors.add(error.unwrap_or(f64::NAN));
        let (Some(predicted_ms), Some((intervals, tallies))) = (predicted_ms, tallies) else {
            return;
        };
        for (tally, interval) in tallies.iter_mut().zip(intervals) {
            if let Some([low_ms, high_ms]) = *interval {
                tally.rows += 1;
                tally.covered += u64::from((low_ms..=high_ms).contains(&observed_ms));
                tally.width += (high_ms - low_ms) / predicted_ms;
            }
        }
    }

    /// The last 30 % of the eligible rows, where each is kept.
    pub(super) fn suffix(&self) -> Self {
        let errors = self.errors.from(self.errors.kept().len() * 7 / 10);
        Self { rows: errors.kept().len() as u64, errors, intervals: None }
    }

    /// The absolute percentage errors that shares of the answered rows stay within.
    pub(super) fn quantiles_pct(tallies: &[&Self], shares_pct: &[f64]) -> Option<Vec<f64>> {
        let spread = Spread::of(&tallies.iter().map(|tally| &tally.errors));
        let at = |pct: &f64| spread.quantile(pct / 100.0).map(|size| 100.0 * size);
        shares_pct.iter().map(at).collect()
    }

    /// The statistics of the rows of some tallies, one after the other.
    pub(super) fn stats(tallies: &[&Self]) -> Stats {
        let spread = Spread::of(&tallies.iter().map(|tally| &tally.errors));
        let Spread { eligible, answered, .. } = spread;
        let pct = |sum: f64| (answered > 0).then(|| 100.0 * sum / answered as f64);
        let quantile = |share: f64| spread.quantile(share).map(|size| 100.0 * size);
        Stats {
            rows: tallies.iter().map(|tally| tally.rows).sum(),
            eligible,
            answered,
            coverage_pct: (eligible > 0).then(|| 100.0 * answered as f64 / eligible as f64),
            mape_pct: pct(spread.size_sum),
            median_ape_pct: quantile(0.5),
            p90_ape_pct: quantile(0.9),
            p99_ape_pct: quantile(0.99),
            bias_pct: pct(spread.sum),
            intervals: interval_stats(tallies),
        }
    }
}

/// How intervals did over all tallies that know some.
fn interval_stats(tallies: &[&Tally]) -> Option<BTreeMap<&'static str, IntervalStats>> {
    let mut known = tallies.iter().filter_map(|tally| tally.intervals).peekable();
    known.peek()?;
    let mut sums = [IntervalTally::default(); INTERVALS.len()];
    for intervals in known {
        for (sum, tally) in sums.iter_mut().zip(intervals) {
            sum.rows += tally.rows;
            sum.covered += tally.covered;
            sum.width += tally.width;
        }
    }
    let stats = sums.iter().map(IntervalTally::stats);
    Some(INTERVALS.iter().map(|&(name, _)| name).zip(stats).collect())
}

impl IntervalTally {
    fn stats(&self) -> IntervalStats {
        let pct = |sum: f64| (self.rows > 0).then(|| 100.0 * sum / self.rows as f64);
        IntervalStats {
            rows: self.rows,
            covered_pct: pct(self.covered as f64),
            mean_width_pct: pct(self.width),
        }
    }
}

/// Accuracy of one fit over some rows; `null` where no row counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Iterations with work and a valid latency.
    pub rows: u64,
    /// Those whose store had learned `warmup` observations before.
    pub eligible: u64,
    /// Eligible rows that were answered; the errors below are theirs.
    pub answered: u64,
    /// Answered among eligible rows, percent.
    pub coverage_pct: Option<f64>,
    /// Mean absolute percentage error.
    pub mape_pct: Option<f64>,
    /// Median absolute percentage error.
    pub median_ape_pct: Option<f64>,
    /// 90th percentile of the absolute percentage error.
    pub p90_ape_pct: Option<f64>,
    /// 99th percentile of the absolute percentage error.
    pub p99_ape_pct: Option<f64>,
    /// Mean signed percentage error; positive where forecasts are too high.
    pub bias_pct: Option<f64>,
    /// How intervals did, by their level; `null` of a fit that knows none.
    pub intervals: Option<BTreeMap<&'static str, IntervalStats>>,
}

/// How the intervals of one level did over some rows; `null` where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IntervalStats {
    /// Answered rows with an interval.
    pub rows: u64,
    /// Share of them whose latency the interval held, percent.
    pub covered_pct: Option<f64>,
    /// Mean width of the interval, percent of the forecast.
    pub mean_width_pct: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::super::errors::KEPT;
    use super::*;

    #[test]
    fn statistics_follow_by_hand() {
        // Errors +10 %, -20 %, +30 %: mean size 20, median 20, mean 20/3; one row unanswered, one
        // not eligible.
        let mut tally = Tally::new(KEPT);
        tally.add(10.0, Some(11.0), None, true);
        tally.add(10.0, Some(8.0), None, true);
        tally.add(10.0, Some(13.0), None, true);
        tally.add(10.0, None, None, true);
        tally.add(10.0, Some(99.0), None, false);
        let stats = Tally::stats(&[&tally]);
        assert_eq!((stats.rows, stats.eligible, stats.answered), (5, 4, 3));
        assert_eq!(stats.coverage_pct, Some(75.0));
        let close = |actual: Option<f64>, expected: f64| (actual.unwrap() - expected).abs() < 1e-12;
        assert!(close(stats.mape_pct, 20.0) && close(stats.median_ape_pct, 20.0));
        assert!(close(stats.bias_pct, 20.0 / 3.0));
        // Positions 1.8 and 1.98 of 10, 20, 30.
        assert!(close(stats.p90_ape_pct, 28.0) && close(stats.p99_ape_pct, 29.8));
        assert_eq!(stats.intervals, None);
    }

    #[test]
    fn intervals_are_scored_where_they_are_known_and_rows_count() {
        let mut tally = Tally::new(KEPT);
        // Held at its very end and a tenth of the forecast wide; missed, and three tenths wide.
        tally.add(10.0, Some(10.0), Some(&[Some([9.0, 10.0]), None, None]), true);
        tally.add(10.0, Some(20.0), Some(&[Some([12.0, 18.0]), None, None]), true);
        // Not answered, and not eligible.
        tally.add(10.0, None, Some(&[None; 3]), true);
        tally.add(10.0, Some(10.0), Some(&[Some([0.0, 90.0]); 3]), false);
        let none = Tally::new(KEPT);
        for (tallies, rows) in [(&[&tally][..], 2), (&[&tally, &none, &tally], 4)] {
            let intervals = Tally::stats(tallies).intervals.unwrap();
            assert_eq!(intervals.keys().copied().collect::<Vec<_>>(), ["0.8", "0.9", "0.95"]);
            let narrow = intervals["0.8"];
            assert_eq!((narrow.rows, narrow.covered_pct), (rows, Some(50.0)));
            assert!((narrow.mean_width_pct.unwrap() - 20.0).abs() < 1e-12);
            let unknown = IntervalStats { rows: 0, covered_pct: None, mean_width_pct: None };
            assert_eq!((intervals["0.9"], intervals["0.95"]), (unknown, unknown));
        }
    }

    #[test]
    fn the_suffix_is_the_last_three_tenths() {
        // Of 10 rows the last three: +10 %, unanswered, -30 %.
        let mut tally = Tally::new(KEPT);
        for row in 0..7 {
            tally.add(10.0, (row % 2 == 0).then_some(20.0), None, true);
        }
        tally.add(10.0, Some(11.0), None, true);
        tally.add(10.0, None, None, true);
        tally.add(10.0, Some(7.0), None, true);
        let stats = Tally::stats(&[&tally.suffix()]);
        assert_eq!((stats.rows, stats.eligible, stats.answered), (3, 3, 2));
        assert!((stats.mape_pct.unwrap() - 20.0).abs() < 1e-12);
        assert_eq!(Tally::stats(&[&Tally::new(KEPT).suffix()]).rows, 0);
    }

    #[test]
    fn no_rows_have_no_accuracy() {
        let stats = Tally::stats(&[]);
        assert_eq!((stats.coverage_pct, stats.mape_pct, stats.bias_pct), (None, None, None));
    }
}
