//! What a replay keeps of one worker's rows while it runs, bounded however many there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::score::relative_error;
use super::thin::{Greatest, Strided};
use crate::store::Upkeep;
use crate::workload::{FEATURES, WorkloadKind};

/// Rows from the start whose errors make up the cold-start curve.
pub(super) const FIRST_ROWS: usize = 1000;

/// Numbers that the timelines of all workers hold together, about.
const NUMBERS: usize = 240_000;

/// How many rows of each sort a timeline keeps at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caps {
    /// Evenly spread ones.
    pub(super) even: usize,
    /// Spikes of each kind of work.
    pub(super) spikes: usize,
    /// Abstentions of each fit.
    pub(super) abstentions: usize,
    /// Worst errors of each fit.
    pub(super) worst: usize,
    /// Events of each sort and fit.
    pub(super) events: usize,
}

impl Caps {
    /// The share of one of so many workers, where so many fits take part.
    pub(super) fn share(workers: usize, fits: usize) -> Self {
        let fits = fits.max(1);
        let rows = NUMBERS / (6 + 3 * fits) / workers.max(1);
        Self {
            even: (rows * 3 / 4).clamp(16, 4096),
            spikes: (rows / 32).clamp(4, 256),
            abstentions: (rows / 16 / fits).clamp(4, 256),
            worst: (rows / 16 / fits).clamp(4, 64),
            events: (rows / 16).clamp(8, 512),
        }
    }
}

/// One row and what the fits said of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Its place in the input.
    pub(super) iteration: u64,
    pub(super) kind: WorkloadKind,
    pub(super) observed_ms: f64,
    /// By the default weights.
    pub(super) features: [f64; FEATURES],
    pub(super) eligible: bool,
    pub(super) points: Box<[Point]>,
}

/// What one fit said of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) predicted_ms: Option<f64>,
    /// Why there is no forecast.
    pub(super) reason: &'static str,
    pub(super) interval_ms: Option<[f64; 2]>,
    /// By the fit's own weights, where it has such.
    pub(super) features: Option<[f64; FEATURES]>,
}

/// What is kept of a row and of one fit, to tell sorts of rows apart.
#[derive(Debug, Clone)]
pub(super) struct FitRecording {
    pub(super) worst: Greatest<Arc<Row>>,
    /// Rows without an answer, and how many there were by reason.
    pub(super) abstentions: Strided<Arc<Row>>,
    pub(super) abstained: BTreeMap<&'static str, u64>,
    /// Relative errors from the start by kind of work; not a number where there is no answer.
    pub(super) first: BTreeMap<WorkloadKind, Vec<f64>>,
    upkeep: Upkeep,
    pub(super) events: Vec<Strided<u64>>,
}

/// What is kept of the rows of one worker.
#[derive(Debug, Clone)]
pub(super) struct Recording {
    pub(super) even: Strided<Arc<Row>>,
    /// Of each kind of work all latencies, and the rows with the greatest.
    pub(super) slowest: BTreeMap<WorkloadKind, (Vec<f64>, Greatest<Arc<Row>>)>,
    pub(super) fits: Vec<FitRecording>,
    caps: Caps,
}

impl Recording {
    pub(super) fn new(fits: usize, caps: Caps) -> Self {
        let fit = FitRecording {
            worst: Greatest::new(caps.worst),
            abstentions: Strided::new(caps.abstentions),
            abstained: BTreeMap::new(),
            first: BTreeMap::new(),
            upkeep: Upkeep::default(),
            events: vec![Strided::new(caps.events); Upkeep::NAMES.len()],
        };
        Self {
            even: Strided::new(caps.even),
            slowest: BTreeMap::new(),
            fits: vec![fit; fits],
            caps,
        }
    }

    /// Takes note of what a fit has done so far, with the row that it learned last.
    pub(super) fn watch(&mut self, fit: usize, row: u64, upkeep: Upkeep) {
        let fit = &mut self.fits[fit];
        for (index, events) in fit.events.iter_mut().enumerate() {
            if upkeep.counts()[index] > fit.upkeep.counts()[index] {
                events.offer(|| row);
            }
        }
        fit.upkeep = upkeep;
    }

    /// Takes in the next row.
    pub(super) fn take(&mut self, row: Row) {
        let row = Arc::new(row);
        self.even.offer(|| Arc::clone(&row));
        let greatest = || (Vec::new(), Greatest::new(self.caps.spikes));
        let (latencies, slowest) = self.slowest.entry(row.kind).or_insert_with(greatest);
        latencies.push(row.observed_ms);
        slowest.offer(row.observed_ms, || Arc::clone(&row));
        for (fit, point) in self.fits.iter_mut().zip(&row.points) {
            let error = point.predicted_ms.map(|ms| relative_error(ms, row.observed_ms));
            let first = fit.first.entry(row.kind).or_default();
            if first.len() < FIRST_ROWS {
                first.push(error.unwrap_or(f64::NAN));
            }
            match error {
                None => {
                    *fit.abstained.entry(point.reason).or_default() += 1;
                    fit.abstentions.offer(|| Arc::clone(&row));
                }
                Some(error) if row.eligible => fit.worst.offer(error.abs(), || Arc::clone(&row)),
                Some(_) => {}
            }
        }
    }

    /// Keeps no more than what these bounds admit.
    pub(super) fn shrink(&mut self, caps: Caps) {
        self.even.shrink(caps.even);
        for (_, slowest) in self.slowest.values_mut() {
            slowest.shrink(caps.spikes);
        }
        for fit in &mut self.fits {
            fit.worst.shrink(caps.worst);
            fit.abstentions.shrink(caps.abstentions);
            for events in &mut fit.events {
                events.shrink(caps.events);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: WorkloadKind = WorkloadKind::PureDecode;

    fn row(iteration: u64, observed_ms: f64, predicted_ms: Option<f64>, eligible: bool) -> Row {
        let point = Point { predicted_ms, reason: "cold", interval_ms: None, features: None };
        let points = Box::new([point]);
        Row { iteration, kind: KIND, observed_ms, features: [1.0, 2.0], eligible, points }
    }

    #[test]
    fn abstentions_and_worst_errors_are_kept_beside_the_even_rows() {
        let mut recording = Recording::new(1, Caps::share(10_000, 1));
        assert_eq!(
            recording.caps,
            Caps { even: 16, spikes: 4, abstentions: 4, worst: 4, events: 8 }
        );
        recording.take(row(0, 10.0, None, false));
        recording.take(row(1, 10.0, Some(90.0), false));
        for index in 2..100 {
            // Off by as many thousandths as the row's number.
            recording.take(row(index, 1000.0, Some(1000.0 + index as f64), true));
        }
        recording.take(row(100, 10.0, None, true));
        let fit = &recording.fits[0];
        let rows = |rows: Vec<&Arc<Row>>| rows.iter().map(|row| row.iteration).collect::<Vec<_>>();
        // The row of the warm-up is not among the worst, far off as it is.
        assert_eq!(rows(fit.worst.kept().collect()), [99, 98, 97, 96]);
        assert_eq!(rows(fit.abstentions.kept().iter().collect()), [0, 100]);
        assert_eq!(fit.abstained, BTreeMap::from([("cold", 2)]));
        // 101 rows in at most 16: every eighth.
        assert_eq!(recording.even.stride(), 8);
        assert_eq!(recording.even.kept().len(), 13);
        assert!(fit.first[&KIND][0].is_nan());
        assert_eq!(fit.first[&KIND][1], 8.0);
    }

    #[test]
    fn an_event_is_where_a_counter_has_risen() {
        let mut recording = Recording::new(1, Caps::share(1, 1));
        let at = |searches, rebuilds| Upkeep { searches, rebuilds, ..Upkeep::default() };
        for (row, upkeep) in [(3, at(0, 0)), (4, at(1, 0)), (5, at(1, 0)), (9, at(2, 7))] {
            recording.watch(0, row, upkeep);
        }
        let events = |name: &str| {
            let index = Upkeep::NAMES.iter().position(|known| *known == name).unwrap();
            recording.fits[0].events[index].kept()
        };
        assert_eq!((events("knot_search"), events("rebuild")), (&[4, 9][..], &[9][..]));
        assert_eq!(events("fallback"), [0_u64; 0]);
    }
}
