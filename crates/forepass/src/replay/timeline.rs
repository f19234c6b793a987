//! The course of a replay in bounded size: rows of each worker, events, and curves of the errors.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::curves::{ColdStart, Distributions, LoadBin, SHARES_PCT, cold_start, load_bins};
use super::learner::Learner;
use super::recording::{Caps, FitRecording, Recording, Row};
use super::score::{INTERVALS, relative_error};
use crate::inspect::SPIKE_MEDIANS;
use crate::quantile::interpolated_quantile;
use crate::store::Upkeep;
use crate::workload::{FEATURES, WorkloadKind};

/// Workers whose rows are told at most, those with the most rows.
const WORKERS: usize = 200;

/// The name under which curves of all kinds of work go.
pub(super) const ALL_KINDS: &str = "all";

/// Which of the [`INTERVALS`] a timeline shows.
pub(super) const SHOWN_INTERVAL: usize = 1;

/// The course of a replay, thinned where there are many rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Timeline {
    /// The shares of answered rows, percent, at which distributions of errors are told.
    pub shares_pct: Vec<f64>,
    /// A latency of more than this many medians of its worker and kind of work is a spike.
    pub spike_medians: f64,
    /// The level of the intervals.
    pub interval_level: &'static str,
    /// Each fit over all workers, in the order of the results.
    pub fits: Vec<FitCurves>,
    /// Workers that there were, over all inputs.
    pub workers_found: usize,
    /// Spikes that these had.
    pub spikes_found: u64,
    /// Each worker of each input; where there are very many, those with the most rows.
    pub workers: Vec<WorkerTimeline>,
}

/// The errors of one fit over all workers, by kind of work and of `all`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FitCurves {
    /// Name of the fit.
    pub fit: String,
    /// Absolute percentage error that each share of the answered rows stays within; `null` where
    /// none counts.
    pub distribution_pct: BTreeMap<&'static str, Option<Vec<f64>>>,
    /// The errors over the first rows of each store.
    pub cold_start: BTreeMap<&'static str, Vec<ColdStart>>,
}

/// What is kept of the rows of one worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkerTimeline {
    /// The input as the caller named it.
    pub input: String,
    /// Its id; empty where there is none.
    pub worker_id: String,
    /// What its durations span, where the trace tells.
    pub timing_scope: Option<String>,
    /// Scored rows.
    pub rows: u64,
    /// Of how many rows one is kept, besides spikes, abstentions and worst errors.
    pub every: u64,
    /// Its kinds of work, to which `points` refer by their index.
    pub kinds: Vec<&'static str>,
    /// The rows kept, as columns.
    pub points: Points,
    /// Which points are of a store that is still warming up.
    pub warming_up: Vec<usize>,
    /// Spikes that there were.
    pub spikes_found: u64,
    /// Which points are spikes: the greatest of each kind of work.
    pub spikes: Vec<usize>,
    /// Each fit, in the order of the results.
    pub fits: Vec<FitTimeline>,
}

/// Rows as columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Points {
    /// Which iteration of the input it is.
    pub row: Vec<u64>,
    /// Index of the kind of work.
    pub kind: Vec<usize>,
    /// The attention feature, by the default weights.
    pub attention: Vec<f64>,
    /// The FFN feature, by the default weights.
    pub ffn: Vec<f64>,
    /// Latency, milliseconds.
    pub observed_ms: Vec<f64>,
}

/// What one fit said of a worker's rows, and what it did meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FitTimeline {
    /// Forecast of each point; `null` where it abstains.
    pub predicted_ms: Vec<Option<f64>>,
    /// Signed percentage error of each point.
    pub error_pct: Vec<Option<f64>>,
    /// Interval around each forecast; `null` of a fit that knows none.
    pub interval_ms: Option<Vec<Option<[f64; 2]>>>,
    /// The features of each point by the weights of the fit, where these are its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<[f64; FEATURES]>>,
    /// Rows without an answer, by reason.
    pub abstained: BTreeMap<&'static str, u64>,
    /// Which points these are, of those that are kept.
    pub abstentions: BTreeMap<&'static str, Vec<usize>>,
    /// Which points have the greatest errors of all rows that count, the greatest first.
    pub worst: Vec<usize>,
    /// What was done to the fit: how often, and at which rows.
    pub events: BTreeMap<&'static str, Events>,
    /// Knots of each axis in units of its feature after the last row, by kind of work.
    pub knots: BTreeMap<&'static str, [Vec<f64>; FEATURES]>,
    /// Errors along each feature, by kind of work, of points that are spread evenly.
    pub load: BTreeMap<&'static str, [Vec<LoadBin>; FEATURES]>,
}

/// Events of one sort.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Events {
    /// How many rows had one.
    pub count: u64,
    /// These rows, every so manieth where there are many.
    pub rows: Vec<u64>,
}

/// A worker's recording, with what it takes to make a timeline of it.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) worker_id: String,
    pub(super) timing_scope: Option<String>,
    pub(super) recording: Recording,
    knots: Vec<BTreeMap<&'static str, [Vec<f64>; FEATURES]>>,
}

impl Recorded {
    pub(super) fn new(
        worker_id: String,
        timing_scope: Option<String>,
        recording: Recording,
        learners: &[Learner],
    ) -> Self {
        let knots = learners.iter().map(Learner::knots).collect();
        Self { worker_id, timing_scope, recording, knots }
    }

    fn timeline(mut self, input: &str, caps: Caps) -> WorkerTimeline {
        self.recording.shrink(caps);
        let Recording { even, slowest, fits, .. } = &self.recording;
        let (spikes, spikes_found) = spikes(slowest.values());
        let by_fits = fits.iter().flat_map(|fit| fit.worst.kept().chain(fit.abstentions.kept()));
        let rows: BTreeMap<u64, &Row> = even
            .kept()
            .iter()
            .chain(spikes.iter().copied())
            .chain(by_fits)
            .map(|row| (row.iteration, &**row))
            .collect();
        let rows: Vec<&Row> = rows.into_values().collect();
        let kinds: Vec<WorkloadKind> = slowest.keys().copied().collect();
        let pairs = fits.iter().zip(self.knots).enumerate();
        WorkerTimeline {
            input: input.to_owned(),
            rows: even.arrived(),
            every: even.stride(),
            kinds: kinds.iter().map(|kind| kind.name()).collect(),
            warming_up: (0..rows.len()).filter(|&index| !rows[index].eligible).collect(),
            spikes_found,
            spikes: spikes
                .iter()
                .filter_map(|row| place(&rows, row))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            fits: pairs
                .map(|(index, (fit, knots))| fit_timeline(index, fit, knots, even.kept(), &rows))
                .collect(),
            points: points(&rows, &kinds),
            worker_id: self.worker_id,
            timing_scope: self.timing_scope,
        }
    }
}

/// The spikes that are kept, and how many there were.
fn spikes<'a>(
    slowest: impl Iterator<Item = &'a (Vec<f64>, super::thin::Greatest<Arc<Row>>)>,
) -> (Vec<&'a Arc<Row>>, u64) {
    let (mut spikes, mut found) = (Vec::new(), 0);
    for (latencies, slowest) in slowest {
        let mut sorted = latencies.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let Some(median) = interpolated_quantile(&sorted, 0.5) else { continue };
        let least = SPIKE_MEDIANS * median;
        found += (sorted.len() - sorted.partition_point(|&ms| ms <= least)) as u64;
        spikes.extend(slowest.kept().filter(|row| row.observed_ms > least));
    }
    (spikes, found)
}

/// Where a row is among those that are kept.
fn place(rows: &[&Row], row: &Row) -> Option<usize> {
    rows.binary_search_by_key(&row.iteration, |row| row.iteration).ok()
}

fn points(rows: &[&Row], kinds: &[WorkloadKind]) -> Points {
    let mut points = Points::default();
    for row in rows {
        points.row.push(row.iteration);
        points.kind.push(kinds.iter().position(|kind| *kind == row.kind).unwrap_or(0));
        points.attention.push(row.features[0]);
        points.ffn.push(row.features[1]);
        points.observed_ms.push(row.observed_ms);
    }
    points
}

fn fit_timeline(
    index: usize,
    fit: &FitRecording,
    knots: BTreeMap<&'static str, [Vec<f64>; FEATURES]>,
    even: &[Arc<Row>],
    rows: &[&Row],
) -> FitTimeline {
    let points = || rows.iter().map(|row| (*row, &row.points[index]));
    let error_pct = |row: &Row| {
        let predicted_ms = row.points[index].predicted_ms?;
        Some(100.0 * relative_error(predicted_ms, row.observed_ms))
    };
    let mut abstentions: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
    for (place, (_, point)) in points().enumerate() {
        if point.predicted_ms.is_none() {
            abstentions.entry(point.reason).or_default().push(place);
        }
    }
    let mut loads: BTreeMap<&'static str, Vec<([f64; FEATURES], f64)>> = BTreeMap::new();
    for row in even.iter().filter(|row| row.eligible) {
        if let Some(error_pct) = error_pct(row).filter(|error_pct| error_pct.is_finite()) {
            let features = row.points[index].features.unwrap_or(row.features);
            loads.entry(row.kind.name()).or_default().push((features, error_pct));
        }
    }
    let along = |loads: &[([f64; FEATURES], f64)]| {
        std::array::from_fn(|axis| {
            load_bins(loads.iter().map(|&(features, error)| (features[axis], error)).collect())
        })
    };
    let events = Upkeep::NAMES.iter().zip(&fit.events).filter(|(_, of)| of.arrived() > 0);
    FitTimeline {
        predicted_ms: points().map(|(_, point)| point.predicted_ms).collect(),
        error_pct: rows.iter().map(|row| error_pct(row)).collect(),
        interval_ms: points()
            .any(|(_, point)| point.interval_ms.is_some())
            .then(|| points().map(|(_, point)| point.interval_ms).collect()),
        features: points().map(|(_, point)| point.features).collect(),
        abstained: fit.abstained.clone(),
        abstentions,
        worst: fit.worst.kept().filter_map(|row| place(rows, row)).collect(),
        events: events
            .map(|(name, of)| (*name, Events { count: of.arrived(), rows: of.kept().to_vec() }))
            .collect(),
        knots,
        load: loads.iter().map(|(kind, loads)| (*kind, along(loads))).collect(),
    }
}

/// The timelines of all workers, each of which takes its share of the room.
pub(super) fn timeline(
    runs: Vec<(String, Vec<Recorded>)>,
    distributions: Vec<(String, Distributions)>,
) -> Timeline {
    let recordings = || runs.iter().flat_map(|(_, recorded)| recorded);
    let fits = distributions.into_iter().enumerate().map(|(index, (fit, distribution_pct))| {
        let firsts = || recordings().flat_map(|one| &one.recording.fits[index].first);
        let of = |kind: &str| {
            cold_start(
                &firsts()
                    .filter(|(of, _)| kind == ALL_KINDS || of.name() == kind)
                    .map(|(_, first)| &first[..]),
            )
        };
        FitCurves {
            fit,
            cold_start: distribution_pct.keys().map(|kind| (*kind, of(kind))).collect(),
            distribution_pct,
        }
    });
    let fits: Vec<FitCurves> = fits.collect();
    let rows: Vec<u64> = recordings().map(|one| one.recording.even.arrived()).collect();
    let spikes_found = recordings().map(|one| spikes(one.recording.slowest.values()).1).sum();
    let told = most(&rows, WORKERS);
    let caps = Caps::share(told.len(), fits.len());
    Timeline {
        shares_pct: SHARES_PCT.to_vec(),
        spike_medians: SPIKE_MEDIANS,
        interval_level: INTERVALS[SHOWN_INTERVAL].0,
        fits,
        workers_found: rows.len(),
        spikes_found,
        workers: runs
            .into_iter()
            .flat_map(|(input, recorded)| recorded.into_iter().map(move |one| (input.clone(), one)))
            .enumerate()
            .filter(|(index, _)| told.contains(index))
            .map(|(_, (input, one))| one.timeline(&input, caps))
            .collect(),
    }
}

/// The places of the greatest values, the earlier of those that tie.
fn most(values: &[u64], cap: usize) -> BTreeSet<usize> {
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by_key(|&place| Reverse(values[place]));
    places.into_iter().take(cap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_come_first_and_the_earlier_of_equals() {
        assert_eq!(most(&[3, 9, 3, 5], 3), BTreeSet::from([0, 1, 3]));
        assert_eq!(most(&[3], 3), BTreeSet::from([0]));
    }
}
