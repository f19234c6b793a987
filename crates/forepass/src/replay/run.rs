//! The replay itself: one model for each input and worker, contenders side by side.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::baseline::{Baseline, RecentLatencies};
use super::input::{InputOutcome, InputRun, Learner};
use super::report::{Report, Result as FitResult};
use super::score::Tally;
use crate::config::CheckedConfig;
use crate::error::Result;
use crate::model::ForwardPassModel;
use crate::progress::Progress;
use crate::trace::ReadOptions;

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

    pub(super) fn learner(&self) -> Learner {
        match self {
            Self::Model(_, config) => {
                Learner::Model(Box::new(ForwardPassModel::new((**config).clone())))
            }
            Self::Baseline(baseline) => Learner::Recent(RecentLatencies::new(*baseline)),
        }
    }
}

/// How to replay.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Observations that a store must have learned before its rows count.
    pub warmup: u64,
    /// Threads among which the inputs are shared; the outcome does not depend on it.
    pub threads: usize,
    /// Whether to report each worker by itself, too.
    pub by_worker: bool,
    /// Whether to record each single prediction as CSV.
    pub predictions: bool,
    /// How to read the traces.
    pub read: ReadOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            warmup: 64,
            threads: 1,
            by_worker: false,
            predictions: false,
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
    paths: &[PathBuf],
    contenders: &[Contender],
    options: &Options,
    progress: &Progress,
) -> Result<(Report, Vec<u8>)> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(index) else { break };
            let outcome = InputRun::new(contenders, options, progress).replay(path);
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes.insert(index, outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.min(paths.len()) {
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
    let results = contenders
        .iter()
        .enumerate()
        .map(|(index, contender)| fit_result(index, contender, &runs, options))
        .collect();
    let report = Report {
        schema: "forepass.replay.v1",
        forepass_version: env!("CARGO_PKG_VERSION"),
        warmup: options.warmup,
        inputs: runs.into_iter().map(|run| run.report).collect(),
        results,
    };
    (report, predictions)
}

fn fit_result(
    index: usize,
    contender: &Contender,
    runs: &[InputOutcome],
    options: &Options,
) -> FitResult {
    let mut overall = Tally::default();
    let mut kinds: BTreeMap<&'static str, Tally> = BTreeMap::new();
    let mut inputs: BTreeMap<String, Tally> = BTreeMap::new();
    let mut workers: BTreeMap<String, BTreeMap<String, Tally>> = BTreeMap::new();
    let mut spent = Duration::ZERO;
    for run in runs {
        spent += run.spent[index];
        let input = inputs.entry(run.report.path.clone()).or_default();
        let by_worker = workers.entry(run.report.path.clone()).or_default();
        for (worker_id, tallies) in &run.tallies {
            for (kind, tally) in &tallies[index] {
                overall.extend(tally);
                kinds.entry(kind.name()).or_default().extend(tally);
                input.extend(tally);
                by_worker.entry(worker_id.clone()).or_default().extend(tally);
            }
        }
    }
    let overall = overall.stats();
    FitResult {
        fit: contender.name().to_owned(),
        config: contender.config(),
        by_kind: kinds.iter().map(|(kind, tally)| (*kind, tally.stats())).collect(),
        by_input: inputs.iter().map(|(path, tally)| (path.clone(), tally.stats())).collect(),
        by_worker: options.by_worker.then(|| {
            let stats = |tallies: &BTreeMap<String, Tally>| {
                tallies.iter().map(|(worker, tally)| (worker.clone(), tally.stats())).collect()
            };
            workers.iter().map(|(path, tallies)| (path.clone(), stats(tallies))).collect()
        }),
        cpu_us_per_row: (overall.rows > 0).then(|| spent.as_secs_f64() * 1e6 / overall.rows as f64),
        overall,
    }
}
