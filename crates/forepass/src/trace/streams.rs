//! What the records of each worker and rank show when they are followed one after the other.

use std::collections::BTreeMap;
use std::fmt;

use super::Iteration;
use super::pace::Pace;
use super::remembered::Remembered;
use crate::error::{Error, Result};
use crate::metrics::ForwardPassMetrics;

/// The workers of a trace and what is known of each of their ranks.
#[derive(Default)]
pub(super) struct Streams {
    workers: Vec<Worker>,
    /// The place of each worker, and that of the latest one, most likely the next one's too.
    places: BTreeMap<String, usize>,
    current: usize,
    told: Told,
    scope_changes: u64,
}

struct Worker {
    id: String,
    /// That of its latest iteration.
    scope: Option<String>,
    ranks: Vec<Rank>,
}

/// What is known of a rank.
struct Rank {
    number: u32,
    /// Counter of the latest record, and whether the one before this was there already.
    counter: u64,
    repeating: bool,
    remembered: Remembered,
    pace: Pace,
}

/// What was told already; once for the whole trace.
#[derive(Default)]
struct Told {
    ranks_apart: bool,
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
        iteration: &Iteration,
        tell: &mut impl FnMut(String),
    ) -> Result<()> {
        let ranks = &*iteration.ranks;
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
        if ranks.iter().all(|rank| worker.rank(rank.dp_rank).has(rank)) {
            for rank in ranks {
                worker.rank(rank.dp_rank).repeating = true;
            }
            return Err(Error::metrics(
                "duplicate_counter",
                "counter_id",
                format!(
                    "{} of {worker}, rank {}, was there already, with the same duration and work",
                    first.counter_id, first.dp_rank
                ),
            ));
        }
        if let ([rank], false) = (ranks, self.told.ranks_apart) {
            if worker.ranks.iter().any(|known| known.number != rank.dp_rank) {
                self.told.ranks_apart = true;
                tell(format!(
                    "{worker} has several ranks, each on lines of its own: they are not joined \
                     unless that is asked for, and each record counts as an iteration"
                ));
            }
        }
        if worker.scope != first.timing_scope {
            self.scope_changes += 1;
            if self.scope_changes == 1 {
                tell(format!(
                    "{worker} changes its timing scope from {} to {}: what is learned of one does \
                     not count for the other",
                    scope_name(worker.scope.as_deref()),
                    scope_name(first.timing_scope.as_deref())
                ));
            }
            worker.scope.clone_from(&first.timing_scope);
        }
        for metrics in ranks {
            let rank = worker.rank(metrics.dp_rank);
            let again = rank.counter > 0 && rank.counter == metrics.counter_id;
            rank.add(metrics, iteration.time_ms);
            if again && !self.told.counter {
                self.told.counter = true;
                tell(format!(
                    "counter {} of {worker} stands on two records that differ: both are kept",
                    metrics.counter_id
                ));
            }
        }
        Ok(())
    }

    /// What only the whole trace shows.
    pub(super) fn conclude(self) -> Vec<String> {
        let changes = (self.scope_changes > 1)
            .then(|| format!("the timing scope changes {} times in all", self.scope_changes));
        let doubts = self.workers.iter().filter_map(|worker| {
            let doubt = worker.ranks.iter().find_map(|rank| rank.pace.doubt())?;
            Some(format!("{worker}: {doubt}"))
        });
        changes.into_iter().chain(doubts).collect()
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
            ranks: Vec::new(),
        });
        self.current
    }
}

impl Worker {
    /// What is known of a rank, which is entered when first seen.
    fn rank(&mut self, number: u32) -> &mut Rank {
        let found = self.ranks.iter().position(|known| known.number == number);
        let place = found.unwrap_or_else(|| {
            self.ranks.push(Rank {
                number,
                counter: 0,
                repeating: false,
                remembered: Remembered::default(),
                pace: Pace::default(),
            });
            self.ranks.len() - 1
        });
        &mut self.ranks[place]
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.id.is_empty() {
            f.write_str("worker (no id)")
        } else {
            write!(f, "worker `{}`", self.id)
        }
    }
}

impl Rank {
    /// Whether this record was there already.
    ///
    /// A heartbeat of counter 1 looks like any other, also after a restart: it is a repetition
    /// only next to one.
    fn has(&mut self, metrics: &ForwardPassMetrics) -> bool {
        let tells = metrics.wall_time > 0.0;
        metrics.counter_id > 0
            && (tells || self.repeating || metrics.counter_id == self.counter)
            && self.remembered.has(metrics)
    }

    fn add(&mut self, metrics: &ForwardPassMetrics, time_ms: Option<f64>) {
        self.counter = metrics.counter_id;
        self.repeating = false;
        if metrics.counter_id > 0 {
            self.remembered.add(metrics);
        }
        if let Some(time_ms) = time_ms {
            self.pace.add(metrics.wall_time, time_ms);
        }
    }
}

fn scope_name(scope: Option<&str>) -> String {
    scope.map_or_else(|| "none".to_owned(), |scope| format!("`{scope}`"))
}

#[cfg(test)]
mod tests;
