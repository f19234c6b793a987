//! A program outside the workspace that depends on the crate by path compiles and runs.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use std::fs;
use std::path::{Path, PathBuf};
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

/// The Rust blocks of README and docs as programs, each by its page and number.
fn programs_of_the_pages(workspace: &Path) -> Vec<(String, String)> {
    let mut pages = vec![workspace.join("README.md")];
    for folder in ["docs", "docs/guides"] {
        let entries = fs::read_dir(workspace.join(folder)).unwrap();
        pages.extend(entries.map(|entry| entry.unwrap().path()));
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let mut programs = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.file_stem().unwrap().to_str().unwrap().to_lowercase();
        for (index, rest) in text.split("```rust\n").skip(1).enumerate() {
            let (block, _) = rest.split_once("\n```").unwrap();
            let main =
                format!("fn main() -> Result<(), forepass::Error> {{\n{block}\nOk(())\n}}\n");
            programs.push((format!("{name}-{index}"), main));
        }
    }
    programs
}

/// Builds a package that depends on the crate by path, with these binaries.
fn built(workspace: &Path, programs: &[(String, String)]) -> PathBuf {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("downstream");
    let sources = package.join("src/bin");
    if sources.exists() {
        fs::remove_dir_all(&sources).unwrap();
    }
    fs::create_dir_all(&sources).unwrap();
    for (name, source) in programs {
        fs::write(sources.join(format!("{name}.rs")), source).unwrap();
    }
    // The lock file of the workspace, so that nothing newer is looked for.
    fs::copy(workspace.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"downstream\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nforepass = {{ path = {:?} }}\n\n[workspace]\n",
        env!("CARGO_MANIFEST_DIR"),
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet"])
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    package.join("target/debug")
}

#[test]
fn programs_outside_the_workspace_compile_and_run_those_of_the_pages_too() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut programs = programs_of_the_pages(&workspace);
    assert!(programs.len() >= 3, "README and the guide to mockers have Rust in them");
    programs.push(("downstream".to_owned(), MAIN.to_owned()));
    let folder = built(&workspace, &programs);
    for (name, _) in &programs {
        let program = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
        let output = Command::new(program).current_dir(&workspace).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stderr}");
        if name == "downstream" {
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert_eq!(stdout, "6.000 ms from Some(Linear)\n");
        }
    }
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
