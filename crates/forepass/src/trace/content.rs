//! One file of a trace, opened: its records and what reads them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::benchmark::Benchmark;
use super::bytes::Bytes;
use super::csv::Table;
use super::elements::{Elements, Entries};
use super::format::{Detected, detect};
use super::jsonl::{FpmGroups, FpmJsonl};
use super::lines::{Line, LineEnd, Lines};
use super::log::{SglangLog, TrtllmLog, VllmLog};
use super::parser::Parser;
use super::trtllm_stats::TrtllmStats;
use super::{ReadOptions, TraceFormat};
use crate::error::{Error, Result};

/// One file, opened.
pub(super) struct Content {
    pub(super) file: String,
    pub(super) records: Records,
    /// Nothing, where compressed data break off before the format can be told.
    pub(super) parser: Option<(TraceFormat, Box<dyn Parser>)>,
    /// Whether the records are all read, and only what they left over is to come.
    pub(super) finishing: bool,
    /// Whether a record is cut, with whatever was to come behind it.
    pub(super) cut: bool,
}

pub(super) enum Records {
    Lines(Lines),
    Entries(Box<Elements>),
}

impl Content {
    pub(super) fn open(path: &Path, file: String, options: &ReadOptions) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::trace(
                "is_a_directory",
                file,
                None,
                "this is a directory: name the trace files in it",
            ));
        }
        match File::open(path) {
            Ok(input) => Self::new(file, input, options),
            Err(error) => Err(unreadable(&file, &error)),
        }
    }

    /// What stands for a file without content.
    pub(super) fn nothing(file: String) -> Self {
        let bytes = Bytes::empty();
        Self {
            file,
            records: Records::Lines(Lines::new(bytes)),
            parser: None,
            finishing: true,
            cut: false,
        }
    }

    pub(super) fn new(
        file: String,
        input: impl Read + Send + 'static,
        options: &ReadOptions,
    ) -> Result<Self> {
        let failed = |error: io::Error| unreadable(&file, &error);
        let mut bytes = Bytes::new(input).map_err(failed)?;
        let mut broken = None;
        let format = loop {
            if let Some(format) = options.format {
                break Some(format);
            }
            let detected = detect(&mut bytes).map_err(failed)?;
            if let Ok(Detected::Format(format)) = detected {
                break Some(format);
            }
            // Behind damage there may be members that show what this is.
            if let Some(reason) = bytes.skip_break() {
                broken = Some(reason);
            } else if broken.is_some() {
                break None;
            } else {
                return Err(match detected {
                    Err(fault) => located(&fault, &file, 1, None),
                    Ok(_) => Error::trace("empty", file, None, "there is no record in it"),
                });
            }
        };
        let (mut records, parser) = match format {
            Some(format) => Self::parser_of(&file, format, bytes)?,
            None => (Records::Lines(Lines::new(bytes)), None),
        };
        records.set_break(broken);
        let parser = format.zip(parser);
        Ok(Self { file, records, parser, finishing: false, cut: false })
    }

    fn parser_of(
        file: &str,
        format: TraceFormat,
        bytes: Bytes,
    ) -> Result<(Records, Option<Box<dyn Parser>>)> {
        let entries = |bytes, entries| Records::Entries(Box::new(Elements::new(bytes, entries)));
        let (records, parser): (_, Box<dyn Parser>) = match format {
            TraceFormat::FpmJsonl => (Records::Lines(Lines::new(bytes)), Box::new(FpmJsonl)),
            TraceFormat::FpmGroups => (entries(bytes, Entries::Lists), Box::new(FpmGroups)),
            TraceFormat::FpmBenchmark => {
                let opened = Benchmark::open(bytes).map_err(|error| unreadable(file, &error))?;
                let (elements, benchmark) = opened
                    .map_err(|fault| Error::trace(fault.code(), file, None, fault.to_string()))?;
                (Records::Entries(Box::new(elements)), Box::new(benchmark))
            }
            TraceFormat::TrtllmStats => {
                (entries(bytes, Entries::Objects), Box::new(TrtllmStats::default()))
            }
            TraceFormat::TrtllmLog => {
                (Records::Lines(Lines::new(bytes)), Box::new(TrtllmLog::new()))
            }
            TraceFormat::VllmLog => (Records::Lines(Lines::new(bytes)), Box::new(VllmLog::new())),
            TraceFormat::SglangLog => {
                (Records::Lines(Lines::new(bytes)), Box::new(SglangLog::new()))
            }
            TraceFormat::VllmCsv | TraceFormat::TrtllmCsv | TraceFormat::RecordsCsv => {
                return Self::table(file, format, Lines::new(bytes));
            }
        };
        Ok((records, Some(parser)))
    }

    /// The lines of a table behind its header, which may be cut away with all that follows.
    fn table(
        file: &str,
        format: TraceFormat,
        mut lines: Lines,
    ) -> Result<(Records, Option<Box<dyn Parser>>)> {
        loop {
            let line = lines.next().map_err(|error| unreadable(file, &error))?;
            let Some(line) = line else {
                if lines.broken.is_some() {
                    return Ok((Records::Lines(lines), None));
                }
                return Err(Error::trace("empty", file, None, "there is no record in it"));
            };
            if line.text.is_empty() {
                continue;
            }
            match Table::new(line.text, Some(format)) {
                Ok(table) => return Ok((Records::Lines(lines), Some(Box::new(table)))),
                Err(_) if line.end == LineEnd::Break => {}
                Err(fault) => return Err(located(&fault, file, line.number, None)),
            }
        }
    }

    pub(super) fn format(&self) -> Option<TraceFormat> {
        self.parser.as_ref().map(|(format, _)| *format)
    }
}

impl Records {
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Entries(entries) => entries.next(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.number(),
            Self::Entries(entries) => entries.number(),
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.bytes_read(),
            Self::Entries(entries) => entries.bytes_read(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Entries(entries) if entries.is_open())
    }

    pub(super) fn take_break(&mut self) -> Option<String> {
        match self {
            Self::Lines(lines) => lines.broken.take(),
            Self::Entries(entries) => entries.broken.take(),
        }
    }

    fn set_break(&mut self, reason: Option<String>) {
        match self {
            Self::Lines(lines) => lines.broken = reason.or(lines.broken.take()),
            Self::Entries(entries) => entries.broken = reason.or(entries.broken.take()),
        }
    }
}

pub(super) fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::trace("unreadable", name, None, format!("cannot be read: {error}"))
}

/// The fault of a record that starts at a line, seen from its file.
pub(super) fn located(fault: &Error, name: &str, line: u64, entry: Option<u64>) -> Error {
    let message = fault.to_string();
    let (line, message) = match within(&message) {
        Some((above, message)) => (line + above, message),
        None => (line, message),
    };
    let message = format!("{}{message}", entry_name(entry));
    Error::trace(fault.code(), name, Some(line), message)
}

/// What a message says of an entry whose line does not tell which it is; nothing elsewhere.
pub(super) fn entry_name(entry: Option<u64>) -> String {
    entry.map_or_else(String::new, |entry| format!("entry {entry}: "))
}

/// Of a message about a record of several lines: the lines above the place, and it without them.
fn within(message: &str) -> Option<(u64, String)> {
    let (what, place) = message.rsplit_once(" at line ")?;
    let (line, column) = place.split_once(" column ")?;
    Some((line.parse::<u64>().ok()?.saturating_sub(1), format!("{what} at column {column}")))
}
