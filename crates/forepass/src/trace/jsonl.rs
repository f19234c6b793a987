//! JSON lines of forward-pass records, bare or in the envelopes that exporters put around them.
//!
//! One line is one iteration: the record of its only rank, a list with one record a rank, or an
//! object whose `rank_measurements` is such a list.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Iteration;
use super::lines::Line as TextLine;
use super::parser::{Parser, is_cut_json};
use super::scalar::Scalar;
use crate::error::{Error, Result, from_json};
use crate::metrics::{ForwardPassMetrics, NOT_A_RECORD, Object, Record, json_fault};

/// Reads lines of forward-pass records.
pub(super) struct FpmJsonl;

impl Parser for FpmJsonl {
    fn is_cut(&mut self, line: &TextLine) -> bool {
        is_cut_json(line)
    }

    fn parse(&mut self, text: &[u8], iteration: &mut Iteration) -> Result<bool> {
        parse(text, iteration).map(|()| true)
    }
}

/// Reads the lists of a document, each with the records of all ranks of one iteration.
pub(super) struct FpmGroups;

impl Parser for FpmGroups {
    fn is_cut(&mut self, line: &TextLine) -> bool {
        is_cut_json(line)
    }

    fn parse(&mut self, text: &[u8], iteration: &mut Iteration) -> Result<bool> {
        parse(text, iteration)?;
        check_ranks(iteration, None)?;
        Ok(true)
    }
}

/// Checks that the ranks are 0, 1, ... in any order, and as many as expected.
pub(super) fn check_ranks(iteration: &Iteration, expected: Option<usize>) -> Result<()> {
    let mut found: Vec<u32> = iteration.ranks.iter().map(|rank| rank.dp_rank).collect();
    found.sort_unstable();
    let complete = (0..).zip(&found).all(|(rank, found)| rank == *found);
    let expected = expected.unwrap_or(found.len());
    if complete && expected == found.len() {
        return Ok(());
    }
    let found: Vec<_> = found.iter().map(u32::to_string).collect();
    Err(Error::metrics(
        "incomplete_iteration",
        "",
        format!("the ranks are {}, expected each of {expected} from 0 on once", found.join(", ")),
    ))
}

/// Reads the iteration of one line.
pub(super) fn parse(text: &[u8], iteration: &mut Iteration) -> Result<()> {
    match from_json(text, fault)? {
        Line::Rank(entry) => entry.append_to(iteration),
        Line::Ranks(entries) if entries.is_empty() => Err(Error::metrics(
            "malformed",
            "",
            "an empty list: it holds no records and no statistics of iterations",
        )),
        Line::Ranks(entries) => append_all(entries, iteration),
        Line::Iteration { complete: Some(false), .. } => Err(Error::metrics(
            "incomplete_iteration",
            "complete",
            "false: the records of some ranks are missing",
        )),
        Line::Iteration { entries, expected, .. } => {
            append_all(entries, iteration).map_err(|e| e.within("rank_measurements"))?;
            check_ranks(iteration, expected).map_err(|e| e.within("rank_measurements"))
        }
    }
}

fn append_all(entries: Vec<Entry>, iteration: &mut Iteration) -> Result<()> {
    for (index, entry) in entries.into_iter().enumerate() {
        entry.append_to(iteration).map_err(|error| error.within(&format!("[{index}]")))?;
    }
    Ok(())
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

/// One line: an object, a list of them, or an object around such a list.
enum Line {
    Rank(Entry),
    Ranks(Vec<Entry>),
    Iteration { entries: Vec<Entry>, complete: Option<bool>, expected: Option<usize> },
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
                let mut around = Around::default();
                let entry = Entry::of_map(map, &mut around)?;
                match (around.ranks, entry) {
                    (None, Some(entry)) => Ok(Line::Rank(entry)),
                    (Some(entries), None) => Ok(Line::Iteration {
                        entries,
                        complete: around.complete,
                        expected: around.expected,
                    }),
                    (None, None) => Err(A::Error::custom(no_record())),
                    (Some(_), Some(_)) => Err(A::Error::custom(
                        "a record in `rank_measurements` and another beside it: give one of the two",
                    )),
                }
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

fn no_record() -> String {
    format!("{NOT_A_RECORD}, and `fpm`, `event.fpm` or `metrics` does not hold one")
}

/// The record of one rank and what its envelope says of it.
pub(super) struct Entry {
    /// The path at which the record stood.
    envelope: &'static str,
    /// Boxed, because moving it up through the layers of serde costs more than one allocation.
    record: Box<Record>,
    time_ms: Option<f64>,
    producer: Option<String>,
}

/// What an object says besides a record.
#[derive(Default)]
struct Around {
    enclosed: Option<(&'static str, Box<Record>)>,
    ranks: Option<Vec<Entry>>,
    complete: Option<bool>,
    expected: Option<usize>,
    time_ms: Option<f64>,
    producer: Option<String>,
}

impl Around {
    fn knows(key: &str) -> bool {
        matches!(
            key,
            "observed_at_unix_ms"
                | "recv_ms"
                | "published_at_ms"
                | "received_at_ns"
                | "_recv_ts"
                | "publisher_id"
                | "producer"
                | "complete"
                | "expected_dp_ranks"
        )
    }

    fn take(&mut self, key: &str, value: Scalar) {
        match key {
            "publisher_id" | "producer" => self.producer = value.name(),
            "complete" => self.complete = value.flag(),
            "expected_dp_ranks" => self.expected = value.size(),
            "received_at_ns" => self.time_ms = value.number().map(|ns| ns / 1e6),
            "_recv_ts" => self.time_ms = value.number().map(|s| s * 1e3),
            _ => self.time_ms = value.number(),
        }
    }
}

impl Entry {
    /// Checks the record and adds it to an iteration.
    pub(super) fn append_to(self, iteration: &mut Iteration) -> Result<()> {
        let metrics = ForwardPassMetrics::try_from(*self.record)
            .and_then(|metrics| metrics.check().map(|()| metrics))
            .map_err(|error| error.within(self.envelope))?;
        iteration.ranks.push(metrics);
        iteration.time_ms = self.time_ms.or(iteration.time_ms);
        if let Some(producer) = self.producer {
            iteration.producer = producer;
        }
        Ok(())
    }

    /// The record in an object or in one of its envelopes, where there is one.
    fn of_map<'de, A: MapAccess<'de>>(
        map: A,
        around: &mut Around,
    ) -> Result<Option<Self>, A::Error> {
        let record = Record::deserialize(MapAccessDeserializer::new(Unwrapping { map, around }))?;
        let (envelope, record) = match around.enclosed.take() {
            None => ("", Box::new(record)),
            Some(enclosed) if !record.is_recognisable() => enclosed,
            Some((envelope, _)) => {
                return Err(A::Error::custom(format_args!(
                    "a record in `{envelope}` and another beside it: give one of the two"
                )));
            }
        };
        Ok(record.is_recognisable().then(|| Self {
            envelope,
            record,
            time_ms: around.time_ms,
            producer: around.producer.take(),
        }))
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
                Entry::of_map(map, &mut Around::default())?
                    .ok_or_else(|| A::Error::custom(no_record()))
            }
        }

        from.deserialize_map(EntryVisitor)
    }
}

/// The entries of an object without those around the record; what these say is put aside.
///
/// So a bare record and an enclosed one are both read in a single pass, whatever the order of keys.
struct Unwrapping<'a, A> {
    map: A,
    around: &'a mut Around,
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
                    let Object(event) = self.map.next_value::<Object<Event>>()?;
                    let time = event.observed_at_unix_ms.or(event.recv_ms);
                    self.around.time_ms = time.as_ref().and_then(Scalar::number);
                    let producer = event.source.and_then(|source| source.producer_id);
                    self.around.producer = producer.and_then(Scalar::name);
                    ("event.fpm", event.fpm)
                }
                "rank_measurements" => {
                    self.around.ranks = Some(self.map.next_value()?);
                    continue;
                }
                key if Around::knows(key) => {
                    let value = self.map.next_value()?;
                    self.around.take(key, value);
                    continue;
                }
                _ => return seed.deserialize(CowStrDeserializer::new(key)).map(Some),
            };
            if let Some((first, _)) = self.around.enclosed {
                return Err(A::Error::custom(format_args!(
                    "a record in `{first}` and another in `{envelope}`: give one of the two"
                )));
            }
            self.around.enclosed = Some((envelope, record));
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
    #[serde(default)]
    source: Option<Producer>,
    #[serde(default)]
    observed_at_unix_ms: Option<Scalar>,
    #[serde(default)]
    recv_ms: Option<Scalar>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Producer {
    producer_id: Option<Scalar>,
}

#[cfg(test)]
mod tests;
