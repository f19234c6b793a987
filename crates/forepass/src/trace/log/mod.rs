//! The lines of engine logs that tell of iterations, among all the others.

mod sglang;
mod trtllm;
mod vllm;

pub(super) use sglang::SglangLog;
pub(super) use trtllm::TrtllmLog;
pub(super) use vllm::VllmLog;

use super::TraceFormat;
use crate::error::{Error, Result};

/// The format of the log in which such a line stands; `None` for a line that tells nothing.
pub(super) fn format_of(line: &[u8]) -> Option<TraceFormat> {
    if vllm::is_record(line) {
        Some(TraceFormat::VllmLog)
    } else if sglang::is_record(line) {
        Some(TraceFormat::SglangLog)
    } else if trtllm::is_record(line) {
        Some(TraceFormat::TrtllmLog)
    } else {
        None
    }
}

fn contains(line: &[u8], words: &[u8]) -> bool {
    line.windows(words.len()).any(|window| window == words)
}

/// A line of a log whose values stand beside words.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn of(line: &'a [u8]) -> Result<Self> {
        std::str::from_utf8(line)
            .map(Self)
            .map_err(|_| Error::metrics("malformed", "", "this line is not UTF-8 text"))
    }

    fn has(self, words: &str) -> bool {
        self.0.contains(words)
    }

    /// The value behind `key`, with what may stand between: `: `, ` = `, or the end of a quote.
    fn after(self, key: &str) -> Option<&'a str> {
        let begins_a_word =
            |start: &usize| !self.0[..*start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let (start, _) = self.0.match_indices(key).find(|(start, _)| begins_a_word(start))?;
        let rest = self.0[start + key.len()..].trim_start_matches([' ', ':', '=', '\'', '"']);
        let end = rest.find([',', ' ', '}', ']', ')', '/']).unwrap_or(rest.len());
        Some(&rest[..end])
    }

    /// The value before `words`.
    fn before(self, words: &str) -> Option<&'a str> {
        let text = self.0[..self.0.find(words)?].trim_end();
        let start = text.rfind([' ', ':', ',', '(']).map_or(0, |place| place + 1);
        Some(&text[start..])
    }

    /// The whole number behind `key`.
    fn count(self, key: &str) -> Result<u64> {
        let text = self.after(key).ok_or_else(|| missing(key))?;
        text.parse().map_err(|_| wrong(key, text, "a nonnegative integer"))
    }

    /// The whole number before `words`.
    fn count_before(self, words: &str) -> Result<u64> {
        let text = self.before(words).ok_or_else(|| missing(words.trim()))?;
        text.parse().map_err(|_| wrong(words.trim(), text, "a nonnegative integer"))
    }

    /// The finite number behind `key`, where there is such a key.
    fn number(self, key: &str) -> Result<Option<f64>> {
        self.after(key).map(|text| finite(key, text)).transpose()
    }

    /// The number behind `key`, which must be in milliseconds.
    fn milliseconds(self, key: &str) -> Result<f64> {
        let text = self.after(key).ok_or_else(|| missing(key))?;
        let number = match text.strip_suffix("ms") {
            Some(number) => Some(number),
            None => self.0.contains(&format!("{text} ms")).then_some(text),
        };
        match number {
            Some(number) => finite(key, number),
            None => Err(Error::metrics(
                "wrong_unit",
                key,
                format!("`{text}` is not in milliseconds: `ms` must follow the number"),
            )),
        }
    }
}

fn finite(key: &str, text: &str) -> Result<f64> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| wrong(key, text, "a finite number"))
}

fn missing(key: &str) -> Error {
    Error::metrics("missing_field", key, "not on this line, which a line of an iteration has")
}

fn wrong(key: &str, text: &str, right: &str) -> Error {
    Error::metrics("malformed", key, format!("`{text}` is not {right}"))
}
