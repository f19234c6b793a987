//! The Python face of the forepass crate: translation only.

use pyo3::prelude::*;

#[pymodule]
mod _core {}
