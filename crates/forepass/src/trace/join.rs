//! Joins the records of several ranks by their counter, where that is asked for.

use std::collections::BTreeMap;

use super::Iteration;
use crate::error::Error;

/// Iterations that wait for ranks; those that wait longest are given up beyond that.
const MOST_WAITING: usize = 1024;

/// Iterations some of whose ranks are still to come, by worker and counter.
#[derive(Debug)]
pub(super) struct Join {
    ranks: usize,
    waiting: BTreeMap<(String, u64), Iteration>,
    /// By line, which orders them by age.
    age: BTreeMap<u64, (String, u64)>,
}

/// What became of a record.
#[derive(Debug, PartialEq)]
pub(super) enum Joined {
    /// It opened an iteration; if too many were waiting, the oldest of them was given up.
    Opened(Option<Iteration>),
    /// It was added to an iteration that is not whole yet.
    Added,
    /// It made this iteration whole.
    Whole(Iteration),
    /// Its rank was there already.
    Twice(Error),
}

impl Join {
    pub(super) fn new(ranks: usize) -> Self {
        Self { ranks, waiting: BTreeMap::new(), age: BTreeMap::new() }
    }

    /// Takes in the record of one rank, or those of some.
    pub(super) fn take(&mut self, iteration: Iteration) -> Joined {
        let Some(first) = iteration.ranks.first() else { return Joined::Added };
        let key = (first.worker_id.clone(), first.counter_id);
        let Some(open) = self.waiting.get_mut(&key) else {
            if iteration.ranks.len() >= self.ranks {
                return Joined::Whole(iteration);
            }
            self.age.insert(iteration.line, key.clone());
            self.waiting.insert(key, iteration);
            let oldest = if self.waiting.len() > MOST_WAITING { self.give_up() } else { None };
            return Joined::Opened(oldest);
        };
        let known = |rank: u32| open.ranks.iter().any(|known| known.dp_rank == rank);
        if let Some(twice) = iteration.ranks.iter().find(|rank| known(rank.dp_rank)) {
            return Joined::Twice(Error::metrics(
                "duplicate_counter",
                "counter_id",
                format!("{} is there twice for rank {}", twice.counter_id, twice.dp_rank),
            ));
        }
        open.ranks.extend(iteration.ranks);
        if open.ranks.len() < self.ranks {
            return Joined::Added;
        }
        self.age.remove(&open.line);
        let mut whole = self.waiting.remove(&key).unwrap_or_default();
        whole.ranks.sort_by_key(|rank| rank.dp_rank);
        Joined::Whole(whole)
    }

    /// The iteration that waits longest, given up.
    pub(super) fn give_up(&mut self) -> Option<Iteration> {
        let (_, key) = self.age.pop_first()?;
        self.waiting.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ForwardPassMetrics;

    fn record(line: u64, worker: &str, rank: u32, counter: u64) -> Iteration {
        let metrics = ForwardPassMetrics {
            worker_id: worker.to_owned(),
            dp_rank: rank,
            counter_id: counter,
            ..ForwardPassMetrics::default()
        };
        Iteration { line, ranks: vec![metrics], ..Iteration::default() }
    }

    #[test]
    fn ranks_of_one_counter_come_together() {
        let mut join = Join::new(2);
        assert_eq!(join.take(record(1, "a", 1, 7)), Joined::Opened(None));
        assert_eq!(join.take(record(2, "b", 0, 7)), Joined::Opened(None));
        assert!(matches!(join.take(record(3, "a", 1, 7)), Joined::Twice(_)));
        let Joined::Whole(whole) = join.take(record(4, "a", 0, 7)) else { panic!() };
        let ranks: Vec<_> = whole.ranks.iter().map(|rank| rank.dp_rank).collect();
        assert_eq!((whole.line, ranks), (1, vec![0, 1]));
        assert_eq!(join.give_up().unwrap().line, 2);
        assert_eq!(join.give_up(), None);
    }

    #[test]
    fn not_too_many_wait() {
        let mut join = Join::new(2);
        for line in 0..MOST_WAITING as u64 {
            assert_eq!(join.take(record(line, "a", 0, line)), Joined::Opened(None));
        }
        let Joined::Opened(Some(oldest)) = join.take(record(5000, "a", 0, 5000)) else { panic!() };
        assert_eq!(oldest.line, 0);
    }
}
