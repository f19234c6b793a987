//! The same steps in every format are read to the same numbers.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use std::collections::BTreeMap;
use std::path::Path;

use forepass::trace::{TraceReader, TraceSource, find_sources};
use forepass::workload::observed_ms;
use forepass::{FeatureWeights, ReadOptions, TraceFormat, WorkerType, Workload};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    format: String,
    rows: u64,
    idle: u64,
    skipped: BTreeMap<String, u64>,
    steps: Vec<(String, f64, f64, f64)>,
}

fn sources() -> Vec<(String, TraceSource, Expected)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: BTreeMap<String, Expected> = serde_json::from_str(&text).unwrap();
    let found = expected.into_iter().map(|(name, expected)| {
        let [source] = <[_; 1]>::try_from(find_sources(&[folder.join(&name)]).unwrap()).unwrap();
        (name, source, expected)
    });
    found.collect()
}

#[test]
fn every_format_is_read_to_the_same_numbers() {
    let mut formats = Vec::new();
    for (name, source, expected) in sources() {
        let mut reader = TraceReader::open_source(&source, &ReadOptions::default()).unwrap();
        assert_eq!(reader.format().map(TraceFormat::name), Some(&*expected.format), "{name}");
        formats.push(expected.format);
        let (mut steps, mut idle) = (Vec::new(), 0);
        for iteration in reader.by_ref() {
            let ranks = iteration.unwrap().ranks;
            let weights = FeatureWeights::default();
            match Workload::of(&ranks, WorkerType::Aggregated, &weights).unwrap() {
                None => idle += 1,
                Some(Workload { kind, features: [attention, ffn], .. }) => {
                    let latency = observed_ms(&ranks).ok();
                    steps.extend(latency.map(|ms| (kind.name().to_owned(), ms, attention, ffn)));
                }
            }
        }
        for ((kind, ms, attention, ffn), expected) in steps.iter().zip(&expected.steps) {
            assert_eq!((kind, attention, ffn), (&expected.0, &expected.2, &expected.3), "{name}");
            assert!((ms - expected.1).abs() < 1e-12 * ms, "{name}: {ms}");
        }
        assert_eq!((steps.len(), idle), (expected.steps.len(), expected.idle), "{name}");
        let summary = reader.summary();
        assert_eq!(summary.rows, expected.rows, "{name}");
        let skipped = summary.skipped.iter().map(|(code, count)| ((*code).to_owned(), *count));
        assert_eq!(skipped.collect::<BTreeMap<_, _>>(), expected.skipped, "{name}");
        assert_eq!(summary.rows, summary.iterations + summary.skipped.values().sum::<u64>());
    }
    for format in TraceFormat::ALL {
        assert!(formats.iter().any(|found| found == format.name()), "{format:?} has no file");
    }
}

#[test]
fn a_format_can_be_forced() {
    for (name, source, expected) in sources() {
        let format = TraceFormat::ALL.into_iter().find(|format| format.name() == expected.format);
        let options = ReadOptions::default().with_format(format.unwrap());
        let reader = TraceReader::open_source(&source, &options).unwrap();
        let read = reader.flatten().count() as u64;
        assert_eq!(read, expected.rows - expected.skipped.values().sum::<u64>(), "{name}");
    }
}
