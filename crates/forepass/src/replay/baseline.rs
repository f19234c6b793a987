//! Forecasts that know nothing of load, which a fit must beat to be worth having.

use std::collections::VecDeque;

use crate::workload::WorkloadKind;

/// A forecast from the past latencies of the same kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Baseline {
    /// The previous latency.
    Last,
    /// The median of the last 64 latencies.
    Median,
}

impl Baseline {
    /// All baselines, in the order in which they are reported.
    pub const ALL: [Self; 2] = [Self::Last, Self::Median];

    /// The stable name: `last`, `median`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Median => "median",
        }
    }

    /// How many latencies of a kind it looks at.
    pub fn window(self) -> usize {
        match self {
            Self::Last => 1,
            Self::Median => 64,
        }
    }
}

/// The latest latencies of each kind of work, as they came and sorted.
#[derive(Debug, Clone)]
pub(super) struct RecentLatencies {
    window: usize,
    kinds: Vec<(WorkloadKind, VecDeque<f64>, Vec<f64>)>,
}

impl RecentLatencies {
    pub(super) fn new(baseline: Baseline) -> Self {
        Self { window: baseline.window(), kinds: Vec::new() }
    }

    /// The median of the latest latencies; the mean of the middle two where their number is even.
    pub(super) fn median(&self, kind: WorkloadKind) -> Option<f64> {
        let (_, _, sorted) = self.kinds.iter().find(|(of, ..)| *of == kind)?;
        let middle = sorted.len() / 2;
        Some(if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        })
    }

    pub(super) fn learn(&mut self, kind: WorkloadKind, latency_ms: f64) {
        let index = self.kinds.iter().position(|(of, ..)| *of == kind).unwrap_or_else(|| {
            self.kinds.push((kind, VecDeque::new(), Vec::new()));
            self.kinds.len() - 1
        });
        let (_, arrived, sorted) = &mut self.kinds[index];
        if arrived.len() == self.window {
            if let Some(oldest) = arrived.pop_front() {
                sorted.remove(sorted.partition_point(|&value| value < oldest));
            }
        }
        arrived.push_back(latency_ms);
        sorted.insert(sorted.partition_point(|&value| value < latency_ms), latency_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_recent_latencies() {
        let (decode, prefill) = (WorkloadKind::PureDecode, WorkloadKind::PurePrefill);
        let mut median = RecentLatencies::new(Baseline::Median);
        assert_eq!(median.median(decode), None);
        for latency in [5.0, 1.0, 9.0] {
            median.learn(decode, latency);
        }
        median.learn(prefill, 100.0);
        assert_eq!((median.median(decode), median.median(prefill)), (Some(5.0), Some(100.0)));
        median.learn(decode, 7.0);
        assert_eq!(median.median(decode), Some(6.0));
    }

    #[test]
    fn old_latencies_leave_the_window() {
        let mut last = RecentLatencies::new(Baseline::Last);
        let mut median = RecentLatencies::new(Baseline::Median);
        for latency in 1..=100 {
            last.learn(WorkloadKind::PureDecode, f64::from(latency));
            median.learn(WorkloadKind::PureDecode, f64::from(latency));
        }
        assert_eq!(last.median(WorkloadKind::PureDecode), Some(100.0));
        // The last 64 are 37..=100, whose middle two are 68 and 69.
        assert_eq!(median.median(WorkloadKind::PureDecode), Some(68.5));
    }
}
