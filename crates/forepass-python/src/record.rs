//! Forward-pass records as Python has them: mappings, objects with attributes, JSON text.

use std::borrow::Cow;

use forepass::error::Error;
use forepass::metrics::{FPM_VERSION, iteration_from_json};
use forepass::{ForwardPassMetrics, ScheduledRequests};
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView,
    PyString, PyTuple, PyType,
};

use crate::errors::exception;

/// Why a record cannot be read.
pub(crate) enum Fault {
    /// It is malformed.
    Record(Error),
    /// Something else came up meanwhile, such as an interrupt.
    Raised(PyErr),
}

type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub(crate) fn within(self, prefix: &str) -> Self {
        match self {
            Self::Record(error) => Self::Record(error.within(prefix)),
            raised @ Self::Raised(_) => raised,
        }
    }

    /// The exception for Python.
    pub(crate) fn exception(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Record(error) => exception(py, &error),
            Self::Raised(error) => error,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Record(error)
    }
}

/// One iteration: one rank, which needs no allocation, or a list of ranks.
pub(crate) enum Iteration {
    One([ForwardPassMetrics; 1]),
    Many(Vec<ForwardPassMetrics>),
}

impl AsRef<[ForwardPassMetrics]> for Iteration {
    fn as_ref(&self) -> &[ForwardPassMetrics] {
        match self {
            Self::One(rank) => rank,
            Self::Many(ranks) => ranks,
        }
    }
}

/// An iteration from one record, a list or tuple of records, or JSON text of either.
pub(crate) fn iteration(from: &Bound<'_, PyAny>) -> Result<Iteration> {
    if from.is_instance_of::<PyDict>() {
        return Ok(Iteration::One([rank(from)?]));
    }
    if let Some(text) = json_text(from)? {
        return Ok(Iteration::Many(iteration_from_json(&text)?));
    }
    let ranks: Vec<Bound<'_, PyAny>> = if let Ok(list) = from.cast::<PyList>() {
        list.iter().collect()
    } else if let Ok(tuple) = from.cast::<PyTuple>() {
        tuple.iter().collect()
    } else {
        return Ok(Iteration::One([rank(from)?]));
    };
    ranks
        .iter()
        .enumerate()
        .map(|(index, from)| rank(from).map_err(|error| error.within(&format!("[{index}]"))))
        .collect::<Result<_>>()
        .map(Iteration::Many)
}

/// JSON text as any of the types that hold it.
fn json_text<'a>(from: &'a Bound<'_, PyAny>) -> Result<Option<Cow<'a, [u8]>>> {
    if let Ok(text) = from.cast::<PyBytes>() {
        return Ok(Some(Cow::Borrowed(text.as_bytes())));
    }
    if let Ok(text) = from.cast::<PyString>() {
        let text = text.to_cow().map_err(|error| raised(from.py(), "", error))?;
        return Ok(Some(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }));
    }
    if let Ok(text) = from.cast::<PyByteArray>() {
        return Ok(Some(Cow::Owned(text.to_vec())));
    }
    if from.is_instance_of::<PyMemoryView>() {
        let bytes = from
            .call_method0(intern!(from.py(), "tobytes"))
            .and_then(|bytes| bytes.extract())
            .map_err(|error| raised(from.py(), "", error))?;
        return Ok(Some(Cow::Owned(bytes)));
    }
    Ok(None)
}

/// What holds a record's fields: a mapping's items, or an object's attributes.
enum Fields<'a, 'py> {
    Items(&'a Bound<'py, PyDict>),
    Entries(&'a Bound<'py, PyMapping>),
    Attributes(&'a Bound<'py, PyAny>),
}

type Name<'a, 'py> = &'a Bound<'py, PyString>;

impl<'a, 'py> Fields<'a, 'py> {
    fn of(from: &'a Bound<'py, PyAny>) -> Result<Self> {
        if let Ok(items) = from.cast::<PyDict>() {
            Ok(Self::Items(items))
        } else if is_plain(from) {
            Err(not_a_record(from))
        } else if let Ok(entries) = from.cast::<PyMapping>() {
            Ok(Self::Entries(entries))
        } else {
            Ok(Self::Attributes(from))
        }
    }

    fn any(&self) -> &Bound<'py, PyAny> {
        match self {
            Self::Items(items) => items.as_any(),
            Self::Entries(entries) => entries.as_any(),
            Self::Attributes(object) => object,
        }
    }

    /// The value of a field, where it stands.
    fn get(&self, name: Name<'_, 'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let found = match self {
            Self::Items(items) => items.get_item(name),
            Self::Entries(entries) => entries
                .contains(name)
                .and_then(|stands| stands.then(|| entries.get_item(name)).transpose()),
            Self::Attributes(object) => object.getattr_opt(name),
        };
        found.map_err(|error| raised(name.py(), &name.to_string(), error))
    }

    /// Whether this is a mapping that holds nothing.
    fn is_empty(&self) -> bool {
        match self {
            Self::Items(items) => items.is_empty(),
            Self::Entries(entries) => entries.is_empty().unwrap_or(false),
            Self::Attributes(_) => false,
        }
    }

    fn count(&self, name: Name<'_, 'py>) -> Result<Option<u64>> {
        self.get(name)?.map(|value| count(name, &value)).transpose()
    }

    fn list(&self, name: Name<'_, 'py>) -> Result<Option<Vec<u64>>> {
        match self.get(name)? {
            None => Ok(None),
            Some(value) if value.is_none() => Ok(None),
            Some(value) => {
                let entries = value.try_iter().map_err(|_| {
                    fault(&name.to_string(), format!("{} is not a list", shown(&value)))
                })?;
                entries
                    .map(|entry| match entry {
                        Ok(entry) => count(name, &entry),
                        Err(error) => Err(raised(name.py(), &name.to_string(), error)),
                    })
                    .collect::<Result<_>>()
                    .map(Some)
            }
        }
    }

    /// Whether there are requests beside nested counters: the full look at an object's attributes
    /// costs more than all the rest, as each absent one raises.
    fn requests(&self) -> Result<Option<ScheduledRequests>> {
        let py = self.any().py();
        let stands = self.get(intern!(py, "num_prefill_requests"))?.is_some()
            || self.get(intern!(py, "num_decode_requests"))?.is_some();
        Ok(stands.then(ScheduledRequests::default))
    }

    fn scheduled(&self) -> Result<Option<ScheduledRequests>> {
        let py = self.any().py();
        let prefill_requests = self.count(intern!(py, "num_prefill_requests"))?;
        let prefill_tokens = self.count(intern!(py, "sum_prefill_tokens"))?;
        let prefill_kv_tokens = self.count(intern!(py, "sum_prefill_kv_tokens"))?;
        let decode_requests = self.count(intern!(py, "num_decode_requests"))?;
        let decode_kv_tokens = self.count(intern!(py, "sum_decode_kv_tokens"))?;
        let counters = [
            prefill_requests,
            prefill_tokens,
            prefill_kv_tokens,
            decode_requests,
            decode_kv_tokens,
        ];
        if counters == [None; 5] {
            return Ok(None);
        }
        Ok(Some(ScheduledRequests::from_counters(
            prefill_requests.unwrap_or(0),
            prefill_tokens,
            prefill_kv_tokens.unwrap_or(0),
            decode_requests.unwrap_or(0),
            decode_kv_tokens,
        )?))
    }
}

/// One rank's record; what no forecast depends on is left unread.
fn rank(from: &Bound<'_, PyAny>) -> Result<ForwardPassMetrics> {
    let py = from.py();
    if let Some(text) = json_text(from)? {
        let mut ranks = iteration_from_json(&text)?;
        return match (ranks.pop(), ranks.is_empty()) {
            (Some(rank), true) => Ok(rank),
            _ => Err(fault("", "a rank's JSON must be one object".to_owned())),
        };
    }
    let fields = Fields::of(from)?;
    let nested = fields.get(intern!(py, "scheduled_requests"))?;
    let flat = match (&fields, &nested) {
        (Fields::Attributes(_), Some(_)) => fields.requests()?,
        _ => fields.scheduled()?,
    };
    let wall_time = fields.get(intern!(py, "wall_time"))?;
    if flat.is_none() && nested.is_none() {
        refuse_unrecognised(&fields, wall_time.is_some())?;
    }
    let scheduled_requests = match (nested, flat) {
        (None, flat) => flat.unwrap_or_default(),
        (Some(_), Some(_)) => {
            return Err(fault(
                "scheduled_requests",
                "the counters are given both here and beside it: give one of the two forms"
                    .to_owned(),
            ));
        }
        (Some(nested), None) => {
            scheduled(&nested).map_err(|error| error.within("scheduled_requests"))?
        }
    };
    let version = match fields.count(intern!(py, "version"))? {
        None => FPM_VERSION,
        Some(version) => {
            supported(version)?;
            FPM_VERSION
        }
    };
    Ok(ForwardPassMetrics {
        version,
        wall_time: wall_time.map_or(Ok(0.0), |value| seconds(&value))?,
        scheduled_requests,
        ..ForwardPassMetrics::default()
    })
}

/// Refuses what has no counters, unless it has another field by which it is known as a record.
#[cold]
fn refuse_unrecognised(fields: &Fields<'_, '_>, has_wall_time: bool) -> Result<()> {
    let from = fields.any();
    let py = from.py();
    if let Fields::Attributes(_) = fields {
        return Err(not_a_record(from));
    }
    if fields.get(intern!(py, "version"))?.is_some() {
        fields.count(intern!(py, "version"))?.map_or(Ok(()), supported)?;
    }
    if has_wall_time || fields.get(intern!(py, "queued_requests"))?.is_some() {
        return Ok(());
    }
    for envelope in [intern!(py, "metrics"), intern!(py, "fpm"), intern!(py, "event")] {
        if fields.get(envelope)?.is_some() {
            let message = format!(
                "not a forward-pass record but an envelope: pass the record inside of `{envelope}`"
            );
            return Err(fault("", message));
        }
    }
    Err(not_a_record(from))
}

fn supported(version: u64) -> Result<()> {
    if version == u64::from(FPM_VERSION) {
        return Ok(());
    }
    let message = format!("ForwardPassMetrics version {version} is not {FPM_VERSION}");
    Err(Error::metrics("unsupported_version", "version", message).into())
}

fn scheduled(from: &Bound<'_, PyAny>) -> Result<ScheduledRequests> {
    let py = from.py();
    if json_text(from)?.is_some() {
        return Err(not_a_record(from));
    }
    let fields = Fields::of(from)?;
    let counters = fields.scheduled()?;
    let extend_lengths = fields.list(intern!(py, "extend_lengths"))?;
    let past_kv_lengths = fields.list(intern!(py, "past_kv_lengths"))?;
    if counters.is_none()
        && extend_lengths.is_none()
        && past_kv_lengths.is_none()
        && !fields.is_empty()
    {
        return Err(fault("", format!("{} has no counter of scheduled work", shown(from))));
    }
    let mut scheduled = counters.unwrap_or_default();
    scheduled.extend_lengths = extend_lengths;
    scheduled.past_kv_lengths = past_kv_lengths;
    Ok(scheduled)
}

/// A counter: any integer type but `bool`.
fn count(name: Name<'_, '_>, value: &Bound<'_, PyAny>) -> Result<u64> {
    let is_integer = value.is_exact_instance_of::<PyInt>()
        || (!is_bool(value) && value.hasattr(intern!(value.py(), "__index__")).unwrap_or(false));
    match value.extract() {
        Ok(count) if is_integer => Ok(count),
        _ => {
            Err(fault(&name.to_string(), format!("{} is not a nonnegative integer", shown(value))))
        }
    }
}

/// A duration: any real number type but `bool`; whether it is plausible is the core's to say.
fn seconds(value: &Bound<'_, PyAny>) -> Result<f64> {
    if let Ok(value) = value.cast_exact::<PyFloat>() {
        return Ok(value.value());
    }
    match value.extract() {
        Ok(seconds) if !is_bool(value) => Ok(seconds),
        _ => Err(fault("wall_time", format!("{} is not a number of seconds", shown(value)))),
    }
}

const EXPECTED: &str = "give a mapping, an object with its fields, or JSON text";

/// A truth value, of Python or of NumPy.
fn is_bool(value: &Bound<'_, PyAny>) -> bool {
    static NUMPY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    value.is_instance_of::<PyBool>()
        || NUMPY
            .import(value.py(), "numpy", "bool_")
            .and_then(|class| value.is_instance(class))
            .unwrap_or(false)
}

/// What has no fields, whatever its attributes.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyList>()
}

fn not_a_record(value: &Bound<'_, PyAny>) -> Fault {
    fault("", format!("{} is not a forward-pass record: {EXPECTED}", shown(value)))
}

/// A value as a message shows it: its `repr`, cut short.
fn shown(value: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 80;
    let text = value.repr().map_or_else(|_| "a value".to_owned(), |text| text.to_string());
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn fault(path: &str, message: String) -> Fault {
    Fault::Record(Error::metrics("invalid_field", path, message))
}

/// What reading a field raised: a fault of the record, unless it asks the program to end.
fn raised(py: Python<'_>, path: &str, error: PyErr) -> Fault {
    if error.is_instance_of::<PyException>(py) {
        fault(path, error.to_string())
    } else {
        Fault::Raised(error)
    }
}
