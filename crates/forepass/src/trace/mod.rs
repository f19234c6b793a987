//! Reading recorded traces: files of forward-pass records, whatever wrote them, as iterations.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

mod columns;
mod csv;
mod jsonl;
mod lines;
mod summary;

pub use summary::ReadSummary;

use self::csv::Table;
use self::lines::{Line, LineEnd, Lines};
use crate::error::{Error, Result};
use crate::metrics::ForwardPassMetrics;

/// How a trace is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TraceFormat {
    /// One JSON object or list of rank records a line.
    FpmJsonl,
    /// A table of vLLM steps with durations in milliseconds, one rank a line.
    VllmCsv,
    /// A table of TensorRT-LLM iterations with durations in seconds, one rank a line.
    TrtllmCsv,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::FpmJsonl, Self::VllmCsv, Self::TrtllmCsv];

    /// The stable name: `fpm_jsonl`, `vllm_csv` or `trtllm_csv`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FpmJsonl => "fpm_jsonl",
            Self::VllmCsv => "vllm_csv",
            Self::TrtllmCsv => "trtllm_csv",
        }
    }
}

/// One engine step: the records of all its ranks, and where they stood.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Iteration {
    /// Index among the iterations of the trace, idle ones included, from 0.
    pub row: u64,
    /// Line in the uncompressed text, from 1.
    pub line: u64,
    /// The records; at least one, each of which passes [`ForwardPassMetrics::check`].
    pub ranks: Vec<ForwardPassMetrics>,
}

impl Iteration {
    /// The worker that ran the step, empty where the trace names none.
    pub fn worker_id(&self) -> &str {
        self.ranks.first().map_or("", |rank| &rank.worker_id)
    }
}

/// How to read a trace.
///
/// | option | default | meaning |
/// |---|---|---|
/// | `strict` | false | whether a bad line is an error instead of being skipped and counted |
/// | `format` | none | the format, where it is not to be told from the content |
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Whether a bad line is an error instead of being skipped and counted.
    pub strict: bool,
    /// The format, where it is not to be told from the content.
    pub format: Option<TraceFormat>,
}

impl ReadOptions {
    /// The same options, with this strictness.
    #[must_use]
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// The same options, for this format.
    #[must_use]
    pub fn with_format(mut self, format: TraceFormat) -> Self {
        self.format = Some(format);
        self
    }
}

/// Reads a trace, compressed with gzip or not, one iteration at a time.
///
/// A line that is no valid record is skipped, counted and kept among the faults of the
/// [`ReadSummary`]; with `strict` it is an error, after which reading can go on. A trace that ends
/// inside a line, or whose compressed data break off or are damaged, ends there with a warning in
/// both cases: that is how a producer leaves its file when it is killed. A cut line counts as
/// `truncated`.
///
/// ```
/// use forepass::trace::{ReadOptions, TraceReader};
///
/// let text = r#"{"wall_time": 0.009, "num_decode_requests": 1, "sum_decode_kv_tokens": 4096}"#;
/// let trace = TraceReader::from_reader("steps", text.as_bytes(), &ReadOptions::default())?;
/// for iteration in trace {
///     assert_eq!(iteration?.ranks[0].wall_time, 0.009);
/// }
/// # Ok::<(), forepass::Error>(())
/// ```
pub struct TraceReader {
    name: String,
    strict: bool,
    lines: Lines,
    /// Nothing, where compressed data break off before the format can be told.
    parser: Option<Parser>,
    summary: ReadSummary,
    ranks: RanksApart,
}

impl TraceReader {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be read, is a directory, is empty, or is not a trace.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        // A name that is not Unicode is escaped, so that two of them stay apart.
        let name =
            path.to_str().map_or_else(|| format!("{:?}", path.as_os_str()), ToOwned::to_owned);
        if path.is_dir() {
            return Err(Error::trace(
                "is_a_directory",
                name,
                None,
                "this is a directory: name the trace files in it",
            ));
        }
        match File::open(path) {
            Ok(file) => Self::from_reader(name, file, options),
            Err(error) => Err(unreadable(&name, &error)),
        }
    }

    /// Reads from what `name` stands for in messages.
    ///
    /// # Errors
    /// The input cannot be read, is empty, or is not a trace.
    pub fn from_reader(
        name: impl Into<String>,
        input: impl Read + Send + 'static,
        options: &ReadOptions,
    ) -> Result<Self> {
        let name = name.into();
        let mut lines = Lines::new(input).map_err(|error| unreadable(&name, &error))?;
        let parser = Parser::detect(&mut lines, &name, options.format)?;
        Ok(Self {
            name,
            strict: options.strict,
            lines,
            parser,
            summary: ReadSummary::default(),
            ranks: RanksApart::default(),
        })
    }

    /// The format; `None` where compressed data break off before it can be told.
    pub fn format(&self) -> Option<TraceFormat> {
        self.parser.as_ref().map(Parser::format)
    }

    /// The trace as it is named in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the file read so far, before decompression.
    pub fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }

    /// What was read so far.
    pub fn summary(&self) -> &ReadSummary {
        &self.summary
    }

    /// Reads the next iteration into `iteration`, whose buffers are used again.
    ///
    /// Returns false at the end. Then, and after an error, there are no ranks in `iteration`.
    ///
    /// # Errors
    /// The input fails, or a line is bad and the reader is strict.
    pub fn read_into(&mut self, iteration: &mut Iteration) -> Result<bool> {
        iteration.ranks.clear();
        while let Some(line) = next_line(&mut self.lines, &self.name)? {
            let Some(parser) = &mut self.parser else {
                break;
            };
            if parser.is_header(line.text) {
                continue;
            }
            self.summary.rows += 1;
            if parser.is_cut(&line) {
                let what = "the trace ends inside this record";
                let fault = Error::trace("truncated", &*self.name, Some(line.number), what);
                self.summary.warn(fault.to_string());
                self.summary.skip(&fault);
            } else if let Err(fault) = parser.parse(line.text, &mut iteration.ranks) {
                let fault = located(&fault, &self.name, line.number);
                self.summary.skip(&fault);
                iteration.ranks.clear();
                if self.strict {
                    return Err(fault);
                }
            } else {
                iteration.row = self.summary.iterations;
                iteration.line = line.number;
                self.summary.iterations += 1;
                if line.end == LineEnd::EndOfText && parser.format() != TraceFormat::FpmJsonl {
                    self.summary.warn(format!(
                        "{}:{}: no line feed ends the last row: its last field may be cut",
                        self.name, line.number
                    ));
                }
                if self.ranks.notice(&iteration.ranks) {
                    self.summary.warn(format!(
                        "{}:{}: worker `{}` has several ranks, each on lines of its own: they are \
                         not joined, and each record counts as an iteration",
                        self.name,
                        line.number,
                        iteration.worker_id()
                    ));
                }
                return Ok(true);
            }
        }
        if let Some(reason) = self.lines.broken.take() {
            self.summary.warn(format!(
                "{}: the compressed data break off at line {} ({reason})",
                self.name,
                self.lines.number()
            ));
        }
        Ok(false)
    }
}

impl Iterator for TraceReader {
    type Item = Result<Iteration>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut iteration = Iteration::default();
        match self.read_into(&mut iteration) {
            Ok(true) => Some(Ok(iteration)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("TraceReader")
            .field("name", &self.name)
            .field("format", &self.format())
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

/// What makes ranks of a line.
enum Parser {
    Json,
    Table(Box<Table>),
}

impl Parser {
    /// The parser of the wanted format, or else of the one that the first line shows.
    fn detect(lines: &mut Lines, name: &str, wanted: Option<TraceFormat>) -> Result<Option<Self>> {
        let Some(line) = next_line(lines, name)? else {
            return if lines.broken.is_some() {
                Ok(None)
            } else {
                Err(Error::trace("empty", name, None, "there is no record in it"))
            };
        };
        let json = match wanted {
            Some(format) => format == TraceFormat::FpmJsonl,
            None => line.text.starts_with(b"{") || line.text.starts_with(b"["),
        };
        if json {
            lines.give_back();
            return Ok(Some(Self::Json));
        }
        match Table::new(line.text, wanted) {
            Ok(table) => Ok(Some(Self::Table(Box::new(table)))),
            Err(_) if line.end == LineEnd::Break => Ok(None),
            Err(fault) => Err(located(&fault, name, line.number)),
        }
    }

    fn format(&self) -> TraceFormat {
        match self {
            Self::Json => TraceFormat::FpmJsonl,
            Self::Table(table) => table.format(),
        }
    }

    fn is_header(&self, line: &[u8]) -> bool {
        match self {
            Self::Json => false,
            Self::Table(table) => table.is_header(line),
        }
    }

    /// Whether the line is the last one and may have lost its end.
    fn is_cut(&mut self, line: &Line) -> bool {
        line.end != LineEnd::Newline
            && match self {
                Self::Json => jsonl::is_cut(line.text),
                Self::Table(table) => line.end == LineEnd::Break || table.is_cut(line.text),
            }
    }

    fn parse(&mut self, line: &[u8], ranks: &mut Vec<ForwardPassMetrics>) -> Result<()> {
        match self {
            Self::Json => jsonl::parse(line, ranks),
            Self::Table(table) => table.parse(line, ranks),
        }
    }
}

/// Notices workers whose ranks stand on lines of their own.
///
/// The counters of the ranks drift apart, so nothing in such a trace tells which records belong to
/// one iteration.
#[derive(Default)]
struct RanksApart {
    rank_of: BTreeMap<String, u32>,
    noticed: bool,
}

impl RanksApart {
    /// True for the first line that shows it.
    fn notice(&mut self, ranks: &[ForwardPassMetrics]) -> bool {
        let [rank] = ranks else { return false };
        if self.noticed {
            return false;
        }
        match self.rank_of.get(&rank.worker_id) {
            Some(known) => self.noticed = *known != rank.dp_rank,
            None => {
                self.rank_of.insert(rank.worker_id.clone(), rank.dp_rank);
            }
        }
        self.noticed
    }
}

fn next_line<'a>(lines: &'a mut Lines, name: &str) -> Result<Option<Line<'a>>> {
    lines.next().map_err(|error| unreadable(name, &error))
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::trace("unreadable", name, None, format!("cannot be read: {error}"))
}

/// The fault of a record, seen from its file.
fn located(fault: &Error, name: &str, line: u64) -> Error {
    Error::trace(fault.code(), name, Some(line), fault.to_string())
}

#[cfg(test)]
mod tests;
