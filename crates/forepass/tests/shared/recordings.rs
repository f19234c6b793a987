//! Where the recordings are that tests read.

use std::path::{Path, PathBuf};

/// The recordings of a part, sorted; none, saying so, where they are missing.
pub(crate) fn recordings(parts: &[&str]) -> Vec<PathBuf> {
    let folder = std::env::var_os("FOREPASS_TRACES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    let mut paths = Vec::new();
    for part in parts {
        let Ok(entries) = folder.join(part).read_dir() else {
            eprintln!(
                "skipped: no recordings in {}; FOREPASS_TRACES names another folder",
                folder.display()
            );
            return Vec::new();
        };
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    paths.sort();
    paths
}
