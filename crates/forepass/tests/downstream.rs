//! A program outside the workspace that depends on the crate by path compiles and runs.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use std::fs;
use std::path::Path;
use std::process::Command;

const MAIN: &str = r##"
use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::{ForwardPassMetrics, ForwardPassModel, WorkerType};

fn main() -> Result<(), forepass::Error> {
    let estimator = EstimatorConfig::from_json(br#"{"fpm_regression": {"min_observations": 3}}"#)?;
    let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Decode, estimator);
    let mut model = ForwardPassModel::new(config.check()?);
    for requests in 1..=4 {
        let step = ForwardPassMetrics::decode(requests, 100 * requests);
        model.observe(&[step.with_wall_time(0.002 * requests as f64)])?;
    }
    let forecast = model.forecast(&[ForwardPassMetrics::decode(3, 300)])?;
    println!("{:.3} ms from {:?}", forecast.ms.unwrap_or(f64::NAN), forecast.source);
    Ok(())
}
"##;

#[test]
fn a_program_outside_the_workspace_compiles_and_runs() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = crate_dir.join("../..").canonicalize().unwrap();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("downstream");
    fs::create_dir_all(program.join("src")).unwrap();
    fs::write(program.join("src/main.rs"), MAIN).unwrap();
    // The lock file of the workspace, so that nothing newer is looked for.
    fs::copy(workspace.join("Cargo.lock"), program.join("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"downstream\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nforepass = {{ path = {:?} }}\n\n[workspace]\n",
        crate_dir.to_str().unwrap(),
    );
    fs::write(program.join("Cargo.toml"), manifest).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet"])
        .current_dir(&program)
        .env("CARGO_TARGET_DIR", program.join("target"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "6.000 ms from Some(Linear)\n");
}

#[test]
fn the_core_knows_no_interpreter() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "forepass", "--edges", "normal,build", "--prefix", "none"])
        .args(["--all-features", "--target", "all"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && tree.starts_with("forepass "), "{tree}");
    assert!(!tree.contains("pyo3"), "{tree}");
}
