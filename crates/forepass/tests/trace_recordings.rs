//! The readers on recordings of real engines, where these are at hand.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use forepass::{ForwardPassMetrics, ReadOptions, TraceFormat, TraceReader};

#[path = "shared/recordings.rs"]
mod found;

use found::recordings;

fn line_count(path: &Path) -> io::Result<u64> {
    let text = BufReader::new(MultiGzDecoder::new(File::open(path)?));
    Ok(text.split(b'\n').count() as u64)
}

#[test]
fn every_line_of_every_recording_is_an_iteration() {
    let paths = recordings(&["b300", "cpu"]);
    assert!(paths.is_empty() || paths.len() == 19, "{paths:?}");
    for path in paths {
        let options = ReadOptions::default().with_strict(true);
        let mut reader = TraceReader::open(&path, &options).unwrap();
        let csv = reader.format() != Some(TraceFormat::FpmJsonl);
        let iterations: Vec<_> = reader.by_ref().map(Result::unwrap).collect();

        let summary = reader.summary();
        assert_eq!(summary.rows, line_count(&path).unwrap() - u64::from(csv), "{path:?}");
        assert_eq!(summary.iterations, summary.rows);
        assert!(summary.skipped.is_empty() && summary.faults.is_empty());
        assert_eq!(summary.warnings, [""; 0], "{path:?}");

        let first_line = 1 + u64::from(csv);
        for (row, iteration) in (0..).zip(&iterations) {
            assert_eq!((iteration.row, iteration.line), (row, row + first_line));
            assert_eq!(iteration.worker_id(), iterations[0].worker_id());
            assert!(iteration.ranks[0].wall_time < 10.0, "{path:?}: not in seconds");
        }
    }
}

#[test]
fn a_first_row_of_each_format_is_what_the_file_says() {
    let mut vllm = ForwardPassMetrics::prefill(1, 128, 0).with_wall_time(17.111 / 1000.0);
    vllm.worker_id = "2643417971761755901".to_owned();
    vllm.counter_id = 1045;
    let trtllm = ForwardPassMetrics::prefill(1, 110, 259).with_wall_time(0.054_734);
    let mut jsonl = ForwardPassMetrics::prefill(1, 124, 0).with_wall_time(0.060_453_666_999_819_69);
    jsonl.worker_id = "moe".to_owned();
    jsonl.counter_id = 1;
    for (file, format, row, expected) in [
        ("qwen3-32b_tp1.csv.gz", TraceFormat::VllmCsv, 0, vllm),
        ("b200_trtllm_gpt-oss-120b_prefill.csv.gz", TraceFormat::TrtllmCsv, 0, trtllm),
        ("moe.jsonl.gz", TraceFormat::FpmJsonl, 1, jsonl),
    ] {
        let Some(path) = recordings(&["b300", "cpu"]).into_iter().find(|path| path.ends_with(file))
        else {
            return;
        };
        let mut reader = TraceReader::open(&path, &ReadOptions::default()).unwrap();
        assert_eq!(reader.format(), Some(format));
        let iteration = reader.nth(row).unwrap().unwrap();
        assert_eq!(iteration.ranks, [expected]);
    }
}
