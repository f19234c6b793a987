//! Replay and inspection of trace files, with the interpreter released.

use std::path::PathBuf;
use std::sync::Arc;

use forepass::replay::{Baseline, Contender, Options};
use forepass::trace::{ReadOptions, TraceFormat};
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

/// Replay traces; the report as JSON, and the predictions as CSV where asked for.
#[pyfunction]
#[pyo3(signature = (
    paths, contenders, *, warmup, threads, by_worker, predictions, strict, trace_format, progress
))]
#[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)]
pub(crate) fn replay<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    contenders: Vec<(String, Option<String>)>,
    warmup: u64,
    threads: usize,
    by_worker: bool,
    predictions: bool,
    strict: bool,
    trace_format: Option<&str>,
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
    options.read = read_options(strict, trace_format).map_err(|error| exception(py, &error))?;
    let watched = Arc::clone(&progress.progress);
    let (report, predictions) = py
        .detach(|| guarded(|| forepass::replay::replay(&paths, &contenders, &options, &watched)))?
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

fn read_options(strict: bool, trace_format: Option<&str>) -> forepass::Result<ReadOptions> {
    let options = ReadOptions::default().with_strict(strict);
    let Some(name) = trace_format else {
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
#[pyo3(signature = (paths, *, strict, trace_format, progress))]
pub(crate) fn inspect(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    strict: bool,
    trace_format: Option<&str>,
    progress: &Progress,
) -> PyResult<String> {
    let watched = Arc::clone(&progress.progress);
    let options = read_options(strict, trace_format).map_err(|error| exception(py, &error))?;
    let report = py
        .detach(|| guarded(|| forepass::inspect::inspect(&paths, &options, &watched)))?
        .map_err(|error| exception(py, &error))?;
    to_json(&report)
}

/// What one model for each worker knows after a trace: their diagnostics by worker, as JSON.
#[pyfunction]
#[pyo3(signature = (path, config_json, *, strict, trace_format, progress))]
pub(crate) fn learn(
    py: Python<'_>,
    path: PathBuf,
    config_json: &str,
    strict: bool,
    trace_format: Option<&str>,
    progress: &Progress,
) -> PyResult<String> {
    let watched = Arc::clone(&progress.progress);
    let work = || {
        let config = ForwardPassPerfModelConfig::from_json(config_json.as_bytes())?.check()?;
        let options = read_options(strict, trace_format)?;
        py.detach(|| guarded(|| forepass::inspect::learn(&path, &config, &options, &watched)))
            .map_or_else(|bug| Ok(Err(bug)), |found| found.map(Ok))
    };
    to_json(&work().map_err(|error| exception(py, &error))??)
}

fn to_json(report: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(report)
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))
}
