//! Reads a trace file by file, record by record, and keeps the account of it.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::content::{Content, entry_name, located, unreadable};
use super::csv::Table;
use super::join::{Join, Joined};
use super::lines::LineEnd;
use super::source::{TraceSource, shown};
use super::streams::Streams;
use super::{Iteration, ReadOptions, ReadSummary, TraceFormat};
use crate::error::{Error, Result};
use crate::progress::Progress;

/// Reads a trace, compressed with gzip or not, one iteration at a time.
///
/// A record that is not valid is skipped, counted and kept among the faults of the
/// [`ReadSummary`]; with `strict` it is an error, after which reading can go on. A trace that ends
/// inside a record ends there in both cases, and the cut record counts as `truncated`: that is how a
/// producer leaves its file when it is killed, or has it while it writes. Where compressed data are
/// damaged, that is told, and reading goes on with the next gzip member.
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
    options: ReadOptions,
    /// What is read after the present file.
    files: VecDeque<PathBuf>,
    present: Content,
    format: Option<TraceFormat>,
    summary: ReadSummary,
    /// Which entry of its document the latest record is, where its line does not tell that.
    entry: Option<u64>,
    streams: Streams,
    join: Option<Join>,
    /// Bytes of the files that are read to their ends, and of all that progress knows of.
    closed_bytes: u64,
    reported: u64,
}

/// What is told of a place where compressed data break off.
const GOES_ON: &str = ": what is lost there is not known, and reading goes on with the next gzip \
                       member, if there is one";

/// What came of a step.
enum Step {
    Iteration,
    Nothing,
    End,
}

impl TraceReader {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be read, is a directory, is empty, or is not a trace.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        Self::open_source(&TraceSource::file(path), options)
    }

    /// Opens a trace that may stand in several files, which are read one after the other.
    ///
    /// # Errors
    /// The first file cannot be read, is a directory, is empty, or is not a trace.
    pub fn open_source(source: &TraceSource, options: &ReadOptions) -> Result<Self> {
        let mut files: VecDeque<PathBuf> = source.files.iter().cloned().collect();
        let Some(first) = files.pop_front() else {
            return Err(Error::trace("empty", &*source.name, None, "there is no file in it"));
        };
        let file = if files.is_empty() { source.name.clone() } else { shown(&first) };
        let present = Content::open(&first, file, options)?;
        let mut reader = Self::new(source.name.clone(), files, present, options);
        for warning in &source.warnings {
            reader.summary.warn(warning.clone());
        }
        Ok(reader)
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
        let present = Content::new(name.clone(), input, options)?;
        Ok(Self::new(name, VecDeque::new(), present, options))
    }

    fn new(
        name: String,
        files: VecDeque<PathBuf>,
        present: Content,
        options: &ReadOptions,
    ) -> Self {
        Self {
            name,
            files,
            format: present.format(),
            present,
            summary: ReadSummary::default(),
            entry: None,
            streams: Streams::default(),
            join: options.join_ranks.map(|ranks| Join::new(ranks as usize)),
            options: options.clone(),
            closed_bytes: 0,
            reported: 0,
        }
    }

    /// The format; `None` where compressed data break off before it can be told.
    pub fn format(&self) -> Option<TraceFormat> {
        self.format
    }

    /// The trace as it is named in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that is being read: the trace itself, unless it stands in several files.
    pub fn file(&self) -> &str {
        &self.present.file
    }

    /// Bytes of the files read so far, before decompression.
    pub fn bytes_read(&self) -> u64 {
        self.closed_bytes + self.present.records.bytes_read()
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
    /// The input fails, or a record is bad and the reader is strict.
    pub fn read_into(&mut self, iteration: &mut Iteration) -> Result<bool> {
        self.read_watched(iteration, &Progress::default())
    }

    /// As [`read_into`](Self::read_into), while someone watches, who may ask to stop.
    ///
    /// # Errors
    /// The same, and that the reading was asked to stop, which it is while it skips, too.
    pub fn read_watched(&mut self, iteration: &mut Iteration, progress: &Progress) -> Result<bool> {
        loop {
            let bytes = self.bytes_read();
            if bytes != self.reported {
                progress.advance(bytes - self.reported)?;
                self.reported = bytes;
            }
            iteration.clear();
            match self.step(iteration) {
                Ok(Step::Iteration) => return Ok(true),
                Ok(Step::Nothing) => {}
                Ok(Step::End) => {
                    iteration.clear();
                    return Ok(false);
                }
                Err(error) => {
                    iteration.clear();
                    return Err(error);
                }
            }
        }
    }

    /// Takes one record, or what is left when there are no more.
    fn step(&mut self, iteration: &mut Iteration) -> Result<Step> {
        let Content { file, records, parser, finishing, cut } = &mut self.present;
        let Some((format, parser)) = parser else {
            self.tell_break(false);
            return self.next_file();
        };
        let parsed = if parser.more(iteration) {
            self.summary.rows += 1;
            Ok(true)
        } else if *finishing {
            match parser.finish(iteration) {
                Ok(false) => return self.next_file(),
                parsed => parsed,
            }
        } else {
            let next = records.next().map_err(|error| unreadable(file, &error))?;
            let Some(line) = next else {
                *finishing = true;
                self.tell_break(false);
                return Ok(Step::Nothing);
            };
            let (number, end) = (line.number, line.end);
            iteration.line = number;
            self.entry = line.entry;
            let parsed = if line.text.is_empty() || !parser.is_record(line.text) {
                Ok(false)
            } else {
                self.summary.rows += 1;
                if parser.is_cut(&line) {
                    *cut = end == LineEnd::EndOfText;
                    let broken = (end == LineEnd::Break).then(|| records.take_break()).flatten();
                    let what = match broken {
                        Some(reason) => format!(
                            "the compressed data break off inside this record ({reason}){GOES_ON}"
                        ),
                        None => "the trace ends inside this record".to_owned(),
                    };
                    self.summary.skip(&Error::trace("truncated", &**file, Some(number), what));
                    Ok(false)
                } else {
                    if end == LineEnd::EndOfText && format.is_table() {
                        self.summary.warn(format!("{file}:{number}: {}", Table::LAST_ROW));
                    }
                    parser.parse(line.text, iteration)
                }
            };
            if end == LineEnd::Break {
                self.tell_break(true);
            }
            parsed
        };
        self.tell_notices();
        match parsed {
            Ok(true) => self.follow(iteration),
            Ok(false) => Ok(Step::Nothing),
            Err(fault) => self.fault(&fault, iteration.line, self.entry),
        }
    }

    /// Checks an iteration against those before, and joins its ranks where that is asked for.
    fn follow(&mut self, iteration: &mut Iteration) -> Result<Step> {
        let (summary, file) = (&mut self.summary, &self.present.file);
        let line = iteration.line;
        let mut entry = self.entry;
        if let Some(join) = &mut self.join {
            match join.take(std::mem::take(iteration)) {
                Joined::Whole(whole) => {
                    if whole.line != line {
                        summary.rows -= 1;
                        entry = None;
                    }
                    *iteration = whole;
                }
                Joined::Added => {
                    summary.rows -= 1;
                    return Ok(Step::Nothing);
                }
                Joined::Opened(None) => return Ok(Step::Nothing),
                Joined::Opened(Some(lost)) => {
                    return self.fault(&incomplete(&lost), lost.line, None);
                }
                Joined::Twice(fault) => return self.fault(&fault, line, entry),
            }
        }
        let mut tell = |text: String| {
            summary.warn(format!("{file}:{line}: {}{text}", entry_name(entry)));
        };
        if let Err(fault) = self.streams.follow(iteration, &mut tell) {
            return self.fault(&fault, iteration.line, entry);
        }
        iteration.row = self.summary.iterations;
        self.summary.iterations += 1;
        Ok(Step::Iteration)
    }

    /// Counts a fault, which is an error where the reader is strict.
    fn fault(&mut self, fault: &Error, line: u64, entry: Option<u64>) -> Result<Step> {
        let fault = located(fault, &self.present.file, line, entry);
        self.summary.skip(&fault);
        if self.options.strict { Err(fault) } else { Ok(Step::Nothing) }
    }

    /// Goes on to the next file; at the last one's end, iterations that lack ranks are given up.
    fn next_file(&mut self) -> Result<Step> {
        if self.present.records.is_open() && !self.present.cut {
            self.summary.warn(format!(
                "{}: the document ends inside a list that is not closed",
                self.present.file
            ));
        }
        if let Some(file) = self.files.pop_front() {
            self.closed_bytes = self.bytes_read();
            match Content::open(&file, shown(&file), &self.options) {
                Ok(content) => self.present = content,
                // A producer that is killed leaves its last segment empty.
                Err(fault) if fault.code() == "empty" => {
                    self.summary.warn(fault.to_string());
                    self.present = Content::nothing(shown(&file));
                }
                Err(fault) => return Err(fault),
            }
            match (self.format, self.present.format()) {
                (Some(one), Some(other)) if one != other => {
                    return Err(Error::trace(
                        "mixed_formats",
                        self.file(),
                        None,
                        format!("{}, where the files before are {}", other.name(), one.name()),
                    ));
                }
                (one, other) => self.format = one.or(other),
            }
            return Ok(Step::Nothing);
        }
        if let Some(lost) = self.join.as_mut().and_then(Join::give_up) {
            return self.fault(&incomplete(&lost), lost.line, None);
        }
        for text in std::mem::take(&mut self.streams).conclude() {
            self.summary.warn(format!("{}: {text}", self.name));
        }
        Ok(Step::End)
    }

    /// Tells of a place where compressed data break off, and whether reading goes on behind it.
    fn tell_break(&mut self, goes_on: bool) {
        let number = self.present.records.number();
        if let Some(reason) = self.present.records.take_break() {
            let then = if goes_on { GOES_ON } else { "" };
            self.summary.warn(format!(
                "{}: the compressed data break off at line {number} ({reason}){then}",
                self.present.file
            ));
        }
    }

    fn tell_notices(&mut self) {
        let Some((_, parser)) = &mut self.present.parser else { return };
        while let Some(notice) = parser.notice() {
            self.summary.warn(format!("{}: {notice}", self.present.file));
        }
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
            .field("format", &self.format)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

/// The fault of an iteration that waited in vain for ranks.
fn incomplete(lost: &Iteration) -> Error {
    let counter = lost.ranks.first().map_or(0, |rank| rank.counter_id);
    Error::metrics(
        "incomplete_iteration",
        "",
        format!("only {} ranks have counter {counter}", lost.ranks.len()),
    )
}
