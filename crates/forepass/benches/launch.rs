//! From the JSON text of a launch to the launch, against reading the text as any JSON.
//!
//! `cargo bench -p forepass --bench launch` prints one JSON object; without `--bench` (as in
//! `cargo test --benches`) it runs a few times only, to show that it works.

use std::hint::black_box;
use std::time::Instant;

use forepass::resolve_launch;
use serde_json::{Value, json};

fn canonical() -> Value {
    json!({
        "engine": {
            "backend": "vllm", "worker_type": "decode", "num_gpu_blocks": 4096, "block_size": 32,
            "max_num_seqs": 128, "aic_nextn_accept_rates": "0.8,0.6,0.4",
            "timing_model": {"kind": "external", "provider": "ais", "config": {
                "model": "llama-70b", "system": "h200", "backend": "vllm",
                "worker_type": "decode", "tp": 4,
                "speculation": {"kind": "mtp", "params": {"num_speculative_tokens": 3}}
            }}
        },
        "startup_time": 12.5
    })
}

fn flat() -> Value {
    let mut flat = canonical()["engine"].clone();
    flat["ais_perf_config"] = flat["timing_model"]["config"].take();
    flat["timing_model"] = Value::Null;
    flat
}

/// Median time of one call, in microseconds.
fn median_us(rounds: usize, calls: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                work();
            }
            start.elapsed().as_secs_f64() * 1e6 / calls as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (rounds, calls) = if full { (200, 200) } else { (1, 2) };
    let mut results = Vec::new();
    for (form, launch) in [("canonical", canonical()), ("flat", flat())] {
        let text = launch.to_string();
        let resolve = median_us(rounds, calls, || {
            black_box(resolve_launch(black_box(&text)).is_ok());
        });
        let report = median_us(rounds, calls, || {
            black_box(resolve_launch(black_box(&text)).to_json().len());
        });
        let parse = median_us(rounds, calls, || {
            black_box(serde_json::from_str::<Value>(black_box(&text)).is_ok());
        });
        results.push(json!({
            "form": form,
            "bytes": text.len(),
            "ok": resolve_launch(&text).is_ok(),
            "resolve_us": resolve,
            "resolve_and_write_us": report,
            "parse_us": parse,
            "resolve_over_parse": resolve / parse,
        }));
    }
    println!("{}", json!({"benchmark": "launch", "full": full, "results": results}));
}
