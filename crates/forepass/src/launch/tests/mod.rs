//! What a launch resolves to: schemes and backends, fields, the flat form, and any JSON at all.

use serde_json::{Value, json};

use super::*;
use crate::error::Result;

mod fields;
mod flat;
mod materialize;
mod matrix;
mod properties;

/// A launch whose performance model is for this backend and role, and no speculation.
fn launch(backend: &str, role: &str) -> Value {
    json!({
        "engine": {
            "backend": backend,
            "worker_type": role,
            "num_gpu_blocks": 4096,
            "timing_model": {"kind": "external", "provider": "ais", "config": {
                "model": "m", "system": "s", "backend": backend, "worker_type": role
            }}
        }
    })
}

/// The same launch with this speculation, accepted at these rates.
fn speculating(backend: &str, role: &str, speculation: &Value, rates: &str) -> Value {
    let mut launch = launch(backend, role);
    launch["engine"]["timing_model"]["config"]["speculation"] = speculation.clone();
    launch["engine"]["aic_nextn_accept_rates"] = json!(rates);
    launch
}

/// Rates of this depth, different at each level.
fn rates(depth: u32) -> String {
    let rates: Vec<_> = (1..=depth).map(|level| format!("0.{}", 9 - level)).collect();
    rates.join(",")
}

/// A launch of depth 3, of each scheme that the backend can replay.
fn of_depth_3(backend: &str, role: &str) -> Vec<Value> {
    let mtp = json!({"kind": "mtp", "params": {"num_speculative_tokens": 3}});
    let eagle3 =
        json!({"kind": "eagle3", "params": {"tree_shape": [1, 1, 1]}, "draft_model_path": "a/b"});
    let dspark = json!({"kind": "dspark", "params": {"num_draft_tokens": 3}});
    [mtp, eagle3, dspark].iter().map(|kind| speculating(backend, role, kind, &rates(3))).collect()
}

fn read(launch: &Value) -> Result<EngineLaunchConfig> {
    EngineLaunchConfig::from_json(launch.to_string().as_bytes())
}

fn code(launch: &Value) -> &'static str {
    refusal(launch).0
}

fn refusal(launch: &Value) -> (&'static str, String) {
    let error = read(launch).expect_err(&launch.to_string());
    (error.code(), error.path())
}

/// Reads a launch that is right; it is the same once written and read again.
fn accepted(launch: &Value) -> EngineLaunchConfig {
    let read = read(launch).unwrap_or_else(|error| panic!("{error}\n{launch}"));
    let text = read.to_json();
    let again = EngineLaunchConfig::from_json(text.as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again.to_json(), text);
    // Only the sources differ: what was inferred the first time was authored the second.
    assert_eq!((again.depth(), again.acceptance()), (read.depth(), read.acceptance()));
    assert_eq!(again.capacity(), read.capacity());
    read
}

/// Depth of an accepted launch as all of its readers see it.
fn depth(launch: &Value) -> u32 {
    let read = accepted(launch);
    let report = resolve_launch(&launch.to_string());
    let depth = read.depth();
    assert_eq!(read.decode_width(), depth + 1);
    assert_eq!((report.depth, report.decode_width), (Some(depth), Some(depth + 1)));
    let written = serde_json::to_value(&read).unwrap();
    let authored = written["engine"].get("aic_nextn").and_then(Value::as_u64);
    assert_eq!(authored, (depth > 0).then_some(depth.into()));
    assert_eq!(report.aic_nextn, (depth > 0).then_some(depth));
    assert_eq!(read.acceptance().rates().len(), depth as usize);
    depth
}
