//! CSV tables with one iteration of one rank a line.
//!
//! Columns are found by their names, in any order, and unknown ones are ignored. A line is a row:
//! a quoted field does not run over its end, so a stray quote costs one row and not the file.
//! The vLLM layout gives milliseconds (`latency_ms`), which become the seconds of `wall_time` by a
//! division by 1000; a model that reports milliseconds multiplies again, so its number may differ
//! from the file's in the last bit. The TensorRT-LLM layout gives seconds and names no worker.

use std::io::Cursor;

use ::csv::{ByteRecord, Reader, ReaderBuilder, Terminator};

use super::TraceFormat;
use super::columns::{Column, LAYOUTS, Layout};
use crate::error::{Error, Result};
use crate::metrics::ForwardPassMetrics;

/// Reads the lines of one table.
pub(super) struct Table {
    format: TraceFormat,
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
        Ok(Self {
            format: layout.format,
            header: header.to_vec(),
            width: names.len(),
            columns,
            fields,
        })
    }

    pub(super) fn format(&self) -> TraceFormat {
        self.format
    }

    /// Whether the line is the header again, as between tables that were put into one file.
    pub(super) fn is_header(&self, line: &[u8]) -> bool {
        line == self.header
    }

    /// Whether a line that no line feed ends lacks fields, a quote, or the text of its last field.
    pub(super) fn is_cut(&mut self, line: &[u8]) -> bool {
        let Ok(fields) = self.fields.split(line) else {
            return true;
        };
        fields.len() < self.width || fields.iter().next_back().is_some_and(<[u8]>::is_empty)
    }

    /// Reads the only rank of one line.
    pub(super) fn parse(&mut self, line: &[u8], ranks: &mut Vec<ForwardPassMetrics>) -> Result<()> {
        let fields = self.fields.split(line)?;
        if fields.len() != self.width {
            return Err(Error::metrics(
                "malformed",
                "",
                format!("{} fields, where the header has {}", fields.len(), self.width),
            ));
        }
        let mut metrics = ForwardPassMetrics::default();
        for (index, column) in &self.columns {
            let text = fields.get(*index).unwrap_or_default().trim_ascii();
            column.store(text, &mut metrics).map_err(|right| {
                let message = format!("`{}` is not {right}", excerpt(text));
                Error::metrics("malformed", column.name, message)
            })?;
        }
        metrics.check()?;
        ranks.push(metrics);
        Ok(())
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
mod tests {
    use super::*;

    const TRTLLM: &str = "wall_time_s,prefill_tokens,prefill_kv_tokens,prefill_requests,\
                          decode_kv_tokens,decode_requests";
    const VLLM: &str = "phase,worker_id,dp_rank,counter_id,sum_prefill_tokens,\
                        num_prefill_requests,sum_prefill_kv_tokens,num_decode_requests,\
                        sum_decode_kv_tokens,queued_var_decode_kv_tokens,latency_ms";

    fn table(header: &str) -> Table {
        Table::new(header.as_bytes(), None).unwrap()
    }

    fn read(header: &str, line: &str) -> Result<ForwardPassMetrics> {
        let mut ranks = Vec::new();
        table(header).parse(line.as_bytes(), &mut ranks)?;
        assert_eq!(ranks.len(), 1);
        Ok(ranks.remove(0))
    }

    fn fault(header: &str, line: &str) -> (&'static str, String, String) {
        let error = read(header, line).unwrap_err();
        (error.code(), error.path(), error.to_string())
    }

    #[test]
    fn the_vllm_layout_turns_milliseconds_into_seconds() {
        assert_eq!(table(VLLM).format(), TraceFormat::VllmCsv);
        let metrics = read(VLLM, "mixed,7498763828496525645,2,14,128,1,64,3,4096,0.5,17.111");
        let mut expected = ForwardPassMetrics::prefill(1, 128, 64)
            .with_decode(3, 4096)
            .with_wall_time(17.111 / 1000.0);
        expected.worker_id = "7498763828496525645".to_owned();
        expected.dp_rank = 2;
        expected.counter_id = 14;
        expected.queued_requests.var_decode_kv_tokens = 0.5;
        assert_eq!(metrics.unwrap(), expected);
    }

    #[test]
    fn the_trtllm_layout_is_in_seconds_and_names_no_worker() {
        assert_eq!(table(TRTLLM).format(), TraceFormat::TrtllmCsv);
        let metrics = read(TRTLLM, "0.054734,110,259,1,0,0").unwrap();
        let expected = ForwardPassMetrics::prefill(1, 110, 259).with_wall_time(0.054_734);
        assert_eq!(metrics, expected);
    }

    #[test]
    fn columns_are_found_by_name() {
        let header = "note, decode_requests,decode_kv_tokens,prefill_requests,prefill_tokens,\
                      prefill_kv_tokens,\"wall_time_s\"";
        let metrics = read(header, r#""a ""quoted"", b", 2,"50",0,0,0,0.5"#).unwrap();
        assert_eq!(metrics, ForwardPassMetrics::decode(2, 50).with_wall_time(0.5));
    }

    #[test]
    fn a_wrong_field_is_named_with_its_value() {
        for value in ["3.0", "-1", "", "x", "18446744073709551616", "1e3", "true"] {
            let (code, column, message) = fault(TRTLLM, &format!("0.1,1,0,1,5,{value}"));
            assert_eq!((code, &*column), ("malformed", "decode_requests"));
            let right = format!("`{value}` is not a nonnegative integer");
            assert!(message.contains(&right), "{message}");
        }
        for value in ["nan", "NaN", "inf", "-Infinity", "1e400", "", "1,5", "0x1"] {
            let (code, column, _) = fault(TRTLLM, &format!("\"{value}\",1,0,1,0,0"));
            assert_eq!((code, &*column), ("malformed", "wall_time_s"));
        }
    }

    #[test]
    fn an_impossible_duration_is_left_to_the_model() {
        for value in ["0", "-1.5", "1e9"] {
            assert!(read(TRTLLM, &format!("{value},1,0,1,0,0")).is_ok());
        }
    }

    #[test]
    fn a_broken_invariant_keeps_its_own_code() {
        let (code, path, _) = fault(TRTLLM, "0.1,0,0,0,50,0");
        assert_eq!((code, &*path), ("invalid_field", "scheduled_requests.sum_decode_kv_tokens"));
    }

    #[test]
    fn a_row_has_as_many_fields_as_the_header() {
        assert!(fault(TRTLLM, "0.1,0,0,0,0").2.contains("5 fields, where the header has 6"));
        assert!(fault(TRTLLM, "0.1,0,0,0,0,0,0").2.contains("7 fields"));
    }

    #[test]
    fn a_stray_quote_costs_one_row() {
        let mut table = table(TRTLLM);
        let mut ranks = Vec::new();
        let error = table.parse(b"\"0.1,1,0,1,0,0", &mut ranks).unwrap_err();
        assert!(error.to_string().contains("quote"), "{error}");
        table.parse(b"0.1,1,0,1,0,0", &mut ranks).unwrap();
        assert_eq!(ranks.len(), 1);
    }

    #[test]
    fn a_header_that_is_no_header_is_told_what_would_be_right() {
        let fault = |header: &str, wanted| {
            let error = Table::new(header.as_bytes(), wanted).err().unwrap();
            (error.code(), error.to_string())
        };
        let (code, message) = fault("time,tokens", None);
        assert_eq!(code, "unknown_format");
        for word in ["`time,tokens`", "latency_ms", "vllm_csv", "wall_time_s", "trtllm_csv"] {
            assert!(message.contains(word), "{message}");
        }
        let (code, message) = fault("latency_ms,num_prefill_requests,sum_prefill_tokens", None);
        assert_eq!(code, "missing_column");
        assert!(message.contains("`sum_prefill_kv_tokens`, `num_decode_requests`"), "{message}");
        assert_eq!(fault(TRTLLM, Some(TraceFormat::VllmCsv)).0, "unknown_format");
        assert_eq!(fault(&format!("{TRTLLM},wall_time_s"), None).0, "duplicate_column");
    }

    #[test]
    fn a_cut_row_is_told_from_a_wrong_one() {
        let mut table = table(TRTLLM);
        for (line, cut) in [
            ("0.1,1,0,1,0", true),
            ("0.1,1,0,1,0,", true),
            ("0.1,1,0,1,0,\"0", true),
            ("0.1,1,0,1,0,0", false),
            ("0.1,1,0,1,0,x", false),
        ] {
            assert_eq!(table.is_cut(line.as_bytes()), cut, "{line}");
        }
    }
}
