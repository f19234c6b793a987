//! Catalogues and manifests of measurements, followed to the files that hold these.
//!
//! An index lists configurations, a configuration names the manifest of its measurements, and that
//! lists files. Paths are those of the data set, whose folder holds the manifests somewhere below.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::content::unreadable;
use super::source::{TraceSource, shown};
use crate::error::{Error, Result, from_json};
use crate::metrics::json_fault;

/// More than any manifest takes.
const LONGEST: u64 = 64 << 20;

/// How much of a JSON file is looked at for the keys of a manifest.
const HEAD: u64 = 64 << 10;

/// An index, a configuration manifest, or a manifest of measurements.
#[derive(Deserialize)]
struct Manifest {
    configuration_manifests: Option<Vec<Reference>>,
    measurements: Option<Measurements>,
    files: Option<Vec<Measured>>,
}

/// A file that is named alone, or with more about it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Reference {
    Path(String),
    Entry {
        #[serde(alias = "manifest_path")]
        path: String,
    },
}

#[derive(Deserialize)]
struct Measurements {
    manifest_path: String,
}

#[derive(Deserialize)]
struct Measured {
    path: String,
    role: String,
    sha256: Option<String>,
}

/// What a manifest lists, where the file is one.
///
/// # Errors
/// A manifest that does not parse, or names a file that is not there.
pub(super) fn sources(path: &Path) -> Result<Option<Vec<TraceSource>>> {
    if !looks_like_one(path) {
        return Ok(None);
    }
    let mut found = Vec::new();
    follow(path, 0, &mut found)?;
    if found.is_empty() {
        let message = "the manifest lists no file of measurements";
        return Err(Error::trace("empty", shown(path), None, message));
    }
    Ok(Some(found))
}

fn looks_like_one(path: &Path) -> bool {
    let mut head = Vec::new();
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if !is_json || !path.is_file() {
        return false;
    }
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    let has = |key: &str| {
        let key = format!("\"{key}\"");
        head.windows(key.len()).any(|window| window == key.as_bytes())
    };
    read.is_ok()
        && (has("configuration_manifests")
            || has("measurement_artifact_id") && (has("files") || has("measurements"))
            || has("configuration_path") && has("snapshot_id"))
}

fn follow(path: &Path, depth: u32, found: &mut Vec<TraceSource>) -> Result<()> {
    let name = shown(path);
    let fault = |code, message: &str| Error::trace(code, &*name, None, message);
    if depth > 2 {
        return Err(fault("malformed", "manifests that go round in a circle"));
    }
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
    file.take(LONGEST).read_to_end(&mut text).map_err(|error| unreadable(&name, &error))?;
    let manifest: Manifest = from_json(&text, |at, message| json_fault("malformed", at, &message))
        .map_err(|error| fault("malformed", &error.to_string()))?;
    let next = |named: &str| {
        locate(path, named)
            .ok_or_else(|| fault("unreadable", &format!("names `{named}`, which is not there")))
    };
    for reference in manifest.configuration_manifests.into_iter().flatten() {
        let (Reference::Path(named) | Reference::Entry { path: named }) = reference;
        follow(&next(&named)?, depth + 1, found)?;
    }
    if let Some(Measurements { manifest_path }) = manifest.measurements {
        follow(&next(&manifest_path)?, depth + 1, found)?;
    }
    for measured in manifest.files.into_iter().flatten() {
        if matches!(&*measured.role, "truth" | "derived_truth") {
            let file = next(&measured.path)?;
            found.push(TraceSource::file(&file).with_sha256(measured.sha256));
        }
    }
    Ok(())
}

/// The file of a relative path, seen from one of the folders above a manifest.
fn locate(manifest: &Path, named: &str) -> Option<PathBuf> {
    let relative = Path::new(named);
    let escapes =
        relative.components().any(|part| !matches!(part, std::path::Component::Normal(_)));
    if escapes {
        return None;
    }
    manifest.ancestors().skip(1).map(|folder| folder.join(relative)).find(|file| file.is_file())
}
