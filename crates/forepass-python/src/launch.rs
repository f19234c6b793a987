//! Launches, engine options and speculation blocks in and out as JSON text.

use std::sync::Arc;

use forepass::codes::{E_LAUNCH_FIELD, E_PARAM, E_ROLE};
use forepass::config::SpeculationConfig;
use forepass::launch::engines::{self, EngineOptions};
use forepass::launch::{self, EngineLaunchConfig, LaunchReport};
use forepass::speculation::{self, AcceptanceRates, Backend};
use forepass::{Error, Result, WorkerType};
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::errors::{exception, guarded};
use crate::scheme::PythonScheme;

/// Work whose faults are those of a launch.
fn launching<T>(py: Python<'_>, work: impl FnOnce() -> Result<T>) -> PyResult<T> {
    guarded(work)?
        .map_err(|error| exception(py, &Error::launch(error.code(), error.path(), error.message())))
}

/// Work whose faults are those of a speculation block.
fn speculating<T>(py: Python<'_>, work: impl FnOnce() -> Result<T>) -> PyResult<T> {
    guarded(work)?.map_err(|error| {
        let code = if matches!(error, Error::Config { .. }) { E_PARAM } else { error.code() };
        exception(py, &Error::speculation(code, error.path(), error.message()))
    })
}

fn value(json: &str) -> Result<Value> {
    serde_json::from_str(json).map_err(|error| Error::launch(E_LAUNCH_FIELD, "", error.to_string()))
}

fn role(name: &str, path: &str) -> Result<WorkerType> {
    name.parse().map_err(|error: Error| Error::launch(E_ROLE, path, error.message()))
}

fn json(document: &impl Serialize) -> Result<String> {
    serde_json::to_string(document)
        .map_err(|error| Error::launch(E_LAUNCH_FIELD, "", error.to_string()))
}

/// Resolve a launch; the report as JSON.
#[pyfunction]
pub(crate) fn resolve_launch(launch_json: &str) -> PyResult<String> {
    guarded(|| launch::resolve_launch(launch_json).to_json())
}

/// Resolve the options of an engine, which are JSON; the report as JSON.
#[pyfunction]
pub(crate) fn resolve_engine_options(
    py: Python<'_>,
    engine: &str,
    options_json: &str,
    strict: bool,
) -> PyResult<String> {
    launching(py, || {
        let engine: Backend = engine.parse()?;
        let report = match EngineOptions::from_json(options_json.as_bytes()) {
            Ok(options) => engines::resolve_engine_options(engine, &options, strict),
            Err(error) => LaunchReport::refused(error),
        };
        Ok(report.to_json())
    })
}

/// What comes of each method of each engine, as JSON.
#[pyfunction]
pub(crate) fn engine_methods(py: Python<'_>) -> PyResult<String> {
    launching(py, || json(&engines::engine_methods()))
}

/// What a speculation block drafts, as JSON.
#[pyfunction]
pub(crate) fn resolve_speculation(py: Python<'_>, speculation_json: &str) -> PyResult<String> {
    speculating(py, || {
        let config = SpeculationConfig::from_json(speculation_json.as_bytes())?;
        json(&speculation::resolve_speculation(&config)?)
    })
}

/// The depth at which a speculation block is replayed.
#[pyfunction]
pub(crate) fn replay_depth(py: Python<'_>, speculation_json: &str) -> PyResult<u32> {
    speculating(py, || SpeculationConfig::from_json(speculation_json.as_bytes())?.replay_depth())
}

/// Make a scheme known, for which `forepass.schemes.answer` answers.
#[pyfunction]
pub(crate) fn register_scheme(py: Python<'_>, kind: String, backends: Vec<String>) -> PyResult<()> {
    speculating(py, || {
        let backends = backends.iter().map(|name| name.parse()).collect::<Result<_>>()?;
        speculation::register_scheme(Arc::new(PythonScheme::new(kind, backends)))
    })
}

/// Forget a registered scheme; whether there was one.
#[pyfunction]
pub(crate) fn unregister_scheme(kind: &str) -> bool {
    speculation::unregister_scheme(kind)
}

/// The names of all schemes, each with the backends on which a launch can use it.
#[pyfunction]
pub(crate) fn scheme_backends() -> Vec<(String, Vec<&'static str>)> {
    let named = |kind: String| {
        // One that is unregistered meanwhile is not listed.
        let backends = speculation::scheme_backends(&kind).ok()?;
        Some((kind, backends.into_iter().map(Backend::name).collect()))
    };
    speculation::scheme_names().into_iter().filter_map(named).collect()
}

/// The launch of the engine of one role, as JSON.
#[pyfunction]
#[pyo3(signature = (backend, version, parallel_json, options_json, worker_type))]
pub(crate) fn materialize_engine_launch_config(
    py: Python<'_>,
    backend: &str,
    version: Option<&str>,
    parallel_json: &str,
    options_json: &str,
    worker_type: &str,
) -> PyResult<String> {
    launching(py, || {
        let (parallel, options) = (value(parallel_json)?, value(options_json)?);
        let role = role(worker_type, "role")?;
        launch::materialize_engine_launch_config(backend, version, &parallel, options, role)
            .map(|launch| launch.to_json())
    })
}

/// The configuration of a performance model in its normal form, as JSON.
#[pyfunction]
pub(crate) fn canonical_performance_config(
    py: Python<'_>,
    config_json: &str,
    worker_type: &str,
) -> PyResult<String> {
    launching(py, || {
        let role = role(worker_type, "worker_type")?;
        launch::canonical_performance_config(value(config_json)?, role)
            .map(|config| config.to_json())
    })
}

/// The engine options of one role with their speculation in one spelling, as JSON.
#[pyfunction]
pub(crate) fn normalize_speculation_engine_args(
    py: Python<'_>,
    options_json: &str,
    worker_type: &str,
) -> PyResult<String> {
    launching(py, || {
        let role = role(worker_type, "role")?;
        json(&launch::normalize_speculation_engine_args(value(options_json)?, role)?)
    })
}

/// What a report says about the speculation of a launch, as JSON.
#[pyfunction]
pub(crate) fn speculation_report_metadata(py: Python<'_>, launch_json: &str) -> PyResult<String> {
    launching(py, || {
        let launch = EngineLaunchConfig::from_json(launch_json.as_bytes())?;
        json(&launch::speculation_report_metadata(&launch))
    })
}

/// What an estimate of the KV capacity of a launch needs to know, as JSON.
#[pyfunction]
pub(crate) fn capacity_estimation_options(py: Python<'_>, launch_json: &str) -> PyResult<String> {
    launching(py, || {
        let launch = EngineLaunchConfig::from_json(launch_json.as_bytes())?;
        json(&launch.capacity_estimation_options())
    })
}

/// Conditional acceptance rates from unconditional ones.
#[pyfunction]
pub(crate) fn acceptance_from_unconditional(py: Python<'_>, rates: Vec<f64>) -> PyResult<Vec<f64>> {
    speculating(py, || Ok(AcceptanceRates::from_unconditional(&rates)?.rates().to_vec()))
}

/// The steadiest conditional acceptance rates with this mean of accepted drafts.
#[pyfunction]
pub(crate) fn acceptance_from_mean(py: Python<'_>, mean: f64, depth: u32) -> PyResult<Vec<f64>> {
    speculating(py, || Ok(AcceptanceRates::from_mean_accepted(mean, depth)?.rates().to_vec()))
}

/// Mean number of tokens by which a step advances a sequence.
#[pyfunction]
pub(crate) fn expected_progress(py: Python<'_>, rates: Vec<f64>) -> PyResult<f64> {
    speculating(py, || Ok(AcceptanceRates::new(rates)?.expected_progress()))
}

/// Rows of a decode step.
#[pyfunction]
pub(crate) fn decode_rows(py: Python<'_>, batch: u32, depth: u32) -> PyResult<u32> {
    speculating(py, || speculation::decode_rows(batch, depth))
}
