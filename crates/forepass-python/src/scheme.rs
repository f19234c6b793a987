//! Speculation schemes whose resolver is a Python function.

use forepass::codes::{self, E_RUNTIME};
use forepass::config::SpeculationConfig;
use forepass::speculation::{Backend, Draft, Source, SpeculationScheme};
use forepass::{Error, Result};
use pyo3::prelude::*;

/// A scheme that the package answers for, in `forepass.schemes`, by its name.
///
/// Nothing here owns a Python object, so that a scheme outlives the interpreter it came with.
pub(crate) struct PythonScheme {
    kind: String,
    backends: Vec<Backend>,
}

/// What Python answers: depth and verify width, or code, path and message of a fault.
#[derive(FromPyObject)]
enum Answer {
    Draft(u32, u32),
    Fault(String, String, String),
}

impl PythonScheme {
    pub(crate) fn new(kind: String, backends: Vec<Backend>) -> Self {
        Self { kind, backends }
    }
}

impl SpeculationScheme for PythonScheme {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn backends(&self) -> &[Backend] {
        &self.backends
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        let answer = Python::try_attach(|py| {
            let schemes = py.import("forepass.schemes")?;
            let answer = schemes.getattr("answer")?.call1((&self.kind, config.to_json()))?;
            answer.extract::<Answer>()
        });
        let no = |message: String| Err(Error::speculation(E_RUNTIME, "kind", message));
        match answer {
            None => no(format!("{} is resolved in Python, and no interpreter runs", self.kind)),
            Some(Err(exception)) => no(format!("{} cannot be resolved: {exception}", self.kind)),
            Some(Ok(Answer::Fault(code, path, message))) => {
                let known = codes::ALL.into_iter().find(|known| *known == code);
                Err(Error::speculation(known.unwrap_or(E_RUNTIME), path, message))
            }
            Some(Ok(Answer::Draft(depth, width))) => {
                Ok(Draft::chain(&self.kind, depth, Source::Scheme)
                    .with_verify_width(width, Source::Scheme))
            }
        }
    }
}
