//! Forward-pass records as Python has them: mappings, objects with attributes, JSON text.

use forepass::error::{Error, Result};
use forepass::metrics::{FPM_VERSION, iteration_from_json};
use forepass::{ForwardPassMetrics, ScheduledRequests};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

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
    if let Ok(text) = from.cast::<PyBytes>() {
        return iteration_from_json(text.as_bytes()).map(Iteration::Many);
    }
    if let Ok(text) = from.cast::<PyString>() {
        let text = text.to_cow().map_err(|error| fault("", error.to_string()))?;
        return iteration_from_json(text.as_bytes()).map(Iteration::Many);
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

/// What holds a record's fields: a mapping's items, or an object's attributes.
enum Fields<'a, 'py> {
    Items(&'a Bound<'py, PyDict>),
    Attributes(&'a Bound<'py, PyAny>),
}

type Name<'a, 'py> = &'a Bound<'py, PyString>;

impl<'a, 'py> Fields<'a, 'py> {
    fn of(from: &'a Bound<'py, PyAny>) -> Result<Self> {
        if let Ok(items) = from.cast::<PyDict>() {
            Ok(Self::Items(items))
        } else if from.is_none() || is_scalar(from) || from.cast::<PyList>().is_ok() {
            Err(fault("", format!("{} is not a forward-pass record: {EXPECTED}", shown(from))))
        } else {
            Ok(Self::Attributes(from))
        }
    }

    /// The value of a field, where it stands.
    fn get(&self, name: Name<'_, 'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let found = match self {
            Self::Items(items) => items.get_item(name),
            Self::Attributes(object) => object.getattr_opt(name),
        };
        found.map_err(|error| fault(&name.to_string(), error.to_string()))
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
                        Err(error) => Err(fault(&name.to_string(), error.to_string())),
                    })
                    .collect::<Result<_>>()
                    .map(Some)
            }
        }
    }

    fn scheduled(&self) -> Result<Option<ScheduledRequests>> {
        let py = match self {
            Self::Items(items) => items.py(),
            Self::Attributes(object) => object.py(),
        };
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
    if let Ok(text) = from.cast::<PyBytes>() {
        let mut ranks = iteration_from_json(text.as_bytes())?;
        return match (ranks.pop(), ranks.is_empty()) {
            (Some(rank), true) => Ok(rank),
            _ => Err(fault("", "a rank's JSON must be one object".to_owned())),
        };
    }
    let fields = Fields::of(from)?;
    let flat = fields.scheduled()?;
    let nested = fields.get(intern!(py, "scheduled_requests"))?;
    if flat.is_none() && nested.is_none() && matches!(fields, Fields::Attributes(_)) {
        return Err(fault("", format!("{} is not a forward-pass record: {EXPECTED}", shown(from))));
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
    let version = fields.count(intern!(py, "version"))?.unwrap_or(u64::from(FPM_VERSION));
    let wall_time = match fields.get(intern!(py, "wall_time"))? {
        Some(value) => seconds(&value)?,
        None => 0.0,
    };
    Ok(ForwardPassMetrics {
        version: u32::try_from(version).unwrap_or(u32::MAX),
        wall_time,
        scheduled_requests,
        ..ForwardPassMetrics::default()
    })
}

fn scheduled(from: &Bound<'_, PyAny>) -> Result<ScheduledRequests> {
    let py = from.py();
    let fields = Fields::of(from)?;
    let mut scheduled = fields.scheduled()?.unwrap_or_default();
    scheduled.extend_lengths = fields.list(intern!(py, "extend_lengths"))?;
    scheduled.past_kv_lengths = fields.list(intern!(py, "past_kv_lengths"))?;
    Ok(scheduled)
}

/// A counter: any integer type but `bool`.
fn count(name: Name<'_, '_>, value: &Bound<'_, PyAny>) -> Result<u64> {
    let is_integer = value.is_exact_instance_of::<PyInt>()
        || (!value.is_instance_of::<PyBool>()
            && value.hasattr(intern!(value.py(), "__index__")).unwrap_or(false));
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
        Ok(seconds) if !value.is_instance_of::<PyBool>() => Ok(seconds),
        _ => Err(fault("wall_time", format!("{} is not a number of seconds", shown(value)))),
    }
}

const EXPECTED: &str = "give a mapping, an object with its fields, or JSON text";

fn is_scalar(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyString>()
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

fn fault(path: &str, message: String) -> Error {
    Error::metrics("invalid_field", path, message)
}
