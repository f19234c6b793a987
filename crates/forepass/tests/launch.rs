//! A launch as a Rust program uses it: the example that schedules.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

fn launch(speculation: Option<Value>) -> Value {
    let mut launch = json!({"engine": {
        "num_gpu_blocks": 64, "worker_type": "decode",
        "timing_model": {"kind": "external", "provider": "ais", "config": {
            "model": "m", "system": "s", "backend": "vllm", "worker_type": "decode"
        }}
    }});
    if let Some(speculation) = speculation {
        launch["engine"]["timing_model"]["config"]["speculation"] = speculation;
        launch["engine"]["aic_nextn_accept_rates"] = json!("1,1,1");
    }
    launch
}

/// What the example says about a launch, and whether it succeeds.
fn scheduled(name: &str, launch: &Value) -> (bool, String) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, launch.to_string()).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--example", "scheduler", "--"])
        .arg(&path)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.success(), out + &err)
}

/// 40 tokens take 40 steps of one token, or 10 of four: three drafts, always accepted, and the one
/// that the model adds. A step of 8 rows takes 4.8 ms by the law that the example learns from, one
/// of 32 rows 7.2 ms.
#[test]
fn a_scheduler_steps_as_deep_as_its_launch_says() {
    let (ok, plain) = scheduled("plain.json", &launch(None));
    assert!(ok, "{plain}");
    assert!(plain.contains("depth 0, decode width 1: 40 tokens"), "{plain}");
    assert!(plain.contains("in 40 steps, 192.0 ms"), "{plain}");
    let mtp = json!({"kind": "mtp", "params": {"depth": 3}});
    let (ok, deep) = scheduled("deep.json", &launch(Some(mtp)));
    assert!(ok, "{deep}");
    assert!(deep.contains("depth: engine.timing_model.config.speculation.params.depth"), "{deep}");
    assert!(deep.contains("depth 3, decode width 4: 40 tokens"), "{deep}");
    assert!(deep.contains("in 10 steps, 72.0 ms"), "{deep}");
}

#[test]
fn a_launch_that_is_refused_schedules_nothing() {
    let tree = json!({"kind": "eagle3", "params": {"tree_shape": [1, 4]}, "draft_config": {}});
    let (ok, told) = scheduled("tree.json", &launch(Some(tree)));
    assert!(!ok && told.contains("E_TREE") && told.contains("verify width 6"), "{told}");
}
