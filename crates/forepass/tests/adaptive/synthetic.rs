//! Synthetic engines: loads, what they truly cost, and what a noisy clock reads of it.

use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::{CheckedConfig, ForwardPassMetrics, ForwardPassModel, WorkerType};

/// The fit under test, and the one it is to beat.
pub(crate) const AUTO: &str = r#"{"kind": "auto"}"#;
pub(crate) const LINEAR: &str = r#"{"kind": "linear"}"#;

/// The retention of `auto`, spelled out for fits that are compared with it.
pub(crate) const FRESH: &str = r#"{"recent": 32, "max_age": 4096}"#;

pub(crate) fn config(worker_type: WorkerType, fit: &str, sampling: &str) -> CheckedConfig {
    let json = format!(r#"{{"fpm_regression": {{"fit": {fit}, "sampling": {sampling}}}}}"#);
    let estimator = EstimatorConfig::from_json(json.as_bytes()).unwrap();
    ForwardPassPerfModelConfig::for_worker(worker_type, estimator).check().unwrap()
}

pub(crate) fn decode_model(fit: &str) -> ForwardPassModel {
    ForwardPassModel::new(config(WorkerType::Decode, fit, "{}"))
}

/// Splitmix64: the same numbers everywhere and always.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 (inclusive) to 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number from `least` to `greatest`.
    pub(crate) fn between(&mut self, least: u64, greatest: u64) -> u64 {
        least + self.next() % (greatest - least + 1)
    }

    /// Of the standard normal distribution (Box and Muller), cut off at 4.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * self.uniform()).cos()).clamp(-4.0, 4.0)
    }
}

/// A decode step: requests, and the tokens that they have in the KV cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) kv_tokens: u64,
}

impl Load {
    pub(crate) fn step(self) -> ForwardPassMetrics {
        ForwardPassMetrics::decode(self.requests, self.kv_tokens)
    }

    pub(crate) fn timed(self, ms: f64) -> ForwardPassMetrics {
        self.step().with_wall_time(ms / 1000.0)
    }

    /// Thousands of KV tokens, and requests.
    pub(crate) fn axes(self) -> (f64, f64) {
        (self.kv_tokens as f64 / 1000.0, self.requests as f64)
    }
}

/// 1 to 64 requests of 200 to 8,000 tokens each.
pub(crate) fn serving(random: &mut Random) -> Load {
    let requests = random.between(1, 64);
    Load { requests, kv_tokens: requests * random.between(200, 8000) }
}

/// One engine.
#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    pub(crate) rows: usize,
    pub(crate) load: fn(&mut Random) -> Load,
    /// What a load truly costs at a row, milliseconds.
    pub(crate) truth: fn(Load, usize) -> f64,
    /// Standard deviation of a reading, as a share of the truth.
    pub(crate) noise: fn(Load) -> f64,
    /// Share of rows that are spikes, of up to 1000 times the truth.
    pub(crate) spikes: f64,
}

/// The noise of most engines: 3 %.
pub(crate) fn three_percent(_: Load) -> f64 {
    0.03
}

/// Latency without a kink: 5 ms, 0.02 ms for a thousand tokens, 0.1 ms for a request.
pub(crate) fn line(load: Load, _: usize) -> f64 {
    let (kv, requests) = load.axes();
    5.0 + 0.02 * kv + 0.1 * requests
}

/// One row of a run.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) load: Load,
    pub(crate) truth_ms: f64,
    pub(crate) observed_ms: f64,
    pub(crate) is_spike: bool,
}

impl Engine {
    pub(crate) const PLAIN: Self = Self {
        name: "plain",
        rows: 3000,
        load: serving,
        truth: line,
        noise: three_percent,
        spikes: 0.0,
    };

    /// The rows that this engine reports; the seed is of its name and so of the engine alone.
    pub(crate) fn run(&self) -> Vec<Row> {
        let seed = self.name.bytes().fold(7, |seed, byte| 31 * seed % 1_000_003 + u64::from(byte));
        let mut random = Random(seed);
        (0..self.rows)
            .map(|row| {
                let load = (self.load)(&mut random);
                let truth_ms = (self.truth)(load, row);
                let is_spike = random.uniform() < self.spikes;
                // Spikes are from 3 to 1000 times the truth, evenly by order of magnitude.
                let size = (3.0_f64.ln() + random.uniform() * (1000.0_f64 / 3.0).ln()).exp();
                let scatter = 1.0 + (self.noise)(load) * random.normal();
                let observed_ms = truth_ms * scatter * if is_spike { size } else { 1.0 };
                Row { load, truth_ms, observed_ms, is_spike }
            })
            .collect()
    }
}

/// What a model did on the rows of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Mean error against the truth, relative to it.
    pub(crate) truth_error: f64,
    /// Mean error of the readings themselves, spikes aside.
    pub(crate) noise: f64,
    /// Answered among rows after the first 64.
    pub(crate) coverage: f64,
}

/// Predicts each row of the run and then learns from it.
pub(crate) fn follow(mut model: ForwardPassModel, rows: &[Row]) -> Outcome {
    let (mut error, mut answered, mut noise, mut clean) = (0.0, 0_u32, 0.0, 0_u32);
    for (index, row) in rows.iter().enumerate() {
        let forecast = model.predict(&[row.load.step()]).unwrap();
        if index >= 64 {
            if let Some(ms) = forecast {
                error += (ms / row.truth_ms - 1.0).abs();
                answered += 1;
            }
            if !row.is_spike {
                noise += (row.observed_ms / row.truth_ms - 1.0).abs();
                clean += 1;
            }
        }
        model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
    }
    Outcome {
        truth_error: error / f64::from(answered),
        noise: noise / f64::from(clean),
        coverage: f64::from(answered) / (rows.len() - 64) as f64,
    }
}
