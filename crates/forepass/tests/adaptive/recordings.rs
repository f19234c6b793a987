//! The adaptive fit on recordings of real engines, where these are at hand.

use std::collections::BTreeMap;
use std::path::Path;

use forepass::replay::{Baseline, Contender, Options, replay};
use forepass::trace::TraceSource;
use forepass::{
    ForwardPassMetrics, ForwardPassModel, Progress, ReadOptions, TraceReader, WorkerType,
};

use crate::found::recordings;
use crate::intervals::{Held, LEVELS};
use crate::synthetic::{AUTO, LINEAR, config};

/// The pure decode steps of a recording.
pub(crate) fn decode_steps(path: &Path) -> Vec<ForwardPassMetrics> {
    let reader = TraceReader::open(path, &ReadOptions::default()).unwrap();
    reader
        .map(|iteration| iteration.unwrap().ranks.swap_remove(0))
        .filter(|rank| {
            let scheduled = &rank.scheduled_requests;
            scheduled.sum_prefill_tokens == 0 && scheduled.num_decode_requests > 0
        })
        .collect()
}

const SPLINE: &str = r#"{"kind": "spline"}"#;
const PERIODIC: &str =
    r#"{"kind": "spline", "spline": {"search": {"kind": "periodic", "step": 64}}}"#;

/// Errors of one contender and of `auto` on the rows of a recording that both answer.
#[derive(Default)]
struct Common {
    rows: u32,
    own: f64,
    auto: f64,
}

/// What each contender and `auto` are off, by recording and contender. `auto` comes first.
fn errors_in_common(predictions: &str) -> BTreeMap<(&str, &str), Common> {
    let mut common: BTreeMap<(&str, &str), Common> = BTreeMap::new();
    let mut seen: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut auto = None;
    for line in predictions.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (input, kind, fit) = (fields[0], fields[3], fields[4]);
        let observed: f64 = fields[5].parse().unwrap();
        let error = fields[6].parse().ok().map(|ms: f64| (ms / observed - 1.0).abs());
        if fit == "auto" {
            // A recording has one worker: rows count from the 65th of their kind.
            let count = seen.entry((input, kind)).or_default();
            *count += 1;
            auto = error.filter(|_| *count > 64);
        } else if let (Some(own), Some(auto)) = (error, auto) {
            let common = common.entry((input, fit)).or_default();
            common.rows += 1;
            common.own += own;
            common.auto += auto;
        }
    }
    common
}

#[test]
fn auto_answers_nearly_all_rows_and_as_well_as_any_other() {
    let paths = recordings(&["b300", "cpu"]);
    if paths.is_empty() {
        return;
    }
    let model = |name: &str, fit| {
        Contender::Model(name.to_owned(), Box::new(config(WorkerType::Aggregated, fit, "{}")))
    };
    let contenders = [
        model("auto", AUTO),
        model("linear", LINEAR),
        model("spline", SPLINE),
        model("periodic", PERIODIC),
        Contender::Baseline(Baseline::Last),
        Contender::Baseline(Baseline::Median),
    ];
    let mut options = Options::default();
    options.predictions = true;
    options.threads = 2;
    let sources: Vec<_> = paths.iter().map(|path| TraceSource::file(path)).collect();
    let (report, predictions) =
        replay(&sources, &contenders, &options, &Progress::default()).unwrap();
    for (input, stats) in &report.results[0].by_input {
        assert!(stats.coverage_pct.unwrap() >= 99.9, "{input}: {stats:?}");
    }
    let predictions = String::from_utf8(predictions).unwrap();
    for ((input, fit), common) in errors_in_common(&predictions) {
        let [own, auto] = [common.own, common.auto].map(|sum| 100.0 * sum / f64::from(common.rows));
        let name = input.rsplit('/').next().unwrap();
        println!("{name:>42}: auto {auto:.3} %, {fit} {own:.3} % of {} rows", common.rows);
        assert!(auto <= 1.02 * own, "{name}: auto {auto}, {fit} {own}");
    }
}

#[test]
fn intervals_hold_what_they_say_on_recordings() {
    for path in recordings(&["b300", "cpu"]) {
        let mut model = ForwardPassModel::new(config(WorkerType::Aggregated, AUTO, "{}"));
        let (mut held, mut rows) = (Held::default(), 0);
        for iteration in TraceReader::open(&path, &ReadOptions::default()).unwrap() {
            let ranks = iteration.unwrap().ranks;
            if ranks[0].wall_time > 0.0 {
                held.ask(&model, &ranks, 1000.0 * ranks[0].wall_time);
                rows += 1;
            }
            model.observe(&ranks).unwrap();
        }
        let (shares, name) = (held.shares(), path.file_name().unwrap().to_string_lossy());
        println!("{name:>42}: {shares:.3?} of {rows} rows");
        for (share, level) in shares.into_iter().zip(LEVELS).filter(|_| rows > 3000) {
            assert!((share - level).abs() < 0.02, "{name}: {share} at {level}");
        }
    }
}
