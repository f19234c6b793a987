//! What can go wrong, where, and what would be right.

/// Result of a fallible Forepass call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that a caller can be told is wrong with what it gave.
///
/// Each variant carries a stable machine-readable `code`, the place (a JSON path, or a file and a
/// line) and a message that names the value found and what would be right. None of them leaves a
/// model changed: input is validated whole before it is applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration does not parse, contradicts itself or asks for what is not supported.
    #[error("{}{message}", at(path))]
    Config {
        /// Stable identifier, such as `unknown_field` or `invalid_value`.
        code: &'static str,
        /// JSON path of the value, such as `estimator_config.fpm_regression.min_observations`.
        path: String,
        /// What was found and what would be right.
        message: String,
    },
    /// A forward-pass record is malformed, breaks an invariant or does not fit the worker's role.
    #[error("{}{message}", at(path))]
    Metrics {
        /// Stable identifier, such as `invalid_field` or `unsupported_version`.
        code: &'static str,
        /// JSON path of the value, such as `[1].scheduled_requests.sum_prefill_tokens`.
        path: String,
        /// What was found and what would be right.
        message: String,
    },
    /// A trace file cannot be read as what it claims to be.
    #[error("{file}{}: {message}", line.map(|n| format!(":{n}")).unwrap_or_default())]
    Trace {
        /// Stable identifier, such as `unreadable` or `malformed`.
        code: &'static str,
        /// The file as the caller named it.
        file: String,
        /// Line in the uncompressed text, from 1, where one line is at fault.
        line: Option<u64>,
        /// What was found and what would be right.
        message: String,
    },
    /// A speculation block cannot be resolved, or not replayed.
    #[error("{}{message}", at(path))]
    Speculation {
        /// One of the [`codes`](crate::codes), such as `E_TREE`.
        code: &'static str,
        /// JSON path of the value, such as `params.num_speculative_tokens`.
        path: String,
        /// What was found and what would be right.
        message: String,
    },
    /// An engine launch does not parse, contradicts itself or cannot be replayed.
    #[error("{}{message}", at(path))]
    Launch {
        /// One of the [`codes`](crate::codes), such as `E_TOPOLOGY`.
        code: &'static str,
        /// JSON path of the value, such as `engine.block_size`.
        path: String,
        /// What was found and what would be right.
        message: String,
    },
    /// The caller asked a running replay to stop.
    #[error("the replay was cancelled")]
    Cancelled,
}

impl Error {
    /// A configuration fault at a JSON path (empty for the whole document).
    pub fn config(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Config { code, path: path.into(), message: message.into() }
    }

    /// A metrics fault at a JSON path (empty for the whole record).
    pub fn metrics(
        code: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::Metrics { code, path: path.into(), message: message.into() }
    }

    /// A fault of a trace file, or of one line of it.
    pub fn trace(
        code: &'static str,
        file: impl Into<String>,
        line: Option<u64>,
        message: impl Into<String>,
    ) -> Self {
        Self::Trace { code, file: file.into(), line, message: message.into() }
    }

    /// A fault of a speculation block, at a JSON path within it.
    pub fn speculation(
        code: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::Speculation { code, path: path.into(), message: message.into() }
    }

    /// A fault of an engine launch at a JSON path (empty for the whole document).
    pub fn launch(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Launch { code, path: path.into(), message: message.into() }
    }

    /// The same fault seen from an enclosing document: `prefix` is put before the path.
    #[must_use]
    pub fn within(self, prefix: &str) -> Self {
        let path = join(prefix, &self.path());
        self.at(path)
    }

    /// The same fault at another JSON path, where it has one at all.
    #[must_use]
    pub(crate) fn at(mut self, place: String) -> Self {
        if let Self::Config { path, .. }
        | Self::Metrics { path, .. }
        | Self::Speculation { path, .. }
        | Self::Launch { path, .. } = &mut self
        {
            *path = place;
        }
        self
    }

    /// The same fault in other words, where it has a JSON path at all.
    #[must_use]
    pub(crate) fn saying(mut self, words: String) -> Self {
        if let Self::Config { message, .. }
        | Self::Metrics { message, .. }
        | Self::Speculation { message, .. }
        | Self::Launch { message, .. } = &mut self
        {
            *message = words;
        }
        self
    }

    /// Stable machine-readable identifier of the fault.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config { code, .. }
            | Self::Metrics { code, .. }
            | Self::Trace { code, .. }
            | Self::Speculation { code, .. }
            | Self::Launch { code, .. } => code,
            Self::Cancelled => "cancelled",
        }
    }

    /// JSON path of the fault (`""` for the whole document), or `file` and `file:line` for traces.
    pub fn path(&self) -> String {
        match self {
            Self::Config { path, .. }
            | Self::Metrics { path, .. }
            | Self::Speculation { path, .. }
            | Self::Launch { path, .. } => path.clone(),
            Self::Trace { file, line: Some(line), .. } => format!("{file}:{line}"),
            Self::Trace { file, line: None, .. } => file.clone(),
            Self::Cancelled => String::new(),
        }
    }

    /// What was found and what would be right, without the place.
    pub fn message(&self) -> String {
        match self {
            Self::Config { message, .. }
            | Self::Metrics { message, .. }
            | Self::Trace { message, .. }
            | Self::Speculation { message, .. }
            | Self::Launch { message, .. } => message.clone(),
            Self::Cancelled => self.to_string(),
        }
    }
}

/// Joins a JSON path to the path of the enclosing value.
pub(crate) fn join(prefix: &str, path: &str) -> String {
    match (prefix.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (false, true) => prefix.to_owned(),
        (false, false) if path.starts_with('[') => format!("{prefix}{path}"),
        (false, false) => format!("{prefix}.{path}"),
    }
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// Deserializes JSON text and, where it fails, tells the JSON path of the value at fault.
pub(crate) fn from_json<'de, T: serde::Deserialize<'de>>(
    text: &'de [u8],
    fault: impl Fn(String, String) -> Error,
) -> Result<T> {
    // The plain deserializer is several times faster; the path is worked out only for a fault.
    // Text that is known to be UTF-8 is not checked again string by string.
    let plain = match std::str::from_utf8(text) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(text),
    };
    match plain {
        Ok(value) => Ok(value),
        Err(plain) => {
            let mut reader = serde_json::Deserializer::from_slice(text);
            let path = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
                Ok(_) => String::new(), // trailing characters after a complete value
                Err(located) => json_path(located.path()),
            };
            Err(fault(path, plain.to_string()))
        }
    }
}

/// Deserializes a JSON value and, where it fails, tells the JSON path of the value at fault.
pub(crate) fn from_json_value<'de, T: serde::Deserialize<'de>>(
    value: impl serde::Deserializer<'de, Error = serde_json::Error> + Copy,
    fault: impl Fn(String, String) -> Error,
) -> Result<T> {
    // As with text, the path is worked out only for a fault.
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value)
            .map_err(|located| fault(json_path(located.path()), located.inner().to_string()))
    })
}

/// A field that may be absent but, where it stands, is not `null`.
pub(crate) fn present<'de, D: serde::Deserializer<'de>, T: serde::Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn json_path(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;

    path.iter().fold(String::new(), |path, segment| match segment {
        Segment::Seq { index } => join(&path, &format!("[{index}]")),
        Segment::Map { key } => join(&path, key),
        // A key that is no string, or the name of a variant: neither leads to a JSON value.
        Segment::Unknown | Segment::Enum { .. } => path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_before_what() {
        let error = Error::config("invalid_value", "fit.kind", "must be one of: ...");
        assert_eq!(error.to_string(), "fit.kind: must be one of: ...");
        assert_eq!(Error::trace("malformed", "a.csv", Some(7), "x").to_string(), "a.csv:7: x");
        assert_eq!(Error::trace("unreadable", "a.csv", None, "x").path(), "a.csv");
    }

    #[test]
    fn paths_join_as_json_paths() {
        let error = Error::metrics("invalid_field", "[1].wall_time", "x").within("ranks");
        assert_eq!(error.path(), "ranks[1].wall_time");
        assert_eq!(Error::config("x", "a", "m").within("b").path(), "b.a");
        assert_eq!(Error::config("x", "", "m").within("b").path(), "b");
    }

    #[test]
    fn a_json_fault_carries_its_path() {
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code)]
        struct Outer {
            inner: Vec<u32>,
        }
        let fault = |path, message| Error::config("invalid_type", path, message);
        let error = from_json::<Outer>(br#"{"inner": [1, "2"]}"#, fault).unwrap_err();
        assert_eq!(error.path(), "inner[1]");
        let error = from_json::<Outer>(br#"{"inner": [1]} x"#, fault).unwrap_err();
        assert_eq!(error.path(), "");
    }
}
