//! The replay itself: one model for each input and worker, contenders side by side.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::baseline::{Baseline, RecentLatencies};
use super::curves::{Distributions, SHARES_PCT};
use super::errors::KEPT;
use super::input::{InputOutcome, InputRun};
use super::learner::Learner;
use super::report::{GymScore, Report, Result as FitResult};
use super::score::{Stats, Tally};
use super::timeline::{ALL_KINDS, timeline};
use crate::config::CheckedConfig;
use crate::error::Result;
use crate::model::ForwardPassModel;
use crate::progress::Progress;
use crate::trace::{ReadOptions, TraceSource};
use crate::workload::FeatureWeights;

/// Something that forecasts, under the name by which it is reported.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Contender {
    /// A model of this configuration.
    Model(String, Box<CheckedConfig>),
    /// A forecast that knows nothing of load.
    Baseline(Baseline),
}

impl Contender {
    /// The name by which it is reported.
    pub fn name(&self) -> &str {
        match self {
            Self::Model(name, _) => name,
            Self::Baseline(baseline) => baseline.name(),
        }
    }

    fn config(&self) -> serde_json::Value {
        match self {
            Self::Model(_, config) => {
                serde_json::to_value(config.normalized()).unwrap_or(serde_json::Value::Null)
            }
            Self::Baseline(baseline) => {
                serde_json::json!({"baseline": baseline.name(), "window": baseline.window()})
            }
        }
    }

    /// Weights of the features, where these are not the default ones.
    pub(super) fn own_weights(&self) -> Option<FeatureWeights> {
        match self {
            Self::Model(_, config) => {
                Some(config.weights()).filter(|weights| *weights != FeatureWeights::default())
            }
            Self::Baseline(_) => None,
        }
    }

    pub(super) fn learner(&self) -> Learner {
        match self {
            Self::Model(_, config) => {
                Learner::Model(Box::new(ForwardPassModel::new((**config).clone())))
            }
            Self::Baseline(baseline) => Learner::Recent(RecentLatencies::new(*baseline)),
        }
    }
}

/// In which order a replay takes the iterations, and which of them it scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// As they stand in the trace, once their store has learned for a while.
    #[default]
    Online,
    /// That of the FPM Gym: by their time if each tells it, all of them, and their last 30 % apart;
    /// the kind of work is that of the busiest rank. A trace is then in memory as a whole.
    Gym,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 2] = [Self::Online, Self::Gym];

    /// The stable name: `online`, `gym`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Gym => "gym",
        }
    }
}

/// How to replay.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Order and scoring.
    pub protocol: Protocol,
    /// Observations that a store must have learned before its rows count; the gym protocol has
    /// none.
    pub warmup: u64,
    /// Threads among which the inputs are shared, besides one for each gzipped file that is open; the
    /// outcome does not depend on it.
    pub threads: usize,
    /// Whether to report each worker by itself, too.
    pub by_worker: bool,
    /// Whether to record each single prediction as CSV.
    pub predictions: bool,
    /// Whether to report the course of the replay.
    pub timeline: bool,
    /// How to read the traces.
    pub read: ReadOptions,
}

impl Options {
    /// The warm-up that the protocol leaves.
    pub(super) fn warmup(&self) -> u64 {
        if self.protocol == Protocol::Gym { 0 } else { self.warmup }
    }

    /// Errors of each worker and kind of work that are kept one by one: all where the protocol
    /// scores the last of them apart.
    pub(super) fn keep_at_most(&self) -> usize {
        if self.protocol == Protocol::Gym { usize::MAX } else { KEPT }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: Protocol::default(),
            warmup: 64,
            threads: 1,
            by_worker: false,
            predictions: false,
            timeline: false,
            read: ReadOptions::default(),
        }
    }
}

/// Replays the traces for each contender; also returns the predictions as CSV where asked for.
///
/// Each input and worker has a model of its own. The outcome depends on the inputs and options
/// alone, `cpu_us_per_row` aside.
///
/// # Errors
/// A trace that cannot be read (the first one in the order given), or a cancelled replay.
pub fn replay(
    sources: &[TraceSource],
    contenders: &[Contender],
    options: &Options,
    progress: &Progress,
) -> Result<(Report, Vec<u8>)> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(index) else { break };
            let outcome = InputRun::new(contenders, options, progress).replay(source);
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes.insert(index, outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.min(sources.len()) {
            scope.spawn(work);
        }
        work();
    });
    let outcomes = outcomes.into_inner().unwrap_or_default();
    let runs = outcomes.into_values().collect::<Result<Vec<_>>>()?;
    Ok(combine(runs, contenders, options))
}

/// Puts the inputs' outcomes together, in the order of the inputs.
fn combine(
    runs: Vec<InputOutcome>,
    contenders: &[Contender],
    options: &Options,
) -> (Report, Vec<u8>) {
    let mut predictions = Vec::new();
    if options.predictions {
        predictions.extend_from_slice(
            b"input,row,worker_id,kind,fit,observed_ms,predicted_ms,source,reason\n",
        );
    }
    for run in &runs {
        predictions.extend_from_slice(&run.predictions);
    }
    let results: Vec<_> = contenders
        .iter()
        .enumerate()
        .map(|(index, contender)| fit_result(index, contender, &runs, options))
        .collect();
    let mut inputs = Vec::with_capacity(runs.len());
    let mut recorded = Vec::new();
    let fits = if options.timeline { distributions(&runs, contenders) } else { Vec::new() };
    for run in runs {
        recorded.push((run.report.path.clone(), run.recorded));
        inputs.push(run.report);
    }
    let timeline = options.timeline.then(|| timeline(recorded, fits));
    let report = Report {
        schema: "forepass.replay.v1",
        forepass_version: env!("CARGO_PKG_VERSION"),
        warmup: options.warmup(),
        protocol: (options.protocol != Protocol::default()).then(|| options.protocol.name()),
        inputs,
        results,
        timeline,
    };
    (report, predictions)
}

fn fit_result(
    index: usize,
    contender: &Contender,
    runs: &[InputOutcome],
    options: &Options,
) -> FitResult {
    let mut overall: Vec<&Tally> = Vec::new();
    let mut kinds: BTreeMap<&'static str, Vec<&Tally>> = BTreeMap::new();
    let mut inputs: BTreeMap<String, Vec<&Tally>> = BTreeMap::new();
    let mut workers: BTreeMap<String, BTreeMap<String, Vec<&Tally>>> = BTreeMap::new();
    let mut spent = Duration::ZERO;
    for run in runs {
        spent += run.spent[index];
        let input = inputs.entry(run.report.path.clone()).or_default();
        let by_worker = workers.entry(run.report.path.clone()).or_default();
        for (worker_id, scopes) in &run.tallies {
            for (kind, tally) in scopes.iter().flat_map(|tallies| &tallies[index]) {
                overall.push(tally);
                kinds.entry(kind.name()).or_default().push(tally);
                input.push(tally);
                by_worker.entry(worker_id.clone()).or_default().push(tally);
            }
        }
    }
    let by_input = stats_of(&inputs);
    let overall = Tally::stats(&overall);
    FitResult {
        fit: contender.name().to_owned(),
        config: contender.config(),
        by_kind: stats_of(&kinds),
        gym: (options.protocol == Protocol::Gym).then(|| gym_score(&by_input, &inputs)),
        by_input,
        by_worker: options.by_worker.then(|| {
            workers.iter().map(|(path, tallies)| (path.clone(), stats_of(tallies))).collect()
        }),
        cpu_us_per_row: (overall.rows > 0).then(|| spent.as_secs_f64() * 1e6 / overall.rows as f64),
        overall,
    }
}

/// The statistics of each group of tallies.
fn stats_of<K: Clone + Ord>(groups: &BTreeMap<K, Vec<&Tally>>) -> BTreeMap<K, Stats> {
    groups.iter().map(|(key, tallies)| (key.clone(), Tally::stats(tallies))).collect()
}

/// The quantiles of each contender's errors by kind of work, and of all, over all inputs.
fn distributions(runs: &[InputOutcome], contenders: &[Contender]) -> Vec<(String, Distributions)> {
    let of = |index: usize| {
        let mut kinds: BTreeMap<&'static str, Vec<&Tally>> = BTreeMap::from([(ALL_KINDS, vec![])]);
        let workers = runs.iter().flat_map(|run| run.tallies.values().flatten());
        for (kind, tally) in workers.flat_map(|by_contender| &by_contender[index]) {
            for name in [kind.name(), ALL_KINDS] {
                kinds.entry(name).or_default().push(tally);
            }
        }
        kinds
            .into_iter()
            .map(|(kind, tallies)| (kind, Tally::quantiles_pct(&tallies, &SHARES_PCT)))
            .collect()
    };
    let names = contenders.iter().map(|contender| contender.name().to_owned()).enumerate();
    names.map(|(index, name)| (name, of(index))).collect()
}

/// Puts the cases together, each with the same weight.
fn gym_score(full: &BTreeMap<String, Stats>, inputs: &BTreeMap<String, Vec<&Tally>>) -> GymScore {
    let suffix_stats = |tallies: &[&Tally]| {
        let suffixes: Vec<Tally> = tallies.iter().map(|tally| tally.suffix()).collect();
        Tally::stats(&suffixes.iter().collect::<Vec<_>>())
    };
    let suffix_by_input: BTreeMap<String, Stats> =
        inputs.iter().map(|(path, tallies)| (path.clone(), suffix_stats(tallies))).collect();
    let mean = |values: Vec<f64>| {
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let of = |stats: &BTreeMap<String, Stats>, value: fn(&Stats) -> Option<f64>| {
        mean(stats.values().filter_map(value).collect())
    };
    GymScore {
        cases: full.values().filter(|stats| stats.answered > 0).count() as u64,
        macro_full_mape_pct: of(full, |stats| stats.mape_pct),
        macro_suffix_mape_pct: of(&suffix_by_input, |stats| stats.mape_pct),
        macro_coverage_pct: of(full, |stats| stats.coverage_pct),
        suffix_by_input,
    }
}
