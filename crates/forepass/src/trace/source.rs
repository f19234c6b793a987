//! From the paths that a caller names to traces: directories, patterns, and segments that belong
//! together.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::catalogue;
use super::content::unreadable;
use super::format::TraceFormat;
use super::{ReadOptions, TraceReader};
use crate::error::{Error, Result};

/// A trace: one file, or the segments into which a producer rolled it, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceSource {
    /// How it is named in reports.
    pub name: String,
    /// Its files, to be read one after the other.
    pub files: Vec<PathBuf>,
    /// What a manifest says is the SHA-256 of its only file, in lower-case hexadecimal.
    pub sha256: Option<String>,
    /// What is missing of it.
    pub warnings: Vec<String>,
}

impl TraceSource {
    /// The trace in one file.
    pub fn file(path: &Path) -> Self {
        Self { name: shown(path), files: vec![path.to_owned()], ..Self::default() }
    }

    /// A trace of this name that stands in these files, one after the other; one that stands alone
    /// goes by the name of the trace.
    pub fn files(name: impl Into<String>, files: Vec<PathBuf>) -> Self {
        Self { name: name.into(), files, ..Self::default() }
    }

    /// The same trace, of which this is known to be missing.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// The same trace, whose only file has this SHA-256.
    #[must_use]
    pub fn with_sha256(mut self, sha256: Option<String>) -> Self {
        self.sha256 = sha256;
        self
    }
}

/// A path as text; one that is not Unicode is escaped, so that two of them stay apart.
pub(super) fn shown(path: &Path) -> String {
    path.to_str().map_or_else(|| format!("{:?}", path.as_os_str()), ToOwned::to_owned)
}

/// The traces that paths name.
///
/// A directory stands for the traces in it, a path with `*` or `?` that is no file for those that
/// it matches, and a catalogue or manifest of measurements for what it lists. Files
/// `PREFIX.PRODUCER.NNNNNN.jsonl[.gz]` are the rolled segments of one trace for each producer.
///
/// # Errors
/// A path that stands for no trace, or a file that is named twice.
pub fn find_sources(paths: &[PathBuf]) -> Result<Vec<TraceSource>> {
    let mut sources = Vec::new();
    for path in paths {
        if path.is_dir() {
            sources.extend(of_directory(path)?);
        } else if !path.exists() && has_wildcard(path.as_os_str()) {
            let matches = matching(path);
            if matches.is_empty() {
                return Err(Error::trace("unreadable", shown(path), None, "matches no file"));
            }
            sources.extend(find_sources(&matches)?);
        } else {
            match catalogue::sources(path)? {
                Some(listed) => sources.extend(listed),
                None => sources.push(TraceSource::file(path)),
            }
        }
    }
    let sources = in_order(sources);
    let mut files: Vec<&PathBuf> = sources.iter().flat_map(|source| &source.files).collect();
    files.sort_unstable();
    match files.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::trace("duplicate_input", shown(pair[0]), None, "given twice")),
        None => Ok(sources),
    }
}

/// The traces of a directory, by name.
fn of_directory(path: &Path) -> Result<Vec<TraceSource>> {
    let index = path.join("catalog").join("index.json");
    if index.is_file() {
        return Ok(catalogue::sources(&index)?.unwrap_or_default());
    }
    let entries = fs::read_dir(path).map_err(|error| unreadable(&shown(path), &error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.is_file() && is_trace(file));
    files.sort_unstable();
    if files.is_empty() {
        return Err(Error::trace(
            "is_a_directory",
            shown(path),
            None,
            "this is a directory without traces: name the trace files, or a directory that holds \
             .jsonl, .ndjson, .csv, .log, .json or .parquet files, gzipped or not",
        ));
    }
    Ok(files.iter().map(|file| TraceSource::file(file)).collect())
}

/// Whether a file of a directory is a trace by its name; what may be any JSON, by its content.
fn is_trace(file: &Path) -> bool {
    let Some(name) = file.file_name().and_then(OsStr::to_str) else { return false };
    let name = name.strip_suffix(".gz").unwrap_or(name);
    match Path::new(name).extension().and_then(OsStr::to_str) {
        Some("jsonl" | "ndjson" | "csv" | "log" | "parquet") => !name.starts_with('.'),
        Some("json") => TraceReader::open(file, &ReadOptions::default())
            .is_ok_and(|reader| reader.format().is_some_and(|f| f != TraceFormat::FpmJsonl)),
        _ => false,
    }
}

/// Puts segments together, each trace at the place of its first one.
fn in_order(sources: Vec<TraceSource>) -> Vec<TraceSource> {
    let mut rolled: Vec<(PathBuf, Vec<(u64, PathBuf)>)> = Vec::new();
    let mut all: Vec<Result<TraceSource, usize>> = Vec::new();
    for source in sources {
        match segment(&source) {
            None => all.push(Ok(source)),
            Some((trace, index, file)) => {
                if let Some((_, segments)) = rolled.iter_mut().find(|(known, _)| *known == trace) {
                    segments.push((index, file));
                } else {
                    all.push(Err(rolled.len()));
                    rolled.push((trace, vec![(index, file)]));
                }
            }
        }
    }
    let mut ordered = Vec::new();
    for found in all {
        ordered.push(match found {
            Ok(source) => source,
            Err(place) => {
                let (trace, segments) = &mut rolled[place];
                segments.sort_unstable();
                of_segments(trace, segments)
            }
        });
    }
    ordered
}

/// Of a file `PREFIX.PRODUCER.NNNNNN.jsonl[.gz]`: the path without the number, the number, and it.
fn segment(source: &TraceSource) -> Option<(PathBuf, u64, PathBuf)> {
    let ([file], None) = (&*source.files, &source.sha256) else { return None };
    let name = file.file_name()?.to_str()?;
    let stem = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".jsonl")?;
    let (trace, number) = stem.rsplit_once('.')?;
    let digits = number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit());
    (digits && trace.contains('.')).then_some(())?;
    Some((file.with_file_name(trace), number.parse().ok()?, file.clone()))
}

fn of_segments(trace: &Path, segments: &[(u64, PathBuf)]) -> TraceSource {
    if let [(_, file)] = segments {
        return TraceSource::file(file);
    }
    let gzipped = segments.iter().all(|(_, file)| file.extension() == Some(OsStr::new("gz")));
    let name = format!("{}.*.jsonl{}", shown(trace), if gzipped { ".gz" } else { "" });
    let missing = |pair: &[(u64, PathBuf)]| {
        let (before, after) = (pair[0].0, pair[1].0);
        (after > before + 1).then(|| {
            format!(
                "{name}: between segments {before} and {after}, {} are missing",
                after - before - 1
            )
        })
    };
    let warnings = segments.windows(2).filter_map(missing).collect();
    let files = segments.iter().map(|(_, file)| file.clone()).collect();
    TraceSource { warnings, ..TraceSource::files(name.clone(), files) }
}

fn has_wildcard(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.contains(['*', '?']))
}

/// The paths that match a pattern, sorted; `*` and `?` do not match a separator.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        found = match component {
            Component::Normal(name) if has_wildcard(name) => {
                let listed = found.iter().flat_map(|folder| {
                    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                    let entries = fs::read_dir(here).into_iter().flatten().flatten();
                    let names = entries.map(|entry| entry.file_name());
                    let fits = |entry: &std::ffi::OsString| {
                        let (entry, name) = (entry.to_str(), name.to_str());
                        entry.zip(name).is_some_and(|(entry, name)| {
                            entry.starts_with('.') <= name.starts_with('.')
                                && fits(name.as_bytes(), entry.as_bytes())
                        })
                    };
                    names.filter(fits).map(|name| folder.join(name)).collect::<Vec<_>>()
                });
                listed.collect()
            }
            other => found.into_iter().map(|path| path.join(other)).collect(),
        };
    }
    found.retain(|path| path.exists());
    found.sort_unstable();
    found
}

/// Whether a name matches a pattern of `*` and `?`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // After a mismatch, the latest star takes one byte more; earlier stars need not change.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    (p, n) = (place + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
