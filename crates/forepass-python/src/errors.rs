//! The crate's errors as exceptions of the package, and panics as exceptions like any other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use forepass::Error;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The exception that stands for an error: its class by variant, with message, code and path.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    static CONFIG: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static METRICS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static TRACE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static SPECULATION: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static LAUNCH: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static OTHER: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let (class, name) = match error {
        Error::Config { .. } => (&CONFIG, "ConfigError"),
        Error::Metrics { .. } => (&METRICS, "MetricsError"),
        Error::Trace { .. } => (&TRACE, "TraceError"),
        Error::Speculation { .. } => (&SPECULATION, "SpeculationError"),
        Error::Launch { .. } => (&LAUNCH, "LaunchError"),
        _ => (&OTHER, "ForepassError"),
    };
    match class.import(py, "forepass.errors", name) {
        Ok(class) => {
            PyErr::from_type(class.clone(), (error.to_string(), error.code(), error.path()))
        }
        Err(import_error) => import_error,
    }
}

/// Runs work of the core; a panic in it, which is a bug, becomes a `RuntimeError` and not
/// something that `except Exception` misses.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| bug(panic.as_ref()))
}

fn bug(panic: &(dyn Any + Send)) -> PyErr {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    pyo3::exceptions::PyRuntimeError::new_err(format!("this is a bug in forepass: {message}"))
}
