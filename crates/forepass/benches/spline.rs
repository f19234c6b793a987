//! What the other fits cost beside the line, over traces, and a knot search against plain refits.
//!
//! `cargo bench -p forepass --bench spline -- TRACE...` prints one JSON object; times are medians
//! over rounds in which the fits take turns. Without `--bench` it runs one round.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::retention::Observation;
use forepass::spline::{SplineModel, search_knots, search_knots_plainly};
use forepass::{ForwardPassMetrics, ForwardPassModel, ReadOptions, TraceReader, WorkerType};

/// The line, the spline searched adaptively and periodically, and the adaptive fit.
const FITS: [&str; 4] = [
    r#"{"kind": "linear"}"#,
    r#"{"kind": "spline"}"#,
    r#"{"kind": "spline", "spline": {"search": {"kind": "periodic", "step": 64}}}"#,
    r#"{"kind": "auto"}"#,
];

fn model(fit: &str) -> Result<ForwardPassModel, forepass::Error> {
    let estimator = format!(r#"{{"fpm_regression": {{"fit": {fit}}}}}"#);
    let estimator = EstimatorConfig::from_json(estimator.as_bytes())?;
    let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Aggregated, estimator);
    Ok(ForwardPassModel::new(config.check()?))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds to predict and learn one row, for each fit.
fn per_row(steps: &[Vec<ForwardPassMetrics>], rounds: usize) -> Result<[f64; 4], forepass::Error> {
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        for (index, fit) in FITS.iter().enumerate() {
            let mut model = model(fit)?;
            let start = Instant::now();
            for ranks in steps {
                black_box(model.predict(ranks)?);
                model.observe(ranks)?;
            }
            times[index].push(start.elapsed().as_secs_f64() * 1e9 / steps.len() as f64);
        }
    }
    Ok(times.map(median))
}

/// Rows of decode steps with two kinks, and the time of a search over them in both ways.
fn search(rounds: usize) -> (f64, f64) {
    let rows: Vec<Observation> = (0..64_u64)
        .map(|i| {
            let (kv, requests) = ((i * 7919 % 6000) as f64, (i * 31 % 40) as f64);
            let kinks = 0.002 * kv.min(2500.0) + 0.2 * (requests - 15.0).max(0.0);
            let latency_ms = 5.0 + kinks + 0.01 * (i % 11) as f64;
            Observation { features: [kv, requests], latency_ms }
        })
        .collect();
    let (mut fast, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (times, search) in [
            (&mut fast, search_knots as fn(&[Observation], usize) -> Option<SplineModel>),
            (&mut plain, search_knots_plainly),
        ] {
            let start = Instant::now();
            for _ in 0..5 {
                black_box(search(black_box(&rows), 2));
            }
            times.push(start.elapsed().as_secs_f64() * 1e9 / 5.0);
        }
    }
    (median(fast), median(plain))
}

fn main() -> Result<(), forepass::Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let full = arguments.iter().any(|argument| argument == "--bench");
    let rounds = if full { 7 } else { 1 };
    let mut traces = Vec::new();
    for path in arguments.iter().filter(|argument| !argument.starts_with("--")) {
        let reader = TraceReader::open(Path::new(path), &ReadOptions::default())?;
        let steps = reader.map(|step| Ok(step?.ranks)).collect::<forepass::Result<Vec<_>>>()?;
        let [linear, adaptive, periodic, auto] = per_row(&steps, rounds)?;
        traces.push(serde_json::json!({
            "trace": Path::new(path).file_name().map(|name| name.to_string_lossy()),
            "rows": steps.len(),
            "linear_ns": linear,
            "spline_over_linear": adaptive / linear,
            "spline_periodic_over_linear": periodic / linear,
            "auto_over_linear": auto / linear,
        }));
    }
    let (fast, plain) = search(if full { 60 } else { 1 });
    println!(
        "{}",
        serde_json::json!({
            "benchmark": "spline",
            "full": full,
            "traces": traces,
            "search": {"sums_ns": fast, "plain_refits_ns": plain, "ratio": plain / fast},
        })
    );
    Ok(())
}
