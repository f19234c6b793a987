//! What came out of reading a trace: counts, the first faults, and what a reader should know.

use std::collections::BTreeMap;

use crate::error::Error;

/// Faults kept with their place; the others are only counted.
const FAULTS_KEPT: usize = 10;

/// Warnings kept; a file that is damaged all over has no end of them.
const WARNINGS_KEPT: usize = 20;

/// What was read so far.
///
/// Every record of the file is accounted for: `rows` is `iterations` plus the sum of `skipped`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadSummary {
    /// Records in the file: lines that are neither blank nor a header.
    pub rows: u64,
    /// Records that were read.
    pub iterations: u64,
    /// Records that were not, by the code of their fault: `malformed`, `truncated`,
    /// `invalid_field`, `unsupported_version`, ...
    pub skipped: BTreeMap<&'static str, u64>,
    /// The first ten of those faults, each with its file and line.
    pub faults: Vec<Error>,
    /// What did not stop the reading, but the reader of its results should know.
    pub warnings: Vec<String>,
}

impl ReadSummary {
    pub(super) fn skip(&mut self, fault: &Error) {
        *self.skipped.entry(fault.code()).or_default() += 1;
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(fault.clone());
        }
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        if self.warnings.len() < WARNINGS_KEPT {
            self.warnings.push(warning.into());
        } else if self.warnings.len() == WARNINGS_KEPT {
            self.warnings.push("there is more to warn of, which is left out".to_owned());
        }
    }
}
