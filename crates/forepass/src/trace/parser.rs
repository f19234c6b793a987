//! What the readers of all formats have in common.

use super::Iteration;
use super::lines::{Line, LineEnd};
use crate::error::Result;

/// Makes iterations of the records of one format, which are lines, or entries of a document.
pub(super) trait Parser: Send {
    /// Whether the text is a record, and no header or other line of a log.
    fn is_record(&mut self, _text: &[u8]) -> bool {
        true
    }

    /// Whether a record that no line feed ends has lost its end.
    fn is_cut(&mut self, line: &Line) -> bool;

    /// Reads a record into an iteration without ranks, whose line is that of the record; false
    /// where the iteration comes only with a later record.
    ///
    /// # Errors
    /// The record is not one; what is left in the iteration does not matter.
    fn parse(&mut self, text: &[u8], iteration: &mut Iteration) -> Result<bool>;

    /// Gives out a further iteration of the last record; false where it has no more.
    fn more(&mut self, _iteration: &mut Iteration) -> bool {
        false
    }

    /// Reads what the last records left over, once there are no more; false where that is nothing.
    ///
    /// # Errors
    /// A record that lacks what a later one would have said.
    fn finish(&mut self, _iteration: &mut Iteration) -> Result<bool> {
        Ok(false)
    }

    /// What the records so far show that whoever reads the results should know, said once.
    fn notice(&mut self) -> Option<String> {
        None
    }
}

/// Whether a line of JSON has lost its end.
pub(super) fn is_cut_json(line: &Line) -> bool {
    // `IgnoredAny` would call a cut number invalid.
    line.end != LineEnd::Newline
        && serde_json::from_slice::<serde_json::Value>(line.text).is_err_and(|error| error.is_eof())
}

/// Things to be said once each, in the order in which they come up.
#[derive(Debug, Default)]
pub(super) struct Notices {
    said: Vec<&'static str>,
    pending: Vec<String>,
}

impl Notices {
    /// Says `text` unless the same `topic` came up before.
    pub(super) fn once(&mut self, topic: &'static str, text: impl FnOnce() -> String) {
        if !self.said.contains(&topic) {
            self.said.push(topic);
            self.pending.push(text());
        }
    }

    pub(super) fn next(&mut self) -> Option<String> {
        (!self.pending.is_empty()).then(|| self.pending.remove(0))
    }
}
