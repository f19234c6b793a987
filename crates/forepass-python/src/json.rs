//! Configurations in and out as JSON text.

use forepass::config::LegacyOptions;
use forepass::{EstimatorConfig, ForwardPassPerfModelConfig};
use pyo3::prelude::*;
use serde_json::Value;

use crate::errors::exception;

/// Check a configuration and put it into canonical normal form.
#[pyfunction]
pub(crate) fn normalize_config(py: Python<'_>, config_json: &str) -> PyResult<String> {
    ForwardPassPerfModelConfig::from_json(config_json.as_bytes())
        .and_then(|config| config.check())
        .map(|checked| checked.normalized().to_json())
        .map_err(|error| exception(py, &error))
}

/// The configuration of a model without deployment identity, in canonical normal form.
#[pyfunction]
pub(crate) fn worker_config(
    py: Python<'_>,
    worker_type: &str,
    estimator_json: &str,
) -> PyResult<String> {
    let parse = || {
        let estimator = EstimatorConfig::from_json(estimator_json.as_bytes())
            .map_err(|error| error.within("estimator_config"))?;
        let config = ForwardPassPerfModelConfig::for_worker(worker_type.parse()?, estimator);
        Ok(config.check()?.normalized().to_json())
    };
    parse().map_err(|error| exception(py, &error))
}

/// The estimator configuration that flat options of older programs stand for.
#[pyfunction]
#[pyo3(signature = (options_json, explicit_json))]
pub(crate) fn estimator_from_legacy(
    py: Python<'_>,
    options_json: &str,
    explicit_json: Option<&str>,
) -> PyResult<String> {
    let parse = || {
        let options = LegacyOptions::from_json(options_json.as_bytes())?;
        let explicit = explicit_json.map(value).transpose()?;
        Ok(EstimatorConfig::from_legacy(&options, explicit.as_ref())?.to_json())
    };
    parse().map_err(|error| exception(py, &error))
}

fn value(json: &str) -> forepass::Result<Value> {
    serde_json::from_str(json)
        .map_err(|error| forepass::Error::config("invalid_json", "", error.to_string()))
}
