//! What is in a trace: who recorded it, what work it holds, and what a model could learn from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::CheckedConfig;
use crate::error::Result;
use crate::metrics::ForwardPassMetrics;
use crate::model::{Diagnostics, ForwardPassModel};
use crate::progress::Progress;
use crate::quantile::interpolated_quantile;
use crate::trace::{Iteration, ReadOptions, TraceFormat, TraceReader};
use crate::workload::{
    FEATURE_NAMES, FeatureWeights, WorkerType, Workload, WorkloadKind, observed_ms,
};

/// Observations from which a store can answer by default, where latency rises with load.
const LEARNABLE: u64 = 5;

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
    /// The file as the caller named it.
    pub path: String,
    /// Stable name of its format; `null` where it breaks off before that can be told.
    pub format: Option<&'static str>,
    /// Records in the file.
    pub rows: u64,
    /// Records that were read as iterations.
    pub iterations: u64,
    /// Iterations without work.
    pub idle: u64,
    /// Iterations with work but without a latency to learn, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Records that were not read, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Each worker, by its id.
    pub workers: BTreeMap<String, WorkerInspection>,
    /// Each kind of work, by its name.
    pub kinds: BTreeMap<&'static str, KindInspection>,
    /// The first faults found, each with its place.
    pub faults: Vec<String>,
    /// What to know about the reading.
    pub warnings: Vec<String>,
}

/// The records of one worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkerInspection {
    /// Its iterations, idle ones included.
    pub iterations: u64,
    /// Records of each rank.
    pub records_by_rank: BTreeMap<u32, u64>,
    /// Counter values that are missing between consecutive records of one rank.
    pub counter_gaps: u64,
}

/// Iterations of one kind of work with a latency.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KindInspection {
    /// How many there are.
    pub rows: u64,
    /// Whether a store of default configuration could answer: enough rows, and load that varies.
    pub learnable: bool,
    /// Latency in milliseconds.
    pub latency_ms: Spread,
    /// The attention feature.
    pub attention: Spread,
    /// The FFN feature.
    pub ffn: Spread,
}

/// Quantiles of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// The least value.
    pub min: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest value.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |share| interpolated_quantile(&values, share).unwrap_or(0.0);
        Self {
            min: at(0.0),
            p10: at(0.1),
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Looks into traces.
///
/// # Errors
/// A trace that cannot be read, or a reading that was asked to stop.
pub fn inspect(
    paths: &[PathBuf],
    options: &ReadOptions,
    progress: &Progress,
) -> Result<Inspection> {
    let inputs = paths
        .iter()
        .map(|path| inspect_one(TraceReader::open(path, options)?, progress))
        .collect::<Result<_>>()?;
    Ok(Inspection {
        schema: "forepass.inspect.v1",
        forepass_version: env!("CARGO_PKG_VERSION"),
        inputs,
    })
}

/// What one model for each worker knows after a trace: their states, by worker.
///
/// Records without a worker's id count only in a trace that names no worker, as in a replay.
///
/// # Errors
/// A trace that cannot be read, or a reading that was asked to stop.
pub fn learn(
    path: &Path,
    config: &CheckedConfig,
    options: &ReadOptions,
    progress: &Progress,
) -> Result<BTreeMap<String, Diagnostics>> {
    let mut reader = TraceReader::open(path, options)?;
    let mut models: BTreeMap<String, ForwardPassModel> = BTreeMap::new();
    let mut iteration = Iteration::default();
    while reader.read_watched(&mut iteration, progress)? {
        let id = iteration.worker_id();
        if !models.contains_key(id) {
            models.insert(id.to_owned(), ForwardPassModel::new(config.clone()));
        }
        if let Some(model) = models.get_mut(id) {
            // What is not learned, the inspection itself tells.
            let _ = model.observe(&iteration.ranks);
        }
    }
    if models.len() > 1 {
        models.remove("");
    }
    Ok(models.into_iter().map(|(id, model)| (id, model.diagnostics())).collect())
}

/// The values of one kind: latency, then each feature.
type Values = [Vec<f64>; 1 + FEATURE_NAMES.len()];

fn inspect_one(mut reader: TraceReader, progress: &Progress) -> Result<InputInspection> {
    let mut idle = 0;
    let mut rejected: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut workers: BTreeMap<String, Counters> = BTreeMap::new();
    let mut kinds: BTreeMap<WorkloadKind, Values> = BTreeMap::new();
    let mut iteration = Iteration::default();
    while reader.read_watched(&mut iteration, progress)? {
        let ranks = &iteration.ranks;
        if let Some(worker) = workers.get_mut(iteration.worker_id()) {
            worker.count(ranks);
        } else {
            workers.entry(iteration.worker_id().to_owned()).or_default().count(ranks);
        }
        let workload = Workload::of(ranks, WorkerType::Aggregated, &FeatureWeights::default());
        match (workload, observed_ms(ranks)) {
            (Ok(None), _) => idle += 1,
            (Err(error), _) => *rejected.entry(error.code()).or_default() += 1,
            (Ok(Some(_)), Err(reason)) => *rejected.entry(reason.name()).or_default() += 1,
            (Ok(Some(workload)), Ok(latency_ms)) => {
                let values = kinds.entry(workload.kind).or_default();
                values[0].push(latency_ms);
                for (of_feature, value) in values[1..].iter_mut().zip(workload.features) {
                    of_feature.push(value);
                }
            }
        }
    }
    let summary = reader.summary();
    Ok(InputInspection {
        path: reader.name().to_owned(),
        format: reader.format().map(TraceFormat::name),
        rows: summary.rows,
        iterations: summary.iterations,
        idle,
        rejected,
        skipped: summary.skipped.clone(),
        workers: workers.into_iter().map(|(id, counters)| (id, counters.worker)).collect(),
        kinds: kinds.into_iter().map(|(kind, values)| (kind.name(), kind_of(values))).collect(),
        faults: summary.faults.iter().map(ToString::to_string).collect(),
        warnings: summary.warnings.clone(),
    })
}

fn kind_of([latency_ms, attention, ffn]: Values) -> KindInspection {
    let rows = latency_ms.len() as u64;
    let (latency_ms, attention, ffn) =
        (Spread::of(latency_ms), Spread::of(attention), Spread::of(ffn));
    let varies = attention.max > attention.min || ffn.max > ffn.min;
    KindInspection { rows, learnable: rows >= LEARNABLE && varies, latency_ms, attention, ffn }
}

/// A worker's records as they come, with the latest counter of each rank.
#[derive(Default)]
struct Counters {
    worker: WorkerInspection,
    latest: BTreeMap<u32, u64>,
}

impl Counters {
    fn count(&mut self, ranks: &[ForwardPassMetrics]) {
        self.worker.iterations += 1;
        for rank in ranks {
            *self.worker.records_by_rank.entry(rank.dp_rank).or_default() += 1;
            if let Some(latest) = self.latest.insert(rank.dp_rank, rank.counter_id) {
                // A smaller counter is a restart of the publisher, not a gap.
                let missing = rank.counter_id.saturating_sub(latest).saturating_sub(1);
                self.worker.counter_gaps = self.worker.counter_gaps.saturating_add(missing);
            }
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
                r#"{{"worker_id":"{worker}","counter_id":{counter},"wall_time":{wall_time},"scheduled_requests":{{"num_decode_requests":{requests},"sum_decode_kv_tokens":{}}}}}"#,
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
        let decode = &found.kinds["pure_decode"];
        assert_eq!((decode.rows, decode.learnable), (4, false));
        assert_eq!((decode.latency_ms.min, decode.latency_ms.max), (10.0, 30.0));
        assert_eq!((decode.attention.median, decode.ffn.median), (150.0, 1.5));
    }
}
