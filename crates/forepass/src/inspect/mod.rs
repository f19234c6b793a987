//! What is in a trace: who recorded it, what work it holds, and what a model could learn from it.

use std::collections::BTreeMap;

use serde::Serialize;

use self::kind::Values;
use self::worker::Counters;
use crate::config::CheckedConfig;
use crate::error::Result;
use crate::model::{Diagnostics, ForwardPassModel};
use crate::progress::Progress;
use crate::trace::{Iteration, ReadOptions, TraceFormat, TraceReader, TraceSource};
use crate::workload::{FeatureWeights, Rejection, WorkerType, Workload, WorkloadKind, observed_ms};

mod kind;
mod worker;

pub(crate) use kind::SPIKE_MEDIANS;
pub use kind::{KindInspection, Spread};
pub use worker::WorkerInspection;

/// What is in some traces, in the shape of the `forepass.inspect.v1` document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Inspection {
    /// Name and version of this shape.
    pub schema: &'static str,
    /// Version of the crate that computed it.
    pub forepass_version: &'static str,
    /// Each trace.
    pub inputs: Vec<InputInspection>,
}

/// What is in one trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InputInspection {
    /// The trace as the caller named it.
    pub path: String,
    /// The files in which it stands, in the order in which they were read.
    pub files: Vec<String>,
    /// Stable name of its format; `null` where it breaks off before that can be told.
    pub format: Option<&'static str>,
    /// Records in the files.
    pub rows: u64,
    /// Records that were read as iterations.
    pub iterations: u64,
    /// Iterations without work: heartbeats.
    pub idle: u64,
    /// Iterations with work but without a latency to learn, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Records that were not read, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// From when to when it was recorded, where each iteration tells its time.
    pub span: Option<Span>,
    /// Each worker, by its id.
    pub workers: BTreeMap<String, WorkerInspection>,
    /// Each kind of work, by its name.
    pub kinds: BTreeMap<&'static str, KindInspection>,
    /// The first faults found, each with its place.
    pub faults: Vec<String>,
    /// What to know about the reading.
    pub warnings: Vec<String>,
}

/// From when to when, in milliseconds of the producer's clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Span {
    /// The earliest time.
    pub first_ms: f64,
    /// The latest time.
    pub last_ms: f64,
    /// Iterations that stand behind one that is later.
    pub out_of_order: u64,
}

/// Looks into traces.
///
/// # Errors
/// A trace that cannot be read, or a reading that was asked to stop.
pub fn inspect(
    sources: &[TraceSource],
    options: &ReadOptions,
    progress: &Progress,
) -> Result<Inspection> {
    let inputs = sources
        .iter()
        .map(|source| {
            let found = inspect_one(TraceReader::open_source(source, options)?, progress)?;
            let files = source.files.iter().map(|file| file.display().to_string()).collect();
            Ok(InputInspection { files, ..found })
        })
        .collect::<Result<_>>()?;
    Ok(Inspection {
        schema: "forepass.inspect.v1",
        forepass_version: env!("CARGO_PKG_VERSION"),
        inputs,
    })
}

/// What one model for each worker knows after a trace: their states, by worker.
///
/// Records without a worker's id count only in a trace that names no worker, as in a replay. A
/// worker with several timing scopes has a model for each, which its name then tells.
///
/// # Errors
/// A trace that cannot be read, or a reading that was asked to stop.
pub fn learn(
    source: &TraceSource,
    config: &CheckedConfig,
    options: &ReadOptions,
    progress: &Progress,
) -> Result<BTreeMap<String, Diagnostics>> {
    let mut reader = TraceReader::open_source(source, options)?;
    let mut models: BTreeMap<String, BTreeMap<Option<String>, ForwardPassModel>> = BTreeMap::new();
    let mut iteration = Iteration::default();
    while reader.read_watched(&mut iteration, progress)? {
        let scope = iteration.timing_scope().map(ToOwned::to_owned);
        let scopes = models.entry(iteration.worker_id().to_owned()).or_default();
        let model = scopes.entry(scope).or_insert_with(|| ForwardPassModel::new(config.clone()));
        // What is not learned, the inspection itself tells.
        let _ = model.observe(&iteration.ranks);
    }
    if models.len() > 1 {
        models.remove("");
    }
    let mut states = BTreeMap::new();
    for (id, scopes) in models {
        let several = scopes.len() > 1;
        for (scope, model) in scopes {
            let scope = scope.as_deref().unwrap_or("none");
            let name = if several { format!("{id} ({scope})") } else { id.clone() };
            states.insert(name, model.diagnostics());
        }
    }
    Ok(states)
}

fn inspect_one(mut reader: TraceReader, progress: &Progress) -> Result<InputInspection> {
    let mut idle = 0;
    let mut rejected: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut first_rejected = Vec::new();
    let mut workers: BTreeMap<String, Counters> = BTreeMap::new();
    let mut kinds: BTreeMap<WorkloadKind, Values> = BTreeMap::new();
    let (mut span, mut untimed): (Option<Span>, bool) = (None, false);
    let mut iteration = Iteration::default();
    while reader.read_watched(&mut iteration, progress)? {
        let ranks = &iteration.ranks;
        match iteration.time_ms {
            Some(time_ms) => extend(&mut span, time_ms),
            None => untimed = true,
        }
        if !workers.contains_key(iteration.worker_id()) {
            workers.insert(iteration.worker_id().to_owned(), Counters::default());
        }
        let Some(worker) = workers.get_mut(iteration.worker_id()) else { continue };
        worker.count(&iteration);
        let workload = Workload::of(ranks, WorkerType::Aggregated, &FeatureWeights::default());
        let reason = match (workload, observed_ms(ranks)) {
            (Ok(None), _) => {
                idle += 1;
                worker.worker.idle += 1;
                continue;
            }
            (Ok(Some(workload)), Ok(latency_ms)) => {
                let place = || format!("{}:{}", reader.file(), iteration.line);
                kinds.entry(workload.kind).or_default().add(latency_ms, workload.features, place);
                continue;
            }
            (Err(error), _) => error.code(),
            (Ok(Some(_)), Err(reason)) => reason.name(),
        };
        let count = rejected.entry(reason).or_default();
        *count += 1;
        if *count == 1 {
            let what = Rejection::explain(reason);
            first_rejected.push(format!("{}:{}: {what}", reader.file(), iteration.line));
        }
    }
    let summary = reader.summary();
    let mut faults: Vec<String> = summary.faults.iter().map(ToString::to_string).collect();
    faults.extend(first_rejected);
    Ok(InputInspection {
        path: reader.name().to_owned(),
        files: Vec::new(),
        format: reader.format().map(TraceFormat::name),
        rows: summary.rows,
        iterations: summary.iterations,
        idle,
        rejected,
        skipped: summary.skipped.clone(),
        span: span.filter(|_| !untimed),
        workers: workers.into_iter().map(|(id, counters)| (id, counters.worker)).collect(),
        kinds: kinds.into_iter().map(|(kind, values)| (kind.name(), values.inspect())).collect(),
        faults,
        warnings: summary.warnings.clone(),
    })
}

fn extend(span: &mut Option<Span>, time_ms: f64) {
    match span {
        None => *span = Some(Span { first_ms: time_ms, last_ms: time_ms, out_of_order: 0 }),
        Some(span) => {
            span.out_of_order += u64::from(time_ms < span.last_ms);
            span.first_ms = span.first_ms.min(time_ms);
            span.last_ms = span.last_ms.max(time_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_summed_up() {
        let line = |worker: &str, counter: u64, requests: u64, wall_time: f64| {
            format!(
                r#"{{"recv_ms":{},"worker_id":"{worker}","counter_id":{counter},"wall_time":{wall_time},"scheduled_requests":{{"num_decode_requests":{requests},"sum_decode_kv_tokens":{}}}}}"#,
                10 * counter,
                100 * requests
            )
        };
        let text = [
            line("a", 1, 1, 0.010),
            line("a", 2, 3, 0.030),
            line("a", 5, 0, 0.0),
            line("b", 9, 2, 0.020),
            line("b", 10, 2, 0.0),
            "{".to_owned(),
            line("b", 1, 1, 0.010),
        ]
        .join("\n");
        let reader = TraceReader::from_reader(
            "t",
            std::io::Cursor::new(text.into_bytes()),
            &ReadOptions::default(),
        );
        let found = inspect_one(reader.unwrap(), &Progress::default()).unwrap();
        assert_eq!((found.rows, found.iterations, found.idle), (7, 6, 1));
        assert_eq!(found.skipped["malformed"], 1);
        assert_eq!(found.rejected["no_positive_time"], 1);
        // Counters 3 and 4 are missing; the restart of b is no gap.
        assert_eq!((found.workers["a"].counter_gaps, found.workers["b"].counter_gaps), (2, 0));
        assert_eq!(
            (found.workers["a"].counter_restarts, found.workers["b"].counter_restarts),
            (0, 1)
        );
        assert_eq!((found.workers["a"].idle, found.workers["b"].idle), (1, 0));
        assert_eq!(found.workers["b"].timing_scopes["none"], 3);
        let span = found.span.unwrap();
        assert_eq!((span.first_ms, span.last_ms, span.out_of_order), (10.0, 100.0, 1));
        assert!(found.faults[1].starts_with("t:5: no_positive_time: work"), "{:?}", found.faults);
        let decode = &found.kinds["pure_decode"];
        assert_eq!((decode.spikes, &*decode.slowest), (0, "t:2"));
        assert_eq!((decode.rows, decode.learnable), (4, false));
        assert_eq!((decode.latency_ms.min, decode.latency_ms.max), (10.0, 30.0));
        assert_eq!((decode.attention.median, decode.ffn.median), (150.0, 1.5));
    }
}
