//! What the iterations of one kind of work hold, and what a model can learn from them.

use serde::Serialize;

use crate::quantile::interpolated_quantile;
use crate::workload::FEATURE_NAMES;

/// Observations from which a store can answer by default, where latency rises with load.
const LEARNABLE: usize = 5;

/// A latency of more than this many medians is a spike.
pub(crate) const SPIKE_MEDIANS: f64 = 10.0;

/// Two features that go together like this cannot be told apart.
const COLLINEAR: f64 = 0.9999;

/// Iterations of one kind of work with a latency.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KindInspection {
    /// How many there are.
    pub rows: u64,
    /// Whether a store of default configuration could answer: enough rows, and load that varies.
    pub learnable: bool,
    /// What a model could not learn from them, in words.
    pub not_learnable: Vec<String>,
    /// Latency in milliseconds.
    pub latency_ms: Spread,
    /// The attention feature.
    pub attention: Spread,
    /// The FFN feature.
    pub ffn: Spread,
    /// Correlation of latency with each feature, in the order of their names; `null` where one of
    /// them does not vary.
    pub correlation: [Option<f64>; FEATURE_NAMES.len()],
    /// Latencies of more than ten medians.
    pub spikes: u64,
    /// The place of the greatest latency, as a file and a line.
    pub slowest: String,
}

/// Quantiles of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// The least value.
    pub min: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest value.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |share| interpolated_quantile(&values, share).unwrap_or(0.0);
        Self {
            min: at(0.0),
            p10: at(0.1),
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }

    fn varies(&self) -> bool {
        self.max > self.min
    }
}

/// The values of one kind as they come.
#[derive(Debug, Default)]
pub(super) struct Values {
    latency_ms: Vec<f64>,
    features: [Vec<f64>; FEATURE_NAMES.len()],
    slowest_ms: f64,
    slowest: String,
}

impl Values {
    pub(super) fn add(
        &mut self,
        latency_ms: f64,
        features: [f64; FEATURE_NAMES.len()],
        place: impl FnOnce() -> String,
    ) {
        self.latency_ms.push(latency_ms);
        for (values, value) in self.features.iter_mut().zip(features) {
            values.push(value);
        }
        if latency_ms > self.slowest_ms {
            self.slowest_ms = latency_ms;
            self.slowest = place();
        }
    }

    pub(super) fn inspect(self) -> KindInspection {
        let Self { latency_ms, features: [attention, ffn], slowest, .. } = self;
        let rows = latency_ms.len();
        let correlation = [correlation(&latency_ms, &attention), correlation(&latency_ms, &ffn)];
        let together = correlation_is(&attention, &ffn, COLLINEAR);
        let median = Spread::of(latency_ms.clone()).median;
        let spikes = latency_ms.iter().filter(|ms| **ms > SPIKE_MEDIANS * median).count() as u64;
        let (latency_ms, attention, ffn) =
            (Spread::of(latency_ms), Spread::of(attention), Spread::of(ffn));
        let mut not_learnable = Vec::new();
        if rows < LEARNABLE {
            not_learnable.push(format!("anything: {rows} rows, of {LEARNABLE} that it takes"));
        }
        for (name, spread) in FEATURE_NAMES.iter().zip([&attention, &ffn]) {
            if !spread.varies() {
                not_learnable.push(format!("the cost of {name}, which does not vary"));
            }
        }
        if together {
            let [one, other] = FEATURE_NAMES;
            not_learnable.push(format!("the costs of {one} and {other} apart: they vary together"));
        }
        let rises = correlation.iter().flatten().any(|value| *value > 0.0);
        let varies = attention.varies() || ffn.varies();
        if varies && rows >= LEARNABLE && !rises {
            not_learnable.push("a cost of load: latency does not rise with it".to_owned());
        }
        KindInspection {
            rows: rows as u64,
            learnable: rows >= LEARNABLE && varies,
            not_learnable,
            latency_ms,
            attention,
            ffn,
            correlation,
            spikes,
            slowest,
        }
    }
}

fn correlation_is(one: &[f64], other: &[f64], least: f64) -> bool {
    one.len() > 1 && correlation(one, other).is_some_and(|value| value.abs() > least)
}

/// Pearson's correlation; nothing where one side does not vary.
fn correlation(one: &[f64], other: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (mean_one, mean_other) = (mean(one), mean(other));
    let (mut both, mut of_one, mut of_other) = (0.0, 0.0, 0.0);
    for (x, y) in one.iter().zip(other) {
        let (dx, dy) = (x - mean_one, y - mean_other);
        both += dx * dy;
        of_one += dx * dx;
        of_other += dy * dy;
    }
    // Roots before the product, which could overflow.
    let value = both / (of_one.sqrt() * of_other.sqrt());
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspect(rows: &[(f64, f64, f64)]) -> KindInspection {
        let mut values = Values::default();
        for (line, (ms, attention, ffn)) in rows.iter().enumerate() {
            values.add(*ms, [*attention, *ffn], || format!("t:{line}"));
        }
        values.inspect()
    }

    #[test]
    fn what_cannot_be_learned_is_told() {
        let line = |n: f64| (10.0 + n, n, n * n);
        let good: Vec<_> = (1..9).map(f64::from).map(line).collect();
        let found = inspect(&good);
        assert!(found.learnable);
        assert_eq!(found.not_learnable, [""; 0]);
        assert!(found.correlation[0].unwrap() > 0.9999);
        let told = |rows: &[(f64, f64, f64)]| inspect(rows).not_learnable.join("; ");
        assert!(told(&good[..4]).contains("4 rows, of 5"));
        let constant: Vec<_> = good.iter().map(|(ms, a, _)| (*ms, *a, 4.0)).collect();
        assert_eq!(told(&constant), "the cost of ffn, which does not vary");
        let together: Vec<_> = good.iter().map(|(ms, a, _)| (*ms, *a, 100.0 * a)).collect();
        assert_eq!(told(&together), "the costs of attention and ffn apart: they vary together");
        let falling: Vec<_> = good.iter().map(|(ms, a, f)| (100.0 - ms, *a, *f)).collect();
        assert_eq!(told(&falling), "a cost of load: latency does not rise with it");
        let idle = inspect(&[(10.0, 4.0, 4.0); 6]);
        assert!(!idle.learnable);
        assert_eq!(idle.correlation, [None, None]);
    }

    #[test]
    fn spikes_are_counted_and_the_slowest_is_placed() {
        let rows = [
            (10.0, 1.0, 1.0),
            (10.0, 2.0, 1.0),
            (101.0, 3.0, 1.0),
            (100.0, 3.0, 1.0),
            (9.0, 1.0, 1.0),
        ];
        let found = inspect(&rows);
        // The median is 10, so 100 is just none.
        assert_eq!((found.spikes, &*found.slowest), (1, "t:2"));
    }
}
