//! Directories, patterns, segments and manifests, in a folder of its own for each test.

use super::*;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forepass-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn line(&self, name: &str, counter: u64) -> PathBuf {
        self.write(name, &format!("{{\"wall_time\": 0.5, \"counter_id\": {counter}}}\n"))
    }

    /// Names of the traces that a path stands for, from this folder on, and how many files each has.
    fn find(&self, named: &str) -> Vec<(String, usize)> {
        let sources = find_sources(&[self.0.join(named)]).unwrap();
        let inside = format!("{}{}", shown(&self.0), std::path::MAIN_SEPARATOR);
        let name = |source: &TraceSource| source.name.strip_prefix(&*inside).unwrap().to_owned();
        sources.iter().map(|source| (name(source), source.files.len())).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn named<const N: usize>(names: [(&str, usize); N]) -> Vec<(String, usize)> {
    names.map(|(name, files)| (name.to_owned(), files)).to_vec()
}

#[test]
fn segments_are_one_trace_for_each_producer() {
    let folder = Folder::new("segments");
    for (name, counter) in [
        ("fpm.b.000002.jsonl", 3),
        ("fpm.a.000010.jsonl", 2),
        ("fpm.a.000009.jsonl", 1),
        ("fpm.a.000012.jsonl", 4),
        ("other.jsonl", 9),
        ("notes.txt", 9),
        ("meta.json", 9),
    ] {
        folder.line(name, counter);
    }
    let expected = [("fpm.a.*.jsonl", 3), ("fpm.b.000002.jsonl", 1), ("other.jsonl", 1)];
    assert_eq!(folder.find(""), named(expected));
    assert_eq!(folder.find("fpm.?.0000*.jsonl"), named([expected[0], expected[1]]));

    let source = find_sources(std::slice::from_ref(&folder.0)).unwrap().remove(0);
    assert!(source.warnings[0].contains("between segments 10 and 12, 1 are missing"));
    let reader = TraceReader::open_source(&source, &ReadOptions::default()).unwrap();
    let counters: Vec<_> = reader.map(|found| found.unwrap().ranks[0].counter_id).collect();
    assert_eq!(counters, [1, 2, 4], "in the order of their numbers, not of their names");
}

#[test]
fn a_fault_names_the_segment_and_the_line_in_it() {
    let folder = Folder::new("fault");
    folder.line("fpm.a.000000.jsonl", 1);
    folder.write(
        "fpm.a.000001.jsonl",
        "\n{\n{\"wall_time\": 1}\n{\"wall_time\": 0.2, \"counter_id\": 2}",
    );
    folder.write("fpm.a.000002.jsonl", "");
    let source = find_sources(std::slice::from_ref(&folder.0)).unwrap().remove(0);
    let mut reader = TraceReader::open_source(&source, &ReadOptions::default()).unwrap();
    assert_eq!(reader.by_ref().flatten().count(), 3);
    let summary = reader.summary();
    assert_eq!((summary.rows, summary.skipped["malformed"]), (4, 1));
    let place = folder.0.join("fpm.a.000001.jsonl");
    assert_eq!(summary.faults[0].path(), format!("{}:2", shown(&place)));
    assert!(summary.warnings[0].contains("000002.jsonl: there is no record"), "{summary:?}");
    let bytes: u64 = source.files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert_eq!(reader.bytes_read(), bytes);
}

#[test]
fn segments_of_another_format_are_refused() {
    let folder = Folder::new("mixed");
    folder.line("fpm.a.000000.jsonl", 1);
    folder.write("fpm.a.000001.jsonl", "{\"iterLatencyMS\": 1}\n");
    let source = find_sources(std::slice::from_ref(&folder.0)).unwrap().remove(0);
    let mut reader = TraceReader::open_source(&source, &ReadOptions::default()).unwrap();
    assert!(reader.next().unwrap().is_ok());
    let error = reader.next().unwrap().unwrap_err();
    assert_eq!(error.code(), "mixed_formats");
    assert!(error.to_string().contains("trtllm_stats, where the files before are fpm_jsonl"));
}

#[test]
fn what_stands_for_no_trace_is_told() {
    let folder = Folder::new("nothing");
    let fault = |path: PathBuf| find_sources(&[path]).unwrap_err().code();
    assert_eq!(fault(folder.0.clone()), "is_a_directory");
    assert_eq!(fault(folder.0.join("*.jsonl")), "unreadable");
    let path = folder.line("a.jsonl", 1);
    let error = find_sources(&[path.clone(), folder.0.join("*.jsonl")]).unwrap_err();
    assert_eq!((error.code(), error.path()), ("duplicate_input", shown(&path)));
    // What is not there is told when it is opened.
    assert_eq!(find_sources(&[folder.0.join("b.jsonl")]).unwrap().len(), 1);
}

#[test]
fn a_catalogue_leads_to_its_measurements() {
    let folder = Folder::new("catalogue");
    folder.write(
        "catalog/index.json",
        r#"{"catalog_version": 5, "dataset_id": "d", "history_manifests": [],
            "configuration_manifests": ["configs/a/manifest.json", {"path": "configs/b.json"}]}"#,
    );
    folder.write(
        "configs/a/manifest.json",
        r#"{"configuration_path": "configs/a", "snapshot_id": "s", "measurements":
            {"measurement_artifact_id": "m", "manifest_path": "configs/a/measured.json"}}"#,
    );
    folder.write("configs/b.json", r#"{"configuration_path": "configs/b", "snapshot_id": "s"}"#);
    folder.write(
        "configs/a/measured.json",
        r#"{"measurement_artifact_id": "m", "files": [
            {"path": "data/fpm.a.000001.jsonl", "role": "truth", "sha256": "00"},
            {"path": "data/absent.csv", "role": "supporting_evidence"},
            {"path": "two.jsonl", "role": "derived_truth"}]}"#,
    );
    folder.line("data/fpm.a.000001.jsonl", 1);
    folder.line("configs/a/two.jsonl", 1);
    let expected = named([("data/fpm.a.000001.jsonl", 1), ("configs/a/two.jsonl", 1)]);
    for named in ["", "catalog/index.json", "configs/a/manifest.json", "configs/a/measured.json"] {
        assert_eq!(folder.find(named), expected, "{named}");
    }
    let sources = find_sources(std::slice::from_ref(&folder.0)).unwrap();
    assert_eq!((sources[0].sha256.as_deref(), &sources[1].sha256), (Some("00"), &None));

    folder.write(
        "configs/a/measured.json",
        r#"{"measurement_artifact_id": "m", "files": [{"path": "../x.csv", "role": "truth"}]}"#,
    );
    let error = find_sources(std::slice::from_ref(&folder.0)).unwrap_err();
    assert!(error.to_string().contains("measured.json: names `../x.csv`, which"), "{error}");
    let error = find_sources(&[folder.0.join("configs/b.json")]).unwrap_err();
    assert!(error.to_string().contains("lists no file"), "{error}");
}

#[test]
fn a_pattern_fits_names_as_a_shell_has_it() {
    for (pattern, name, expected) in [
        ("*", "", true),
        ("a*c", "abc", true),
        ("a*c", "abcd", false),
        ("*.a.*", "x.a.b.a.c", true),
        ("?", "", false),
        ("a?", "ab", true),
        ("*b*b", "abab", true),
        ("**", "x", true),
    ] {
        assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
    }
}
