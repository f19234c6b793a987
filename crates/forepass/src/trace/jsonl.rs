//! JSON lines of forward-pass records, bare or in the envelopes that exporters put around them.
//!
//! One line is one iteration: the record of its only rank, or a list with one record a rank.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::{Error, Result, from_json};
use crate::metrics::{ForwardPassMetrics, NOT_A_RECORD, Object, Record, json_fault};

/// Reads the ranks of one line.
pub(super) fn parse(text: &[u8], ranks: &mut Vec<ForwardPassMetrics>) -> Result<()> {
    match from_json(text, fault)? {
        Line::Rank(entry) => ranks.push(entry.into_metrics()?),
        Line::Ranks(entries) if entries.is_empty() => {
            return Err(Error::metrics(
                "malformed",
                "",
                "an empty list: an iteration needs the record of at least one rank",
            ));
        }
        Line::Ranks(entries) => {
            for (index, entry) in entries.into_iter().enumerate() {
                let metrics = entry.into_metrics();
                ranks.push(metrics.map_err(|error| error.within(&format!("[{index}]")))?);
            }
        }
    }
    Ok(())
}

/// Whether the text ends inside a JSON value.
pub(super) fn is_cut(text: &[u8]) -> bool {
    // `IgnoredAny` would call a cut number invalid.
    serde_json::from_slice::<serde_json::Value>(text).is_err_and(|error| error.is_eof())
}

// The signature is that of the callback of `from_json`.
#[allow(clippy::needless_pass_by_value)]
fn fault(path: String, message: String) -> Error {
    let hint = if message.starts_with("EOF while parsing") {
        "the line ends inside the record, and a record is one whole line: "
    } else {
        ""
    };
    json_fault("malformed", path, &format!("{hint}{message}"))
}

/// One line: an object, or a list of them.
enum Line {
    Rank(Entry),
    Ranks(Vec<Entry>),
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct LineVisitor;

        impl<'de> Visitor<'de> for LineVisitor {
            type Value = Line;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a forward-pass record, or a list of the records of all ranks")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Line, A::Error> {
                Entry::deserialize(MapAccessDeserializer::new(map)).map(Line::Rank)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Line, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(Line::Ranks(entries))
            }
        }

        from.deserialize_any(LineVisitor)
    }
}

/// The record of one rank and the path at which it stood in its envelope.
struct Entry {
    envelope: &'static str,
    /// Boxed, because moving it up through the layers of serde costs more than one allocation.
    record: Box<Record>,
}

impl Entry {
    fn into_metrics(self) -> Result<ForwardPassMetrics> {
        ForwardPassMetrics::try_from(*self.record)
            .and_then(|metrics| metrics.check().map(|()| metrics))
            .map_err(|error| error.within(self.envelope))
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct EntryVisitor;

        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object with a forward-pass record")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
                let mut enclosed = None;
                let record = Record::deserialize(MapAccessDeserializer::new(Unwrapping {
                    map,
                    enclosed: &mut enclosed,
                }))?;
                let entry = match enclosed {
                    None => Entry { envelope: "", record: Box::new(record) },
                    Some(entry) if !record.is_recognisable() => entry,
                    Some(Entry { envelope, .. }) => {
                        return Err(A::Error::custom(format_args!(
                            "a record in `{envelope}` and another beside it: give one of the two"
                        )));
                    }
                };
                if entry.record.is_recognisable() {
                    Ok(entry)
                } else {
                    Err(A::Error::custom(format_args!(
                        "{NOT_A_RECORD}, and `fpm`, `event.fpm` or `metrics` does not hold one"
                    )))
                }
            }
        }

        from.deserialize_map(EntryVisitor)
    }
}

/// The entries of an object without those that are envelopes; what these enclose is put aside.
///
/// So a bare record and an enclosed one are both read in a single pass, whatever the order of keys.
struct Unwrapping<'a, A> {
    map: A,
    enclosed: &'a mut Option<Entry>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Unwrapping<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(Key(key)) = self.map.next_key()? {
            let (envelope, Object(record)) = match &*key {
                "fpm" => ("fpm", self.map.next_value()?),
                "metrics" => ("metrics", self.map.next_value()?),
                "event" => {
                    let Object(Event { fpm }) = self.map.next_value()?;
                    ("event.fpm", fpm)
                }
                _ => return seed.deserialize(CowStrDeserializer::new(key)).map(Some),
            };
            if let Some(Entry { envelope: first, .. }) = self.enclosed {
                return Err(A::Error::custom(format_args!(
                    "a record in `{first}` and another in `{envelope}`: give one of the two"
                )));
            }
            *self.enclosed = Some(Entry { envelope, record });
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A key, borrowed from the text unless it is escaped there.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Event {
    fpm: Object<Box<Record>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"version":1,"worker_id":"7","dp_rank":0,"counter_id":9,
        "wall_time":0.25,"scheduled_requests":{"num_decode_requests":2,"sum_decode_kv_tokens":50},
        "queued_requests":{}}"#;

    fn read(text: &str) -> Result<Vec<ForwardPassMetrics>> {
        let mut ranks = Vec::new();
        parse(text.as_bytes(), &mut ranks).map(|()| ranks)
    }

    fn fault(text: &str) -> (&'static str, String, String) {
        let error = read(text).unwrap_err();
        (error.code(), error.path(), error.to_string())
    }

    #[test]
    fn every_envelope_encloses_the_same_record() {
        let mut expected = ForwardPassMetrics::decode(2, 50).with_wall_time(0.25);
        expected.worker_id = "7".to_owned();
        expected.counter_id = 9;
        for text in [
            RECORD.to_owned(),
            format!(r#"{{"fpm":{RECORD},"recv_ms":5}}"#),
            format!(
                r#"{{"timestamp":1250,"event":{{"schema":"dynamo.fpm.trace.v1","source":
                {{"namespace":"n"}},"fpm":{RECORD},"capture_mode":"full"}}}}"#
            ),
            format!(
                r#"{{"namespace":"n","component":"c","publisher_id":1,"sequence":2,
                "published_at_ms":3,"metrics":{RECORD}}}"#
            ),
            format!(r#"{{"received_at_ns":1796029231949262877,"metrics":{RECORD}}}"#),
            format!(r#"{{"\u006detrics":{RECORD}}}"#),
        ] {
            assert_eq!(read(&text).unwrap(), [expected.clone()], "{text}");
        }
    }

    #[test]
    fn the_flat_form_of_offline_replays_is_read() {
        let text = r#"{"worker_id":"w","wall_time":0.25,"num_decode_requests":2,
            "sum_decode_kv_tokens":50,"num_queued_prefill":1}"#;
        let ranks = read(text).unwrap();
        assert_eq!(ranks[0].scheduled_requests.sum_decode_kv_tokens, 50);
        assert_eq!(ranks[0].queued_requests.num_prefill_requests, 1);
    }

    #[test]
    fn a_list_is_one_iteration_of_several_ranks() {
        let text = format!(r#"[{RECORD},{{"metrics":{RECORD}}},{{"dp_rank":2,"wall_time":0}}]"#);
        let ranks = read(&text).unwrap();
        assert_eq!(ranks.len(), 3);
        assert_eq!(ranks[0], ranks[1]);
        assert_eq!(ranks[2].dp_rank, 2);
        assert!(fault("[]").2.contains("at least one rank"));
        assert!(fault("[[]]").2.contains("expected an object"));
    }

    #[test]
    fn an_object_without_a_record_is_no_idle_step() {
        for text in [
            "{}",
            r#"{"level":"info","msg":"started"}"#,
            r#"{"version":1,"worker_id":"w"}"#,
            r#"{"fpm":{}}"#,
            r#"{"metrics":{"cpu":1}}"#,
            r#"{"event":{"fpm":{"version":1}}}"#,
        ] {
            let (code, _, message) = fault(text);
            assert_eq!(code, "malformed", "{text}");
            assert!(message.contains("no forward-pass record"), "{message}");
        }
        assert!(fault(r#"{"event":{}}"#).2.contains("missing field `fpm`"));
        assert!(fault(r#"{"event":"start"}"#).2.contains("expected an object"));
    }

    #[test]
    fn two_records_on_a_line_are_refused() {
        for text in [
            format!(r#"{{"fpm":{RECORD},"metrics":{RECORD}}}"#),
            format!(r#"{{"metrics":{RECORD},"metrics":{RECORD}}}"#),
            format!(r#"{{"metrics":{RECORD},"wall_time":0.5}}"#),
            format!("{RECORD} {RECORD}"),
        ] {
            assert_eq!(fault(&text).0, "malformed", "{text}");
        }
    }

    #[test]
    fn a_fault_names_its_place_and_what_would_be_right() {
        let text = RECORD.replace("50", "50.0");
        for (text, path) in [
            (text.clone(), "scheduled_requests"),
            (format!(r#"{{"event":{{"fpm":{text}}}}}"#), "event.fpm.scheduled_requests"),
            (format!(r#"[{RECORD},{{"metrics":{text}}}]"#), "[1].metrics.scheduled_requests"),
        ] {
            let (code, found, message) = fault(&text);
            assert_eq!(code, "malformed");
            assert_eq!(found, format!("{path}.sum_decode_kv_tokens"));
            assert!(message.contains("`50.0`"), "{message}");
            assert!(message.contains("a nonnegative integer"), "{message}");
        }
    }

    #[test]
    fn a_broken_invariant_keeps_its_own_code() {
        let text =
            format!(r#"{{"metrics":{}}}"#, RECORD.replace(r#""version":1"#, r#""version":999"#));
        let (code, path, _) = fault(&text);
        assert_eq!((code, &*path), ("unsupported_version", "metrics.version"));
        let (code, path, _) = fault(r#"[{"wall_time":1},{"fpm":{"num_decode_requests":1}}]"#);
        assert_eq!((code, &*path), ("invalid_field", "[1].fpm.sum_decode_kv_tokens"));
    }

    #[test]
    fn an_impossible_duration_is_left_to_the_model() {
        for wall_time in ["0", "-1", "1e9"] {
            assert!(read(&format!(r#"{{"wall_time":{wall_time}}}"#)).is_ok());
        }
        for wall_time in ["NaN", "Infinity", "1e400", "null"] {
            let (code, path, _) = fault(&format!(r#"{{"wall_time":{wall_time}}}"#));
            assert_eq!((code, &*path), ("malformed", "wall_time"));
        }
    }

    #[test]
    fn a_cut_record_is_told_from_a_wrong_one() {
        let text: String = format!(r#"{{"metrics":{RECORD}}}"#).replace('\n', " ");
        for cut in 1..text.len() {
            assert!(is_cut(&text.as_bytes()[..cut]), "{}", &text[..cut]);
        }
        assert!(!is_cut(text.as_bytes()));
        assert!(!is_cut(br#"{"wall_time":NaN}"#));
        assert!(fault(&text[..40]).2.contains("the line ends inside the record"));
    }
}
