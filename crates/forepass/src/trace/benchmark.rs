//! The JSON document that an engine's benchmark of itself leaves: a grid of measured batches.
//!
//! Its groups hold the records of all ranks; where there are none, its results hold those of the
//! only one. It is small, so it is kept in memory while its entries are read one by one.

use std::collections::VecDeque;
use std::io::{self, Read};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Iteration;
use super::bytes::{Bytes, is_damage};
use super::elements::{Elements, Entries};
use super::jsonl::{Entry, check_ranks};
use super::lines::Line;
use super::parser::{Notices, Parser, is_cut_json};
use super::scalar::Scalar;
use crate::error::{Error, Result, from_json};
use crate::metrics::json_fault;

/// More than any grid of batches takes.
const LONGEST: u64 = 256 << 20;

const SCHEMA_VERSION: u64 = 2;

/// Reads groups, or results, one by one.
#[derive(Debug, Default)]
pub(super) struct Benchmark {
    /// Iterations of a result that were not given out yet.
    waiting: VecDeque<Iteration>,
    notices: Notices,
}

#[derive(Deserialize)]
struct Document {
    schema_version: Option<Scalar>,
    valid: Option<Scalar>,
    timing_valid: Option<Scalar>,
    status: Option<Scalar>,
    iteration_groups: Option<Vec<IgnoredAny>>,
    results: Option<Vec<IgnoredAny>>,
}

/// A group of ranks, or a result of one.
#[derive(Deserialize)]
struct Group {
    complete: Option<bool>,
    expected_dp_ranks: Option<Scalar>,
    rank_results: Option<Vec<RankResult>>,
    fpms: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
struct RankResult {
    fpms: Vec<Entry>,
}

impl Benchmark {
    /// The document's entries and their reader; the inner error is that of the document.
    pub(super) fn open(bytes: Bytes) -> io::Result<Result<(Elements, Self)>> {
        let mut text = Vec::new();
        match bytes.take(LONGEST + 1).read_to_end(&mut text) {
            Err(error) if !is_damage(&error) => return Err(error),
            _ => {}
        }
        let mut benchmark = Self::default();
        let key = match benchmark.judge(&text) {
            Ok(key) => key,
            Err(fault) => return Ok(Err(fault)),
        };
        let bytes = Bytes::new(io::Cursor::new(text))?;
        Ok(Ok((Elements::new(bytes, Entries::Under(key)), benchmark)))
    }

    /// The key under which the iterations stand.
    fn judge(&mut self, text: &[u8]) -> Result<&'static str> {
        if text.len() as u64 > LONGEST {
            return Err(Error::metrics("malformed", "", "longer than any benchmark is"));
        }
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let document: Document = from_json(text, |path, message| {
            json_fault("malformed", path, &format!("the benchmark is no whole document: {message}"))
        })?;
        let version = document.schema_version.as_ref().and_then(Scalar::number);
        if version != Some(SCHEMA_VERSION as f64) {
            let found = version.map_or_else(|| "absent".to_owned(), |version| version.to_string());
            return Err(Error::metrics(
                "unsupported_version",
                "schema_version",
                format!("{found}, and only {SCHEMA_VERSION} is known"),
            ));
        }
        if document.timing_valid.as_ref().and_then(Scalar::flag) == Some(false) {
            return Err(Error::metrics(
                "invalid_timing",
                "timing_valid",
                "false: the benchmark itself says that its times are no measurements",
            ));
        }
        if document.valid.as_ref().and_then(Scalar::flag) == Some(false) {
            let status = document.status.and_then(Scalar::name).unwrap_or_default();
            self.notices.once("valid", || {
                format!("the benchmark says that it is not valid (status `{status}`)")
            });
        }
        match (document.iteration_groups, document.results) {
            (Some(groups), _) if !groups.is_empty() => Ok("iteration_groups"),
            (_, Some(results)) if !results.is_empty() => Ok("results"),
            _ => Err(Error::metrics(
                "empty",
                "iteration_groups",
                "there is no measurement in iteration_groups or results",
            )),
        }
    }

    fn of_group(group: Group, iteration: &mut Iteration) -> Result<()> {
        if group.complete == Some(false) {
            return Err(Error::metrics(
                "incomplete_iteration",
                "complete",
                "false: the records of some ranks are missing",
            ));
        }
        for (index, rank) in group.rank_results.into_iter().flatten().enumerate() {
            let path = format!("rank_results[{index}].fpms");
            let count = rank.fpms.len();
            let [entry] = <[Entry; 1]>::try_from(rank.fpms).map_err(|_| {
                Error::metrics("malformed", &*path, format!("{count} records, expected one"))
            })?;
            entry.append_to(iteration).map_err(|error| error.within(&format!("{path}[0]")))?;
        }
        let expected = group.expected_dp_ranks.as_ref().and_then(Scalar::size);
        check_ranks(iteration, expected).map_err(|error| error.within("rank_results"))
    }

    /// Records of several ranks are one iteration, those of one rank are several.
    fn of_result(&mut self, entries: Vec<Entry>, iteration: &mut Iteration) -> Result<()> {
        for (index, entry) in entries.into_iter().enumerate() {
            let within = |error: Error| error.within(&format!("fpms[{index}]"));
            entry.append_to(iteration).map_err(within)?;
        }
        if iteration.ranks.iter().all(|rank| rank.dp_rank == 0) {
            for rank in iteration.ranks.drain(1..) {
                let line = iteration.line;
                self.waiting.push_back(Iteration {
                    line,
                    ranks: vec![rank],
                    ..Iteration::default()
                });
            }
        }
        check_ranks(iteration, None).map_err(|error| error.within("fpms"))
    }
}

impl Parser for Benchmark {
    fn is_cut(&mut self, line: &Line) -> bool {
        is_cut_json(line)
    }

    fn parse(&mut self, text: &[u8], iteration: &mut Iteration) -> Result<bool> {
        let fault = |path, message: String| json_fault("malformed", path, &message);
        let mut group: Group = from_json(text, fault)?;
        match (group.rank_results.is_some(), group.fpms.take()) {
            (true, None) => Self::of_group(group, iteration)?,
            (false, Some(entries)) if !entries.is_empty() => self.of_result(entries, iteration)?,
            _ => {
                return Err(Error::metrics(
                    "malformed",
                    "",
                    "expected records in `rank_results` or in `fpms`",
                ));
            }
        }
        Ok(true)
    }

    fn more(&mut self, iteration: &mut Iteration) -> bool {
        let Some(waiting) = self.waiting.pop_front() else {
            return false;
        };
        *iteration = waiting;
        true
    }

    fn notice(&mut self) -> Option<String> {
        self.notices.next()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReadOptions, TraceReader};
    use super::*;

    fn document(body: &str) -> String {
        format!(
            r#"{{"status": "done", "valid": true, "timing_valid": true, "schema_version": 2,
            "grid_digest": "d", "results": [{{"point": {{"batch_size": 9}}, "fpms": [
            {{"wall_time": 0.5, "counter_id": 9}}, {{"wall_time": 0.75, "counter_id": 9}}]}}],
            {body} "engine": {{"iteration_groups": [{{}}]}}}}"#
        )
    }

    const GROUPS: &str = r#""iteration_groups": [
        {"benchmark_id": 1, "expected_dp_ranks": 2, "complete": true, "wall_time": 0.02,
         "rank_results": [{"dp_rank": 0, "fpms": [{"wall_time": 0.02, "dp_rank": 0}]},
                          {"dp_rank": 1, "fpms": [{"wall_time": 0.01, "dp_rank": 1}]}]},
        {"benchmark_id": 2, "complete": false, "rank_results": []}],"#;

    fn read(text: String) -> Result<TraceReader> {
        TraceReader::from_reader("t", io::Cursor::new(text.into_bytes()), &ReadOptions::default())
    }

    #[test]
    fn groups_come_before_results() {
        let mut reader = read(document(GROUPS)).unwrap();
        let iterations: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(iterations.len(), 1);
        assert_eq!(iterations[0].line, 5);
        let times: Vec<_> = iterations[0].ranks.iter().map(|rank| rank.wall_time).collect();
        assert_eq!(times, [0.02, 0.01]);
        assert_eq!(reader.summary().skipped["incomplete_iteration"], 1);
        assert_eq!(reader.summary().rows, 2);
        assert!(reader.summary().faults[0].to_string().starts_with("t:8: complete: "));
    }

    #[test]
    fn without_groups_each_record_of_a_result_is_an_iteration() {
        for body in ["", "\"iteration_groups\": [],"] {
            let mut reader = read(document(body)).unwrap();
            let times: Vec<_> =
                reader.by_ref().map(|found| found.unwrap().ranks[0].wall_time).collect();
            assert_eq!(times, [0.5, 0.75]);
            assert_eq!(reader.summary().rows, 2);
        }
    }

    #[test]
    fn what_the_document_says_of_itself_is_heeded() {
        let good = document(GROUPS);
        for (from, to, code) in [
            ("\"timing_valid\": true", "\"timing_valid\": false", "invalid_timing"),
            ("\"schema_version\": 2", "\"schema_version\": 3", "unsupported_version"),
            ("\"schema_version\": 2,", "", "unsupported_version"),
            ("\"engine\"", "engine", "malformed"),
        ] {
            let error = read(good.replace(from, to)).unwrap_err();
            assert_eq!(error.code(), code);
            assert!(error.to_string().starts_with("t: "), "{error}");
        }
        let mut reader = read(good.replace("\"valid\": true", "\"valid\": false")).unwrap();
        assert!(reader.by_ref().next().is_some());
        assert!(reader.summary().warnings[0].contains("not valid (status `done`)"));
        let error = read(r#"{"schema_version": 2, "grid_digest": "d"}"#.to_owned()).unwrap_err();
        assert_eq!(error.code(), "empty");
        let error = read(good[..good.len() - 40].to_owned()).unwrap_err();
        assert!(error.to_string().contains("no whole document"), "{error}");
    }
}
