//! CSV tables with one iteration of one rank a line.
//!
//! Columns are found by their names, in any order, and unknown ones are ignored. A line is a row:
//! a quoted field does not run over its end, so a stray quote costs one row and not the file.
//! The vLLM layout gives milliseconds (`latency_ms`), which become the seconds of `wall_time` by a
//! division by 1000; a model that reports milliseconds multiplies again, so its number may differ
//! from the file's in the last bit. The TensorRT-LLM layout gives seconds and names no worker.

use std::io::Cursor;

use ::csv::{ByteRecord, Reader, ReaderBuilder, Terminator};

use super::columns::{Column, LAYOUTS, Layout, Row};
use super::lines::{Line, LineEnd};
use super::parser::Parser;
use super::{Iteration, TraceFormat};
use crate::error::{Error, Result};

/// Reads the lines of one table.
pub(super) struct Table {
    layout: &'static Layout,
    header: Vec<u8>,
    width: usize,
    /// Index of each known column.
    columns: Vec<(usize, &'static Column)>,
    fields: Fields,
}

impl Table {
    /// The table with this header line, of the wanted format or else of the one that fits.
    pub(super) fn new(header: &[u8], wanted: Option<TraceFormat>) -> Result<Self> {
        let mut fields = Fields::new();
        let names: Vec<String> = fields
            .split(header)
            .map_err(|_| unknown(header))?
            .iter()
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned())
            .collect();
        let (layout, missing) = closest(&names, wanted).ok_or_else(|| unknown(header))?;
        if !missing.is_empty() {
            return Err(Error::metrics(
                "missing_column",
                "",
                format!(
                    "the header has no column `{}`, which {} needs",
                    missing.join("`, `"),
                    layout.format.name()
                ),
            ));
        }
        let mut columns = Vec::new();
        for column in layout.columns {
            let mut places = (0..names.len()).filter(|&index| names[index] == column.name);
            columns.extend(places.next().map(|index| (index, column)));
            if places.next().is_some() {
                return Err(Error::metrics(
                    "duplicate_column",
                    column.name,
                    "the header names this column twice",
                ));
            }
        }
        Ok(Self { layout, header: header.to_vec(), width: names.len(), columns, fields })
    }

    pub(super) fn format(&self) -> TraceFormat {
        self.layout.format
    }

    /// A warning for a last row that no line feed ends: it may have lost part of its last field.
    pub(super) const LAST_ROW: &'static str =
        "no line feed ends the last row: its last field may be cut";
}

impl Parser for Table {
    /// All but the header again, as between tables that were put into one file.
    fn is_record(&mut self, line: &[u8]) -> bool {
        line != self.header
    }

    /// Whether a line that no line feed ends lacks fields, a quote, or the text of its last field.
    fn is_cut(&mut self, line: &Line) -> bool {
        if line.end != LineEnd::EndOfText {
            return line.end == LineEnd::Break;
        }
        let Ok(fields) = self.fields.split(line.text) else {
            return true;
        };
        fields.len() < self.width || fields.iter().next_back().is_some_and(<[u8]>::is_empty)
    }

    /// Reads the only rank of one line.
    fn parse(&mut self, line: &[u8], iteration: &mut Iteration) -> Result<bool> {
        let fields = self.fields.split(line)?;
        if fields.len() != self.width {
            return Err(Error::metrics(
                "malformed",
                "",
                format!("{} fields, where the header has {}", fields.len(), self.width),
            ));
        }
        let mut row = Row::default();
        for (index, column) in &self.columns {
            let text = fields.get(*index).unwrap_or_default().trim_ascii();
            column.store(text, &mut row).map_err(|right| {
                let message = format!("`{}` is not {right}", excerpt(text));
                Error::metrics("malformed", column.name, message)
            })?;
        }
        let metrics = row.into_metrics();
        metrics.check()?;
        iteration.ranks.push(metrics);
        Ok(true)
    }
}

/// The layout that misses fewest of its required columns, and those; `None` if no name fits.
fn closest(
    names: &[String],
    wanted: Option<TraceFormat>,
) -> Option<(&'static Layout, Vec<&'static str>)> {
    LAYOUTS
        .iter()
        .filter(|layout| wanted.is_none_or(|format| format == layout.format))
        .map(|layout| {
            let missing = layout.required().filter(|name| !names.iter().any(|n| n == name));
            (layout, missing.collect::<Vec<_>>())
        })
        .filter(|(layout, missing)| missing.len() < layout.required().count())
        .min_by_key(|(_, missing)| missing.len())
}

fn unknown(header: &[u8]) -> Error {
    let layouts = LAYOUTS.iter().map(|layout| {
        let columns: Vec<_> = layout.required().collect();
        format!("{} ({})", columns.join(", "), layout.format.name())
    });
    let layouts: Vec<_> = layouts.collect();
    Error::metrics(
        "unknown_format",
        "",
        format!(
            "`{}` is not the start of a trace: JSON lines start with {{ or [, and a CSV header \
             names the columns {}",
            excerpt(header),
            layouts.join(" or ")
        ),
    )
}

/// The start of a text that may be long or binary.
fn excerpt(text: &[u8]) -> String {
    const LONGEST: usize = 60;
    let start = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]);
    let more = if text.len() > LONGEST { "..." } else { "" };
    format!("{}{more}", start.escape_debug())
}

/// Splits one line after the other into its fields.
struct Fields {
    reader: Reader<Cursor<Vec<u8>>>,
    record: ByteRecord,
}

impl Fields {
    fn new() -> Self {
        Self {
            reader: ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                .terminator(Terminator::Any(b'\n'))
                .from_reader(Cursor::default()),
            record: ByteRecord::new(),
        }
    }

    fn split(&mut self, line: &[u8]) -> Result<&ByteRecord> {
        let input = self.reader.get_mut();
        input.get_mut().clear();
        input.get_mut().extend_from_slice(line);
        input.get_mut().push(b'\n');
        input.set_position(0);
        let read = self.reader.read_byte_record(&mut self.record);
        // Only an open quote makes the line feed part of a field.
        let last = self.record.iter().next_back().unwrap_or_default();
        if !matches!(read, Ok(true)) || last.ends_with(b"\n") {
            *self = Self::new();
            return Err(Error::metrics("malformed", "", "a quote is left open"));
        }
        Ok(&self.record)
    }
}

#[cfg(test)]
mod tests;
