//! What the records of one worker show: ranks, counters, idleness, and what its times span.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::metrics::ForwardPassMetrics;
use crate::trace::Iteration;

/// The records of one worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkerInspection {
    /// Its iterations, idle ones included.
    pub iterations: u64,
    /// Iterations without work.
    pub idle: u64,
    /// Records of each rank.
    pub records_by_rank: BTreeMap<u32, u64>,
    /// Counter values that are missing between consecutive records of one rank.
    pub counter_gaps: u64,
    /// How often a counter began anew, which is a restart of the publisher.
    pub counter_restarts: u64,
    /// Iterations by what their durations span; `none` where that is not told.
    pub timing_scopes: BTreeMap<String, u64>,
    /// What wrote its records down, where that is told, and how many iterations of each.
    pub producers: BTreeMap<String, u64>,
}

/// A worker's records as they come, with the latest counter of each rank.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) worker: WorkerInspection,
    latest: BTreeMap<u32, u64>,
}

impl Counters {
    pub(super) fn count(&mut self, iteration: &Iteration) {
        self.worker.iterations += 1;
        count_name(&mut self.worker.timing_scopes, iteration.timing_scope().unwrap_or("none"));
        if !iteration.producer.is_empty() {
            count_name(&mut self.worker.producers, &iteration.producer);
        }
        for rank in &iteration.ranks {
            self.count_rank(rank);
        }
    }

    fn count_rank(&mut self, rank: &ForwardPassMetrics) {
        *self.worker.records_by_rank.entry(rank.dp_rank).or_default() += 1;
        if let Some(latest) = self.latest.insert(rank.dp_rank, rank.counter_id) {
            // A smaller counter is a restart of the publisher, not a gap.
            let missing = rank.counter_id.saturating_sub(latest).saturating_sub(1);
            self.worker.counter_gaps = self.worker.counter_gaps.saturating_add(missing);
            self.worker.counter_restarts += u64::from(rank.counter_id < latest);
        }
    }
}

fn count_name(counts: &mut BTreeMap<String, u64>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => {
            counts.insert(name.to_owned(), 1);
        }
    }
}
