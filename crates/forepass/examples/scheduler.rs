//! A toy scheduler that speculates as deep as its launch says, timed by a learned model.
//!
//! `cargo run --example scheduler -- LAUNCH.json` reads a launch, shows how deep it drafts and
//! why, and steps a batch of requests until each has produced its tokens.

use std::error::Error;
use std::fs;

use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::speculation::decode_rows;
use forepass::{
    EngineLaunchConfig, ForwardPassMetrics, ForwardPassModel, WorkerType, resolve_launch,
};

const REQUESTS: u32 = 8;
const PROMPT_TOKENS: u64 = 100;
const OUTPUT_TOKENS: u64 = 40;

/// One decode step of a batch, of which each request verifies `rows / requests` tokens.
fn step(rows: u32, tokens_before: f64) -> ForwardPassMetrics {
    // Whole tokens, of a size that a u64 holds.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let kv_tokens = (f64::from(rows) * (PROMPT_TOKENS as f64 + tokens_before)) as u64;
    ForwardPassMetrics::decode(rows.into(), kv_tokens)
}

/// A model that learned from an engine whose step takes 4 ms, and 0.1 ms more for each row.
fn trained() -> Result<ForwardPassModel, forepass::Error> {
    let estimator = EstimatorConfig::default();
    let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Decode, estimator);
    let mut model = ForwardPassModel::new(config.check()?);
    for rows in 1..=2 * REQUESTS * 6 {
        let wall_time_s = (4.0 + 0.1 * f64::from(rows)) / 1e3;
        model.observe(&[step(rows, f64::from(rows % 7)).with_wall_time(wall_time_s)])?;
    }
    Ok(model)
}

/// Steps a batch to its end; gives the number of steps and the time they take, in milliseconds.
fn run(launch: &EngineLaunchConfig) -> Result<(u32, f64), Box<dyn Error>> {
    let model = trained()?;
    let batch = launch
        .max_num_seqs
        .map_or(REQUESTS, |most| REQUESTS.min(most.try_into().unwrap_or(REQUESTS)));
    let rows = decode_rows(batch, launch.depth())?;
    let progress = launch.acceptance().expected_progress();
    let (mut steps, mut total_ms, mut tokens) = (0, 0.0, 0.0);
    while tokens < OUTPUT_TOKENS as f64 {
        total_ms += model.predict(&[step(rows, tokens)])?.ok_or("the model abstains")?;
        tokens += progress;
        steps += 1;
    }
    Ok((steps, total_ms))
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give a file with a launch")?;
    let report = resolve_launch(&fs::read_to_string(path)?);
    for (name, source) in &report.provenance {
        println!("{name}: {source}");
    }
    if let Some(error) = report.error {
        return Err(format!("{}: {error}", error.code()).into());
    }
    let launch = report.launch.ok_or("no launch")?;
    let (steps, total_ms) = run(&launch)?;
    println!(
        "depth {}, decode width {}: {OUTPUT_TOKENS} tokens for {REQUESTS} requests in {steps} \
         steps, {total_ms:.1} ms",
        launch.depth(),
        launch.decode_width()
    );
    Ok(())
}
