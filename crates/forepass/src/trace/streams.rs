//! What the records of each worker and rank show when they are followed one after the other.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::metrics::ForwardPassMetrics;

/// The workers of a trace and the latest record of each of their ranks.
#[derive(Default)]
pub(super) struct Streams {
    workers: Vec<Worker>,
    /// The place of each worker, and that of the latest one, most likely the next one's too.
    places: BTreeMap<String, usize>,
    current: usize,
    told: Told,
}

struct Worker {
    id: String,
    scope: Option<String>,
    latest: Vec<Latest>,
}

/// The latest record of a rank: its counter, and the bits of its duration.
#[derive(Clone, Copy, PartialEq)]
struct Latest {
    rank: u32,
    counter: u64,
    wall_time: u64,
}

impl From<&ForwardPassMetrics> for Latest {
    fn from(metrics: &ForwardPassMetrics) -> Self {
        Self {
            rank: metrics.dp_rank,
            counter: metrics.counter_id,
            wall_time: metrics.wall_time.to_bits(),
        }
    }
}

/// What was told already; once for the whole trace.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)]
struct Told {
    ranks_apart: bool,
    scope: bool,
    counter: bool,
}

impl Streams {
    /// Follows an iteration; pushes what is to be told of it.
    ///
    /// A counter of zero is taken for one that the producer does not keep.
    ///
    /// # Errors
    /// Ranks whose durations span different things, or a record that was there already.
    pub(super) fn follow(
        &mut self,
        ranks: &[ForwardPassMetrics],
        tell: &mut impl FnMut(String),
    ) -> Result<()> {
        let Some(first) = ranks.first() else { return Ok(()) };
        if let Some(other) = ranks.iter().find(|rank| rank.timing_scope != first.timing_scope) {
            return Err(Error::metrics(
                "mixed_timing_scope",
                "timing_scope",
                format!(
                    "{} on one rank and {} on another: their durations span different things",
                    scope_name(first.timing_scope.as_deref()),
                    scope_name(other.timing_scope.as_deref())
                ),
            ));
        }
        let place = self.place(first);
        let worker = &mut self.workers[place];
        let repeats = |rank| {
            let seen = Latest::from(rank);
            seen.counter > 0 && worker.latest.contains(&seen)
        };
        if ranks.iter().all(repeats) {
            return Err(Error::metrics(
                "duplicate_counter",
                "counter_id",
                format!(
                    "{} of worker `{}`, rank {}, was there already, with the same duration",
                    first.counter_id, first.worker_id, first.dp_rank
                ),
            ));
        }
        if let ([rank], false) = (ranks, self.told.ranks_apart) {
            if worker.latest.iter().any(|known| known.rank != rank.dp_rank) {
                self.told.ranks_apart = true;
                tell(format!(
                    "worker `{}` has several ranks, each on lines of its own: they are not joined \
                     unless that is asked for, and each record counts as an iteration",
                    rank.worker_id
                ));
            }
        }
        if worker.scope != first.timing_scope && !self.told.scope {
            self.told.scope = true;
            tell(format!(
                "worker `{}` changes its timing scope from {} to {}: what is learned of one does \
                 not count for the other",
                first.worker_id,
                scope_name(worker.scope.as_deref()),
                scope_name(first.timing_scope.as_deref())
            ));
        }
        for rank in ranks {
            let seen = Latest::from(rank);
            let Some(latest) = worker.latest.iter_mut().find(|latest| latest.rank == seen.rank)
            else {
                worker.latest.push(seen);
                continue;
            };
            let again = latest.counter > 0 && latest.counter == seen.counter;
            *latest = seen;
            if again && !self.told.counter {
                self.told.counter = true;
                tell(format!(
                    "counter {} of worker `{}` stands on two records of different durations: both \
                     are kept",
                    rank.counter_id, rank.worker_id
                ));
            }
        }
        Ok(())
    }

    /// The place of a record's worker, entered when first seen.
    fn place(&mut self, metrics: &ForwardPassMetrics) -> usize {
        let id = &metrics.worker_id;
        if self.workers.get(self.current).is_some_and(|worker| worker.id == *id) {
            return self.current;
        }
        if let Some(place) = self.places.get(id) {
            self.current = *place;
            return self.current;
        }
        self.current = self.workers.len();
        self.places.insert(id.clone(), self.current);
        self.workers.push(Worker {
            id: id.clone(),
            scope: metrics.timing_scope.clone(),
            latest: Vec::new(),
        });
        self.current
    }
}

fn scope_name(scope: Option<&str>) -> String {
    scope.map_or_else(|| "none".to_owned(), |scope| format!("`{scope}`"))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn record(worker: &str, rank: u32, counter: u64, wall_time: f64) -> ForwardPassMetrics {
        ForwardPassMetrics {
            worker_id: worker.to_owned(),
            dp_rank: rank,
            counter_id: counter,
            wall_time,
            ..ForwardPassMetrics::default()
        }
    }

    fn follow(iterations: &[&[ForwardPassMetrics]]) -> (Vec<&'static str>, Vec<String>) {
        let (mut streams, mut told) = (Streams::default(), Vec::new());
        let mut codes = Vec::new();
        for ranks in iterations {
            let followed = streams.follow(ranks, &mut |text| told.push(text));
            codes.push(followed.err().map_or("", |error| error.code()));
        }
        (codes, told)
    }

    #[test]
    fn a_record_that_comes_twice_counts_once() {
        let one = record("a", 0, 7, 0.5);
        let (codes, told) = follow(&[
            from_ref(&one),
            &[record("b", 0, 7, 0.5)],
            from_ref(&one),
            &[record("a", 0, 7, 0.25)],
            &[record("a", 0, 0, 0.5)],
            &[record("a", 0, 0, 0.5)],
            &[record("a", 0, 8, 0.5), record("a", 1, 8, 0.5)],
            &[record("a", 0, 8, 0.5), record("a", 1, 8, 0.5)],
        ]);
        assert_eq!(codes, ["", "", "duplicate_counter", "", "", "", "", "duplicate_counter"]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("counter 7 of worker `a` stands on two records"), "{told:?}");
    }

    #[test]
    fn scopes_are_not_mixed_within_an_iteration_and_told_between_them() {
        let scoped = |rank, counter, scope: Option<&str>| ForwardPassMetrics {
            timing_scope: scope.map(ToOwned::to_owned),
            ..record("a", rank, counter, 0.5)
        };
        let (codes, told) = follow(&[
            &[scoped(0, 1, Some("x")), scoped(1, 1, Some("x"))],
            &[scoped(0, 2, Some("x")), scoped(1, 2, Some("y"))],
            &[scoped(0, 3, Some("x")), scoped(1, 3, None)],
            &[scoped(0, 4, None), scoped(1, 4, None)],
            &[scoped(0, 5, Some("x")), scoped(1, 5, Some("x"))],
            &[scoped(0, 6, None), scoped(1, 6, None)],
        ]);
        assert_eq!(codes, ["", "mixed_timing_scope", "mixed_timing_scope", "", "", ""]);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("from `x` to none"), "{told:?}");
    }
}
