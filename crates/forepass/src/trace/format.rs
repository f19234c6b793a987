//! Which formats there are, and how one is told from the content of a trace.

use std::io;

use super::bytes::Bytes;
use super::csv::Table;
use super::log;
use crate::error::{Error, Result};

/// How a trace is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TraceFormat {
    /// One JSON object or list of rank records a line.
    FpmJsonl,
    /// One JSON list of iterations, each a list of the records of all ranks.
    FpmGroups,
    /// The JSON document that an engine's benchmark of itself leaves.
    FpmBenchmark,
    /// A table of vLLM steps with durations in milliseconds, one rank a line.
    VllmCsv,
    /// A table of TensorRT-LLM iterations with durations in seconds, one rank a line.
    TrtllmCsv,
    /// A table of measured batches of one phase each, with durations in milliseconds.
    RecordsCsv,
    /// JSON objects of TensorRT-LLM iteration statistics, on lines or in lists.
    TrtllmStats,
    /// A log of TensorRT-LLM with its lines of iterations.
    TrtllmLog,
    /// A log of vLLM with its lines of iteration details.
    VllmLog,
    /// A log of SGLang with its lines of batches.
    SglangLog,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: [Self; 10] = [
        Self::FpmJsonl,
        Self::FpmGroups,
        Self::FpmBenchmark,
        Self::VllmCsv,
        Self::TrtllmCsv,
        Self::RecordsCsv,
        Self::TrtllmStats,
        Self::TrtllmLog,
        Self::VllmLog,
        Self::SglangLog,
    ];

    /// The stable name: `fpm_jsonl`, `trtllm_stats`, ...
    pub fn name(self) -> &'static str {
        match self {
            Self::FpmJsonl => "fpm_jsonl",
            Self::FpmGroups => "fpm_groups",
            Self::FpmBenchmark => "fpm_benchmark",
            Self::VllmCsv => "vllm_csv",
            Self::TrtllmCsv => "trtllm_csv",
            Self::RecordsCsv => "records_csv",
            Self::TrtllmStats => "trtllm_stats",
            Self::TrtllmLog => "trtllm_log",
            Self::VllmLog => "vllm_log",
            Self::SglangLog => "sglang_log",
        }
    }

    pub(super) fn is_table(self) -> bool {
        matches!(self, Self::VllmCsv | Self::TrtllmCsv | Self::RecordsCsv)
    }
}

/// How much of a JSON document is looked at for what tells its format.
const JSON_HEAD: usize = 64 << 10;

/// How much of a log is looked at for the first line that tells its format.
const LOG_HEAD: usize = 4 << 20;

/// What the start of a trace shows.
pub(super) enum Detected {
    Format(TraceFormat),
    /// There is no text before the end, or before compressed data break.
    Nothing,
}

/// Tells the format from the content, which stays unread.
///
/// # Errors
/// The outer one of the device, the inner one that the content is of no known format.
pub(super) fn detect(bytes: &mut Bytes) -> io::Result<Result<Detected>> {
    let mut count = 1 << 10;
    loop {
        let text = bytes.peek(count)?;
        let whole = text.len() < count;
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
        if let Some(judged) = judge(text, whole) {
            return Ok(judged);
        }
        count *= 2;
    }
}

/// The verdict on the start of a text; `None` where more of it is needed.
fn judge(text: &[u8], whole: bool) -> Option<Result<Detected>> {
    let format = |format| Some(Ok(Detected::Format(format)));
    if text.is_empty() {
        return if whole { Some(Ok(Detected::Nothing)) } else { None };
    }
    let line_end = text.iter().position(|&byte| byte == b'\n');
    let enough = whole || text.len() >= JSON_HEAD;
    let line = match line_end {
        Some(end) => text[..end].trim_ascii_end(),
        None if enough => text.trim_ascii_end(),
        None => return None,
    };
    if text.starts_with(b"PAR1") {
        return Some(Err(Error::metrics(
            "unknown_format",
            "",
            "a Parquet file: the forepass command and the Python package read it",
        )));
    }
    if starts_json(line) {
        return match of_json(text, line, line_end.is_some()) {
            Some(found) => format(found),
            None if enough => format(TraceFormat::FpmJsonl),
            None => None,
        };
    }
    match Table::new(line, None) {
        Ok(table) => return format(table.format()),
        Err(fault) if fault.code() != "unknown_format" => return Some(Err(fault)),
        Err(_) => {}
    }
    // The last line may lack its end, and with it what tells.
    let mut lines = text.split(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        if let Some(found) = log::format_of(line).filter(|_| whole || lines.peek().is_some()) {
            return format(found);
        }
    }
    if whole || text.len() >= LOG_HEAD {
        return Table::new(line, None).err().map(Err);
    }
    None
}

/// Whether the line is JSON and not the start of a log, whose lines may open with a bracket too.
fn starts_json(line: &[u8]) -> bool {
    match line {
        [b'{', ..] => true,
        [b'[', rest @ ..] => matches!(rest.trim_ascii_start(), [] | [b'{' | b'[' | b']', ..]),
        _ => false,
    }
}

/// The format of JSON text by the keys that stand in it; `None` where none of them does yet.
fn of_json(text: &[u8], line: &[u8], line_is_whole: bool) -> Option<TraceFormat> {
    let mut opening = text;
    // Statistics that were polled while there were none leave empty lists.
    while let Some(rest) = opening.strip_prefix(b"[") {
        opening = match rest.trim_ascii_start() {
            [b']', rest @ ..] => rest.trim_ascii_start(),
            [b'[', ..] => return Some(TraceFormat::FpmGroups),
            _ => break,
        };
    }
    let has = |text: &[u8], key: &str| {
        let key = format!("\"{key}\"");
        text.windows(key.len()).any(|window| window == key.as_bytes())
    };
    let any = |text: &[u8], keys: &[&str]| keys.iter().any(|key| has(text, key));
    let is_one_value = line_is_whole
        && !line.starts_with(b"[]")
        && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
    let judged = if is_one_value { line } else { text };
    if any(
        judged,
        &["inflightBatchingStats", "staticBatchingStats", "iterLatencyMS", "gpuForwardTimeMS"],
    ) {
        Some(TraceFormat::TrtllmStats)
    } else if any(judged, &["iteration_groups", "grid_digest", "warmup_evidence"]) {
        Some(TraceFormat::FpmBenchmark)
    } else if is_one_value {
        Some(TraceFormat::FpmJsonl)
    } else {
        None
    }
}
