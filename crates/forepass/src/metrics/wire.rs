//! Reading a forward-pass record as producers write it: fields left out, nested or flat.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{FPM_VERSION, ForwardPassMetrics, QueuedRequests, ScheduledRequests};
use crate::error::{Error, Result, from_json, present};

/// One iteration, the records of all its ranks, from JSON text: one object, or a list of objects.
///
/// An object that says nothing a forward-pass record says is an error, not an idle rank.
pub fn iteration_from_json(text: &[u8]) -> Result<Vec<ForwardPassMetrics>> {
    let fault = |path, message: String| json_fault("invalid_json", path, &message);
    if text.trim_ascii_start().starts_with(b"[") {
        let ranks = from_json::<Vec<Object<Record>>>(text, fault)?;
        let of_rank = |(index, Object(record)): (usize, Object<Record>)| {
            recognised(record).map_err(|error| error.within(&format!("[{index}]")))
        };
        ranks.into_iter().enumerate().map(of_rank).collect()
    } else {
        let Object(record) = from_json::<Object<Record>>(text, fault)?;
        Ok(vec![recognised(record)?])
    }
}

fn recognised(record: Record) -> Result<ForwardPassMetrics> {
    if record.is_recognisable() {
        record.try_into()
    } else {
        Err(Error::metrics("not_a_record", "", NOT_A_RECORD))
    }
}

/// What is wrong with an object that holds nothing of a record.
pub(crate) const NOT_A_RECORD: &str = "no forward-pass record: it has neither `wall_time` nor `scheduled_requests` nor their counters";

/// A fault of JSON text on one line, in the words of the wire rather than of Rust.
pub(crate) fn json_fault(code: &'static str, path: String, message: &str) -> Error {
    let message = message
        .replace("expected u64", "expected a nonnegative integer")
        .replace("expected u32", "expected a nonnegative integer below 2^32")
        .replace("expected f64", "expected a finite number")
        .replace(" at line 1 column ", " at column ");
    Error::metrics(code, path, message)
}

/// The record as it may stand on the wire: nested, or flat as offline replays write it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    #[serde(deserialize_with = "present")]
    version: Option<u32>,
    worker_id: String,
    dp_rank: u32,
    counter_id: u64,
    timing_scope: Option<String>,
    #[serde(deserialize_with = "present")]
    wall_time: Option<f64>,
    #[serde(deserialize_with = "object")]
    scheduled_requests: Option<Scheduled>,
    #[serde(deserialize_with = "object")]
    queued_requests: Option<QueuedRequests>,
    #[serde(deserialize_with = "present")]
    num_prefill_requests: Option<u64>,
    #[serde(deserialize_with = "present")]
    sum_prefill_tokens: Option<u64>,
    var_prefill_length: f64,
    #[serde(deserialize_with = "present")]
    sum_prefill_kv_tokens: Option<u64>,
    #[serde(deserialize_with = "present")]
    num_decode_requests: Option<u64>,
    #[serde(deserialize_with = "present")]
    sum_decode_kv_tokens: Option<u64>,
    var_decode_kv_tokens: f64,
    num_queued_prefill: u64,
    sum_queued_prefill_tokens: u64,
    var_queued_prefill_length: f64,
    num_queued_decode: u64,
    sum_queued_decode_kv_tokens: u64,
    var_queued_decode_kv_tokens: f64,
}

/// `scheduled_requests` as it stands on the wire, absent sums told apart from zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Scheduled {
    num_prefill_requests: u64,
    #[serde(deserialize_with = "present")]
    sum_prefill_tokens: Option<u64>,
    var_prefill_length: f64,
    sum_prefill_kv_tokens: u64,
    num_decode_requests: u64,
    #[serde(deserialize_with = "present")]
    sum_decode_kv_tokens: Option<u64>,
    var_decode_kv_tokens: f64,
    extend_lengths: Option<Vec<u64>>,
    past_kv_lengths: Option<Vec<u64>>,
}

/// A field that may be absent but, where it stands, is an object.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Object::deserialize(from).map(|Object(value)| Some(value))
}

/// A struct read from an object only: serde alone would also fill it by position from a list.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        from.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

impl Record {
    /// Whether the object says anything that only a forward-pass record says.
    pub(crate) fn is_recognisable(&self) -> bool {
        self.wall_time.is_some()
            || self.scheduled_requests.is_some()
            || self.queued_requests.is_some()
            || self.is_flat()
    }

    fn is_flat(&self) -> bool {
        self.num_prefill_requests.is_some()
            || self.sum_prefill_tokens.is_some()
            || self.sum_prefill_kv_tokens.is_some()
            || self.num_decode_requests.is_some()
            || self.sum_decode_kv_tokens.is_some()
    }

    /// The scheduled work that stands beside the metadata instead of in an object of its own.
    fn flat_scheduled(&self) -> Scheduled {
        Scheduled {
            num_prefill_requests: self.num_prefill_requests.unwrap_or(0),
            sum_prefill_tokens: self.sum_prefill_tokens,
            var_prefill_length: self.var_prefill_length,
            sum_prefill_kv_tokens: self.sum_prefill_kv_tokens.unwrap_or(0),
            num_decode_requests: self.num_decode_requests.unwrap_or(0),
            sum_decode_kv_tokens: self.sum_decode_kv_tokens,
            var_decode_kv_tokens: self.var_decode_kv_tokens,
            extend_lengths: None,
            past_kv_lengths: None,
        }
    }
}

impl TryFrom<Record> for ForwardPassMetrics {
    type Error = Error;

    fn try_from(mut record: Record) -> Result<Self> {
        let scheduled_requests = match record.scheduled_requests.take() {
            Some(_) if record.is_flat() => {
                return Err(Error::metrics(
                    "invalid_field",
                    "scheduled_requests",
                    "the counters are given both here and beside it: give one of the two forms",
                ));
            }
            Some(nested) => ScheduledRequests::try_from(nested)
                .map_err(|error| error.within("scheduled_requests"))?,
            None => record.flat_scheduled().try_into()?,
        };
        Ok(Self {
            version: record.version.unwrap_or(FPM_VERSION),
            worker_id: record.worker_id,
            dp_rank: record.dp_rank,
            counter_id: record.counter_id,
            timing_scope: record.timing_scope,
            wall_time: record.wall_time.unwrap_or(0.0),
            scheduled_requests,
            queued_requests: record.queued_requests.unwrap_or(QueuedRequests {
                num_prefill_requests: record.num_queued_prefill,
                sum_prefill_tokens: record.sum_queued_prefill_tokens,
                var_prefill_length: record.var_queued_prefill_length,
                num_decode_requests: record.num_queued_decode,
                sum_decode_kv_tokens: record.sum_queued_decode_kv_tokens,
                var_decode_kv_tokens: record.var_queued_decode_kv_tokens,
            }),
        })
    }
}

impl TryFrom<Object<Record>> for ForwardPassMetrics {
    type Error = Error;

    fn try_from(Object(record): Object<Record>) -> Result<Self> {
        record.try_into()
    }
}

impl TryFrom<Scheduled> for ScheduledRequests {
    type Error = Error;

    fn try_from(scheduled: Scheduled) -> Result<Self> {
        Ok(Self {
            var_prefill_length: scheduled.var_prefill_length,
            var_decode_kv_tokens: scheduled.var_decode_kv_tokens,
            extend_lengths: scheduled.extend_lengths,
            past_kv_lengths: scheduled.past_kv_lengths,
            ..Self::from_counters(
                scheduled.num_prefill_requests,
                scheduled.sum_prefill_tokens,
                scheduled.sum_prefill_kv_tokens,
                scheduled.num_decode_requests,
                scheduled.sum_decode_kv_tokens,
            )?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<ForwardPassMetrics> {
        let ranks = iteration_from_json(text.as_bytes())?;
        assert_eq!(ranks.len(), 1);
        Ok(ranks.into_iter().next().unwrap())
    }

    fn fault(text: &str) -> (&'static str, String, String) {
        let error = one(text).unwrap_err();
        (error.code(), error.path(), error.to_string())
    }

    #[test]
    fn absent_fields_take_their_defaults() {
        let metrics = one(r#"{"scheduled_requests": {}}"#).unwrap();
        assert_eq!(metrics, ForwardPassMetrics::default());
        let metrics = one(r#"{"wall_time": 1, "queued_requests": {}, "later": [null]}"#).unwrap();
        assert_eq!(
            metrics,
            ForwardPassMetrics::default().with_wall_time(1.0),
            "an unknown field is ignored"
        );
    }

    #[test]
    fn an_object_without_a_record_is_no_idle_rank() {
        for text in ["{}", r#"{"foo": 1}"#, r#"{"metrics": {"wall_time": 1}}"#, r#"[{"foo": 1}]"#] {
            let error = iteration_from_json(text.as_bytes()).unwrap_err();
            assert_eq!(error.code(), "not_a_record", "{text}");
        }
    }

    #[test]
    fn the_flat_form_says_the_same_as_the_nested_one() {
        let flat = r#"{"worker_id": "w", "dp_rank": 1, "wall_time": 0.5,
            "num_prefill_requests": 1, "sum_prefill_tokens": 2, "var_prefill_length": 0.25,
            "sum_prefill_kv_tokens": 3, "num_decode_requests": 4, "sum_decode_kv_tokens": 5,
            "var_decode_kv_tokens": 0.75, "num_queued_prefill": 6, "sum_queued_prefill_tokens": 7,
            "var_queued_prefill_length": 8.5, "num_queued_decode": 9,
            "sum_queued_decode_kv_tokens": 10, "var_queued_decode_kv_tokens": 11.5}"#;
        let nested = r#"{"worker_id": "w", "dp_rank": 1, "wall_time": 0.5,
            "scheduled_requests": {"num_prefill_requests": 1, "sum_prefill_tokens": 2,
                "var_prefill_length": 0.25, "sum_prefill_kv_tokens": 3, "num_decode_requests": 4,
                "sum_decode_kv_tokens": 5, "var_decode_kv_tokens": 0.75},
            "queued_requests": {"num_prefill_requests": 6, "sum_prefill_tokens": 7,
                "var_prefill_length": 8.5, "num_decode_requests": 9, "sum_decode_kv_tokens": 10,
                "var_decode_kv_tokens": 11.5}}"#;
        assert_eq!(one(flat).unwrap(), one(nested).unwrap());
        let (code, path, _) = fault(r#"{"scheduled_requests": {}, "num_decode_requests": 1}"#);
        assert_eq!((code, &*path), ("invalid_field", "scheduled_requests"));
    }

    #[test]
    fn an_absent_sum_is_not_zero() {
        let (code, path, message) = fault(
            r#"{"scheduled_requests": {"num_decode_requests": 3, "var_decode_kv_tokens": 0}}"#,
        );
        assert_eq!(code, "invalid_field");
        assert_eq!(path, "scheduled_requests.sum_decode_kv_tokens");
        assert!(message.contains("num_decode_requests is 3"), "{message}");
        // The flat form has no enclosing object to name.
        assert_eq!(fault(r#"{"num_decode_requests": 3}"#).1, "sum_decode_kv_tokens");
        assert_eq!(fault(r#"{"num_prefill_requests": 3}"#).1, "sum_prefill_tokens");
        assert!(one(r#"{"num_decode_requests": 3, "sum_decode_kv_tokens": 0}"#).is_ok());
    }

    #[test]
    fn counters_are_strict_integers() {
        for value in ["3.0", "-1", "true", "\"3\"", "null", "[3]", "18446744073709551616"] {
            let (code, path, message) =
                fault(&format!(r#"{{"scheduled_requests": {{"num_decode_requests": {value}}}}}"#));
            assert_eq!(code, "invalid_json", "{value}");
            assert_eq!(path, "scheduled_requests.num_decode_requests", "{value}");
            assert!(message.contains("a nonnegative integer"), "{message}");
        }
        assert_eq!(fault(r#"{"dp_rank": 4294967296}"#).1, "dp_rank");
    }

    #[test]
    fn a_counter_is_exact_up_to_its_last_bit() {
        let metrics = one(r#"{"wall_time": 0, "counter_id": 18446744073709551615}"#).unwrap();
        assert_eq!(metrics.counter_id, u64::MAX);
        let text = r#"{"num_decode_requests": 1, "sum_decode_kv_tokens": 9007199254740993}"#;
        let metrics = one(text).unwrap();
        assert_eq!(metrics.scheduled_requests.sum_decode_kv_tokens, (1 << 53) + 1);
        assert_eq!(metrics.check().unwrap_err().code(), "invalid_field");
    }

    #[test]
    fn a_number_that_json_does_not_have_is_refused() {
        for value in ["1e400", "NaN", "Infinity", "-Infinity", "null", "\"0.1\"", "true"] {
            let (code, path, _) = fault(&format!(r#"{{"wall_time": {value}}}"#));
            assert_eq!((code, &*path), ("invalid_json", "wall_time"), "{value}");
        }
    }

    #[test]
    fn null_stands_only_for_optional_fields() {
        for field in ["version", "worker_id", "scheduled_requests", "queued_requests"] {
            assert_eq!(fault(&format!(r#"{{"{field}": null}}"#)).1, field);
        }
        let text = r#"{"timing_scope": null, "scheduled_requests": {"extend_lengths": null}}"#;
        assert_eq!(one(text).unwrap(), ForwardPassMetrics::default());
    }

    #[test]
    fn a_list_is_not_taken_for_an_object() {
        for text in [
            r#"{"scheduled_requests": [5, 100]}"#,
            r#"{"queued_requests": []}"#,
            r#"[[1, "w", 0]]"#,
        ] {
            let message = iteration_from_json(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains("expected an object"), "{message}");
        }
        assert!(serde_json::from_str::<ForwardPassMetrics>(r#"[1, "w", 0]"#).is_err());
    }

    #[test]
    fn a_fault_of_one_rank_names_it() {
        let ranks =
            iteration_from_json(br#"[{"wall_time": 1}, {"wall_time": 1, "dp_rank": 1}]"#).unwrap();
        assert_eq!(ranks[1].dp_rank, 1);
        let error =
            iteration_from_json(br#"[{"wall_time": 1}, {"num_decode_requests": 1}]"#).unwrap_err();
        assert_eq!(error.path(), "[1].sum_decode_kv_tokens");
        let error = iteration_from_json(br#"[{"wall_time": 1}, {"dp_rank": -1}]"#).unwrap_err();
        assert_eq!(error.path(), "[1].dp_rank");
    }
}
