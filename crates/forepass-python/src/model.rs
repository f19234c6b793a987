//! The forecaster for Python: one lock inside, and the interpreter released around long work.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forepass::batch::Columns;
use forepass::{Error, ForwardPassModel, ForwardPassPerfModelConfig, Observed};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;

use crate::errors::{exception, guarded};
use crate::record::iteration;

/// A forecast of one iteration, or an honest "not known".
#[pyclass(frozen, eq, get_all, module = "forepass._core")]
#[derive(PartialEq)]
pub(crate) struct Forecast {
    ms: Option<f64>,
    source: Option<Cow<'static, str>>,
    kind: Cow<'static, str>,
    reason: Option<Cow<'static, str>>,
    low_ms: Option<f64>,
    high_ms: Option<f64>,
}

/// What a forecast is made of.
type Parts<'a> = (Option<f64>, Option<&'a str>, &'a str, Option<&'a str>, Option<f64>, Option<f64>);

#[pymethods]
impl Forecast {
    #[new]
    #[pyo3(signature = (ms, source, kind, reason, low_ms=None, high_ms=None))]
    fn new(
        ms: Option<f64>,
        source: Option<String>,
        kind: String,
        reason: Option<String>,
        low_ms: Option<f64>,
        high_ms: Option<f64>,
    ) -> Self {
        let (source, reason) = (source.map(Cow::Owned), reason.map(Cow::Owned));
        Self { ms, source, kind: Cow::Owned(kind), reason, low_ms, high_ms }
    }

    fn __getnewargs__(&self) -> Parts<'_> {
        let (source, reason) = (self.source.as_deref(), self.reason.as_deref());
        (self.ms, source, &self.kind, reason, self.low_ms, self.high_ms)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        // Equal numbers hash alike: 0.0 and -0.0, too.
        let bits = |ms: Option<f64>| ms.map(|ms| (ms + 0.0).to_bits());
        [self.ms, self.low_ms, self.high_ms].map(bits).hash(&mut hasher);
        (&self.source, &self.kind, &self.reason).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let text = |text: Option<&str>| text.map_or("None".to_owned(), |text| format!("'{text}'"));
        let number = |ms: Option<f64>| ms.map_or("None".to_owned(), |ms| ms.to_string());
        format!(
            "Forecast(ms={}, source={}, kind='{}', reason={}, low_ms={}, high_ms={})",
            number(self.ms),
            text(self.source.as_deref()),
            self.kind,
            text(self.reason.as_deref()),
            number(self.low_ms),
            number(self.high_ms),
        )
    }
}

/// The forecaster; safe to share between threads.
#[pyclass(frozen, module = "forepass._core")]
pub(crate) struct CoreModel {
    model: Mutex<ForwardPassModel>,
}

impl CoreModel {
    /// The model, once no other thread has it; the interpreter is released while waiting.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, ForwardPassModel> {
        self.model.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Does long work on the model with the interpreter released.
    fn detached<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut ForwardPassModel) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            guarded(|| work(&mut model))
        })?
        .map_err(|error| exception(py, &error))
    }
}

#[pymethods]
impl CoreModel {
    #[new]
    fn new(py: Python<'_>, config_json: &str) -> PyResult<Self> {
        let model = ForwardPassPerfModelConfig::from_json(config_json.as_bytes())
            .and_then(|config| config.check())
            .map(ForwardPassModel::new)
            .map_err(|error| exception(py, &error))?;
        Ok(Self { model: Mutex::new(model) })
    }

    fn observe(&self, py: Python<'_>, iteration: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        let ranks = self::iteration(iteration).map_err(|fault| fault.exception(py))?;
        let observed = guarded(|| self.lock(py).observe(ranks.as_ref()))?
            .map_err(|error| exception(py, &error))?;
        Ok(match observed {
            Observed::Idle => "idle",
            Observed::Rejected(_, reason) => reason.name(),
            _ => "learned",
        })
    }

    fn observe_batch(&self, py: Python<'_>, iterations: &Bound<'_, PyAny>) -> PyResult<()> {
        let iterations = iterations
            .try_iter()?
            .enumerate()
            .map(|(index, ranks)| {
                iteration(&ranks?)
                    .map_err(|fault| fault.within(&format!("[{index}]")).exception(py))
            })
            .collect::<PyResult<Vec<_>>>()?;
        self.detached(py, |model| model.observe_batch(&iterations))
    }

    fn observe_columns(&self, py: Python<'_>, columns: &Bound<'_, PyDict>) -> PyResult<()> {
        let arrays = arrays(columns)?;
        let columns = named(py, &arrays)?;
        self.detached(py, |model| model.observe_columns(&columns))
    }

    fn predict(&self, py: Python<'_>, iteration: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let ranks = self::iteration(iteration).map_err(|fault| fault.exception(py))?;
        guarded(|| self.lock(py).predict(ranks.as_ref()))?.map_err(|error| exception(py, &error))
    }

    #[pyo3(signature = (iteration, level=None))]
    fn forecast(
        &self,
        py: Python<'_>,
        iteration: &Bound<'_, PyAny>,
        level: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Forecast> {
        let level = level.map(|level| number(&level, "level")).transpose()?;
        let ranks = self::iteration(iteration).map_err(|fault| fault.exception(py))?;
        let forecast = guarded(|| match level {
            None => self.lock(py).forecast(ranks.as_ref()),
            Some(level) => self.lock(py).forecast_at(ranks.as_ref(), level),
        })?
        .map_err(|error| exception(py, &error))?;
        let [low_ms, high_ms] =
            forecast.interval_ms.map_or([None; 2], |interval_ms| interval_ms.map(Some));
        Ok(Forecast {
            ms: forecast.ms,
            source: forecast.source.map(|source| Cow::Borrowed(source.name())),
            kind: Cow::Borrowed(forecast.kind_name()),
            reason: forecast.reason.map(|reason| Cow::Borrowed(reason.name())),
            low_ms,
            high_ms,
        })
    }

    fn predict_columns<'py>(
        &self,
        py: Python<'py>,
        columns: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let arrays = arrays(columns)?;
        let columns = named(py, &arrays)?;
        let predicted_ms = self.detached(py, |model| {
            let mut predicted_ms = vec![0.0; columns.len()];
            model.predict_batch(&columns, &mut predicted_ms)?;
            Ok(predicted_ms)
        })?;
        Ok(PyArray1::from_vec(py, predicted_ms))
    }

    fn diagnostics_json(&self, py: Python<'_>) -> PyResult<String> {
        let diagnostics = self.lock(py).diagnostics();
        serde_json::to_string(&diagnostics)
            .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))
    }

    fn config_json(&self, py: Python<'_>) -> String {
        self.lock(py).config().to_json()
    }

    fn copy(&self, py: Python<'_>) -> Self {
        Self { model: Mutex::new(self.lock(py).clone()) }
    }
}

/// A number that is an argument by this name.
fn number(value: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    value.extract().map_err(|_| {
        let found =
            value.get_type().name().map_or_else(|_| "?".to_owned(), |kind| kind.to_string());
        let message = format!("expected a number, found {found}");
        exception(value.py(), &Error::metrics("invalid_type", name, message))
    })
}

/// The columns, copied: other threads may write to an array while the interpreter is released.
fn arrays(columns: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Vec<f64>)>> {
    columns
        .iter()
        .map(|(name, array)| {
            let array: PyReadonlyArray1<'_, f64> = array.extract()?;
            Ok((name.extract()?, array.as_slice()?.to_vec()))
        })
        .collect()
}

fn named<'a>(py: Python<'_>, arrays: &'a [(String, Vec<f64>)]) -> PyResult<Columns<'a>> {
    Columns::new(arrays.iter().map(|(name, values)| (name.as_str(), values.as_slice())))
        .map_err(|error| exception(py, &error))
}
