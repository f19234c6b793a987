//! The latest records of one rank, to tell a record that comes again from one that is new.

use std::collections::{BTreeSet, VecDeque};

use crate::metrics::ForwardPassMetrics;

/// Records of a rank that are remembered: half a megabyte.
const REMEMBERED: usize = 1 << 16;

/// Fingerprints of the latest records of a rank.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    latest: VecDeque<u64>,
    /// The highest counter so far: a record above it is new, and nothing needs to be looked up.
    highest: u64,
    /// The same fingerprints by value, made when a counter does not rise for the first time.
    by_value: Option<BTreeSet<u64>>,
}

impl Remembered {
    /// Whether the record is one of those.
    pub(super) fn has(&mut self, metrics: &ForwardPassMetrics) -> bool {
        if metrics.counter_id > self.highest {
            return false;
        }
        let latest = &self.latest;
        self.by_value
            .get_or_insert_with(|| latest.iter().copied().collect())
            .contains(&fingerprint(metrics))
    }

    /// Adds a record, and forgets the oldest one where there are too many.
    pub(super) fn add(&mut self, metrics: &ForwardPassMetrics) {
        self.highest = self.highest.max(metrics.counter_id);
        let oldest = if self.latest.len() == REMEMBERED { self.latest.pop_front() } else { None };
        let print = fingerprint(metrics);
        self.latest.push_back(print);
        if let Some(by_value) = &mut self.by_value {
            if let Some(oldest) = oldest {
                by_value.remove(&oldest);
            }
            by_value.insert(print);
        }
    }
}

/// A hash of what makes a record that record: its counter, its duration and its work.
///
/// Not of when it arrived or what waited meanwhile, which another recorder may tell otherwise.
fn fingerprint(metrics: &ForwardPassMetrics) -> u64 {
    let work = &metrics.scheduled_requests;
    let parts = [
        metrics.counter_id,
        metrics.wall_time.to_bits(),
        work.num_prefill_requests,
        work.sum_prefill_tokens,
        work.sum_prefill_kv_tokens,
        work.num_decode_requests,
        work.sum_decode_kv_tokens,
    ];
    // Products with an odd number lose nothing, and the shift lets high bits have a say below.
    parts.iter().fold(0, |print: u64, part| {
        let mixed = (print ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(counter: u64) -> ForwardPassMetrics {
        let mut metrics = ForwardPassMetrics::decode(1, 10 * counter).with_wall_time(0.5);
        metrics.counter_id = counter;
        metrics
    }

    #[test]
    fn any_record_within_the_window_is_known_and_an_older_one_forgotten() {
        let mut remembered = Remembered::default();
        let last = REMEMBERED as u64 + 10;
        for counter in 1..=last {
            assert!(!remembered.has(&record(counter)));
            remembered.add(&record(counter));
        }
        assert!(remembered.by_value.is_none(), "nothing was looked up while counters rose");
        // Of 65,546 records the first ten are forgotten.
        assert!(!remembered.has(&record(10)));
        assert!(remembered.has(&record(11)));
        assert!(remembered.has(&record(last)));
        remembered.add(&record(10));
        assert!(remembered.has(&record(10)) && !remembered.has(&record(11)));
        assert_eq!(remembered.latest.len(), REMEMBERED);
        assert_eq!(remembered.by_value.unwrap().len(), REMEMBERED);
    }

    #[test]
    fn the_counter_the_duration_and_the_work_make_a_record() {
        let mut remembered = Remembered::default();
        let known = record(7).with_prefill(2, 300, 40);
        remembered.add(&known);
        let mut moved = known.clone();
        moved.queued_requests.num_prefill_requests = 9;
        moved.worker_id = "b".to_owned();
        assert!(remembered.has(&moved));
        let mut others = [0, 1, 2, 3, 4].map(|place| {
            let add = |index| u64::from(index == place);
            known
                .clone()
                .with_prefill(2 + add(0), 300 + add(1), 40 + add(2))
                .with_decode(1 + add(3), 70 + add(4))
        });
        for other in &mut others {
            assert!(!remembered.has(other), "{other:?}");
        }
        assert!(!remembered.has(&known.clone().with_wall_time(0.25)));
        let mut earlier = known;
        earlier.counter_id = 6;
        assert!(!remembered.has(&earlier));
    }
}
