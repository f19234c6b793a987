//! Replay and inspection of trace files, with the interpreter released.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use forepass::replay::{Baseline, Contender, Options, Protocol};
use forepass::trace::{ReadOptions, TraceFormat, TraceSource};
use forepass::{Error, ForwardPassPerfModelConfig};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{exception, guarded};

/// How far a running replay has come.
#[pyclass(frozen, module = "forepass._core")]
pub(crate) struct Progress {
    progress: Arc<forepass::Progress>,
}

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Self {
        Self { progress: Arc::default() }
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.progress.bytes()
    }

    fn cancel(&self) {
        self.progress.cancel();
    }
}

/// A trace: its name, its files, and what is missing of it.
type Source = (String, Vec<PathBuf>, Vec<String>);

fn source((name, files, warnings): Source) -> TraceSource {
    TraceSource::files(name, files).with_warnings(warnings)
}

/// A trace as it was found: its name, files and what is missing, and the SHA-256 of a manifest.
type Found = (String, Vec<OsString>, Vec<String>, Option<String>);

/// The traces that paths name: of each its name, its files, what is missing of it, and the SHA-256
/// that its manifest tells.
#[pyfunction]
pub(crate) fn find_traces(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<Vec<Found>> {
    let found = py.detach(|| guarded(|| forepass::trace::find_sources(&paths)))?;
    let found = found.map_err(|error| exception(py, &error))?;
    let of = |source: TraceSource| {
        let files = source.files.into_iter().map(PathBuf::into_os_string).collect();
        (source.name, files, source.warnings, source.sha256)
    };
    Ok(found.into_iter().map(of).collect())
}

/// How to read traces.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Reading {
    strict: bool,
    trace_format: Option<String>,
    join_ranks: Option<u32>,
}

/// Replay traces; the report as JSON, and the predictions as CSV where asked for.
#[pyfunction]
#[pyo3(signature = (
    sources, contenders, reading, *, protocol, warmup, threads, by_worker, predictions, timeline,
    progress
))]
#[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)]
pub(crate) fn replay<'py>(
    py: Python<'py>,
    sources: Vec<Source>,
    contenders: Vec<(String, Option<String>)>,
    reading: Reading,
    protocol: &str,
    warmup: u64,
    threads: usize,
    by_worker: bool,
    predictions: bool,
    timeline: bool,
    progress: &Progress,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let contenders = contenders
        .into_iter()
        .map(|(name, config)| contender(name, config.as_deref()))
        .collect::<forepass::Result<Vec<_>>>()
        .map_err(|error| exception(py, &error))?;
    let mut options = Options::default();
    options.warmup = warmup;
    options.threads = threads;
    options.by_worker = by_worker;
    options.predictions = predictions;
    options.timeline = timeline;
    options.protocol = named_protocol(protocol).map_err(|error| exception(py, &error))?;
    options.read = read_options(&reading).map_err(|error| exception(py, &error))?;
    let sources: Vec<_> = sources.into_iter().map(source).collect();
    let watched = Arc::clone(&progress.progress);
    let (report, predictions) = py
        .detach(|| guarded(|| forepass::replay::replay(&sources, &contenders, &options, &watched)))?
        .map_err(|error| exception(py, &error))?;
    Ok((to_json(&report)?, PyBytes::new(py, &predictions)))
}

fn contender(name: String, config: Option<&str>) -> forepass::Result<Contender> {
    if let Some(config) = config {
        let checked = ForwardPassPerfModelConfig::from_json(config.as_bytes())?.check()?;
        return Ok(Contender::Model(name, Box::new(checked)));
    }
    let baseline = Baseline::ALL.into_iter().find(|baseline| baseline.name() == name);
    baseline.map(Contender::Baseline).ok_or_else(|| {
        let known = Baseline::ALL.map(Baseline::name).join(", ");
        Error::config("invalid_value", "fits", format!("no baseline `{name}`: use {known}"))
    })
}

fn named_protocol(name: &str) -> forepass::Result<Protocol> {
    let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.name() == name);
    protocol.ok_or_else(|| {
        let known = Protocol::ALL.map(Protocol::name).join(", ");
        Error::config("invalid_value", "protocol", format!("no protocol `{name}`: use {known}"))
    })
}

fn read_options(reading: &Reading) -> forepass::Result<ReadOptions> {
    let mut options = ReadOptions::default().with_strict(reading.strict);
    options.join_ranks = reading.join_ranks;
    let Some(name) = &reading.trace_format else {
        return Ok(options);
    };
    let format = TraceFormat::ALL.into_iter().find(|format| format.name() == name);
    format.map(|format| options.with_format(format)).ok_or_else(|| {
        let known = TraceFormat::ALL.map(TraceFormat::name).join(", ");
        Error::config("invalid_value", "trace_format", format!("no format `{name}`: use {known}"))
    })
}

/// What is in traces, as JSON.
#[pyfunction]
#[pyo3(signature = (sources, reading, *, progress))]
pub(crate) fn inspect(
    py: Python<'_>,
    sources: Vec<Source>,
    reading: Reading,
    progress: &Progress,
) -> PyResult<String> {
    let watched = Arc::clone(&progress.progress);
    let sources: Vec<_> = sources.into_iter().map(source).collect();
    let options = read_options(&reading).map_err(|error| exception(py, &error))?;
    let report = py
        .detach(|| guarded(|| forepass::inspect::inspect(&sources, &options, &watched)))?
        .map_err(|error| exception(py, &error))?;
    to_json(&report)
}

/// What one model for each worker knows after a trace: their diagnostics by worker, as JSON.
#[pyfunction]
#[pyo3(signature = (trace, config_json, reading, *, progress))]
pub(crate) fn learn(
    py: Python<'_>,
    trace: Source,
    config_json: &str,
    reading: Reading,
    progress: &Progress,
) -> PyResult<String> {
    let watched = Arc::clone(&progress.progress);
    let trace = source(trace);
    let work = || {
        let config = ForwardPassPerfModelConfig::from_json(config_json.as_bytes())?.check()?;
        let options = read_options(&reading)?;
        py.detach(|| guarded(|| forepass::inspect::learn(&trace, &config, &options, &watched)))
            .map_or_else(|bug| Ok(Err(bug)), |found| found.map(Ok))
    };
    to_json(&work().map_err(|error| exception(py, &error))??)
}

fn to_json(report: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(report)
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))
}
