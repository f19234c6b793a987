//! Reading recorded traces: files of forward-pass records, whatever wrote them, as iterations.

use crate::metrics::ForwardPassMetrics;

mod ahead;
mod benchmark;
mod bytes;
mod catalogue;
mod columns;
mod content;
mod csv;
mod elements;
mod format;
mod join;
mod jsonl;
mod lines;
mod log;
mod pace;
mod parser;
mod reader;
mod remembered;
mod scalar;
mod source;
mod streams;
mod summary;
mod trtllm_stats;

pub use format::TraceFormat;
pub use reader::TraceReader;
pub use source::{TraceSource, find_sources};
pub use summary::ReadSummary;

/// One engine step: the records of all its ranks, and where they stood.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Iteration {
    /// Index among the iterations of the trace, idle ones included, from 0.
    pub row: u64,
    /// Line in the uncompressed text, from 1.
    pub line: u64,
    /// The records; at least one, each of which passes [`ForwardPassMetrics::check`].
    pub ranks: Vec<ForwardPassMetrics>,
    /// When it was recorded, in milliseconds of whatever clock the producer has.
    pub time_ms: Option<f64>,
    /// What wrote it down, where that is told; empty elsewhere.
    pub producer: String,
}

impl Iteration {
    /// The worker that ran the step, empty where the trace names none.
    pub fn worker_id(&self) -> &str {
        self.ranks.first().map_or("", |rank| &rank.worker_id)
    }

    /// What its durations span, where the producer says so; the same for all ranks.
    pub fn timing_scope(&self) -> Option<&str> {
        self.ranks.first().and_then(|rank| rank.timing_scope.as_deref())
    }

    /// Empties it, keeping the buffers.
    fn clear(&mut self) {
        self.ranks.clear();
        self.producer.clear();
        self.time_ms = None;
    }
}

/// How to read a trace.
///
/// | option | default | meaning |
/// |---|---|---|
/// | `strict` | false | whether a bad line is an error instead of being skipped and counted |
/// | `format` | none | the format, where it is not to be told from the content |
/// | `join_ranks` | none | of how many ranks with lines of their own an iteration consists |
///
/// Counters of ranks may drift apart, so ranks that have lines of their own are not joined by
/// them unless `join_ranks` says that here they can be. Iterations that then lack a rank are
/// counted as `incomplete_iteration`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Whether a bad line is an error instead of being skipped and counted.
    pub strict: bool,
    /// The format, where it is not to be told from the content.
    pub format: Option<TraceFormat>,
    /// Of how many ranks with lines of their own an iteration consists.
    pub join_ranks: Option<u32>,
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

    /// The same options, joining the lines of this many ranks by their counters.
    #[must_use]
    pub fn with_join_ranks(mut self, ranks: u32) -> Self {
        self.join_ranks = Some(ranks);
        self
    }
}

#[cfg(test)]
mod tests;
