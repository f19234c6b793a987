//! The Python face of the forepass crate: translation only.

#![allow(clippy::needless_pass_by_value)] // Python hands arguments over by value.

mod errors;
mod json;
mod launch;
mod model;
mod record;
mod replay;
mod scheme;

use pyo3::prelude::*;

/// The compiled core of the `forepass` package.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::json::{estimator_from_legacy, normalize_config, worker_config};
    #[pymodule_export]
    use super::launch::{
        acceptance_from_mean, acceptance_from_unconditional, canonical_performance_config,
        capacity_estimation_options, decode_rows, engine_methods, expected_progress,
        materialize_engine_launch_config, normalize_speculation_engine_args, register_scheme,
        replay_depth, resolve_engine_options, resolve_launch, resolve_speculation, scheme_backends,
        speculation_report_metadata, unregister_scheme,
    };
    #[pymodule_export]
    use super::model::{CoreModel, Forecast};
    #[pymodule_export]
    use super::replay::{Progress, find_traces, inspect, learn, replay};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("COLUMN_NAMES", super::tuple(module, forepass::batch::COLUMN_NAMES)?)?;
        let formats = forepass::TraceFormat::ALL.map(forepass::TraceFormat::name);
        module.add("TRACE_FORMATS", super::tuple(module, formats)?)?;
        module.add("LAUNCH_CODES", super::tuple(module, forepass::codes::ALL)?)?;
        let protocols = forepass::replay::Protocol::ALL.map(forepass::replay::Protocol::name);
        module.add("PROTOCOLS", super::tuple(module, protocols)?)?;
        let baselines = forepass::replay::Baseline::ALL.map(forepass::replay::Baseline::name);
        module.add("BASELINES", super::tuple(module, baselines)?)
    }
}

fn tuple<const N: usize>(
    module: &Bound<'_, PyModule>,
    names: [&'static str; N],
) -> PyResult<Py<pyo3::types::PyTuple>> {
    Ok(pyo3::types::PyTuple::new(module.py(), names)?.unbind())
}
