//! The Python face of the forepass crate: translation only.

#![allow(clippy::needless_pass_by_value)] // Python hands arguments over by value.

mod errors;
mod json;
mod model;
mod record;
mod replay;

use pyo3::prelude::*;

/// The compiled core of the `forepass` package.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::json::{estimator_from_legacy, normalize_config, worker_config};
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
