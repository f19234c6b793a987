//! What is served, against the best of the forecasts that it is chosen from.

use forepass::{ForwardPassModel, WorkerType};

use crate::accuracy::engines;
use crate::found::recordings;
use crate::recordings::decode_steps;
use crate::synthetic::{AUTO, FRESH, Load, Row, config, decode_model};

/// The models of `auto`, each alone and at no level but its own.
const ROBUST_LINE: &str = r#"{"kind": "linear", "weighting": "relative", "huber": 0.7}"#;
const ROBUST_SPLINE: &str =
    r#"{"kind": "spline", "weighting": "relative", "huber": 0.7, "spline": {"knots_per_axis": 3}}"#;

/// Forecasts to choose from: two models, each as it is and at three levels.
const ARMS: usize = 8;

const MEMORY: f64 = 0.95;

/// Follows the rows, and holds what is served against the bound at each.
///
/// The models are fits that can be configured alone, and the levels are in the diagnostics.
fn follow_all(name: &str, rows: &[Row]) {
    let alone = |fit| ForwardPassModel::new(config(WorkerType::Decode, fit, FRESH));
    let mut auto = decode_model(AUTO);
    let mut models = [alone(ROBUST_LINE), alone(ROBUST_SPLINE)];
    let (mut served, mut errors) = (0.0, [0.0; ARMS]);
    for (index, row) in rows.iter().enumerate() {
        let step = [row.load.step()];
        if let Some(ms) = auto.predict(&step).unwrap() {
            let values = [0, 1].map(|model: usize| models[model].predict(&step).unwrap().unwrap());
            let levels = auto.diagnostics().stores[0].adaptive.clone().unwrap().arms;
            assert_eq!(levels.len(), ARMS);
            let arms: [f64; ARMS] = std::array::from_fn(|arm| values[arm / 4] * levels[arm].level);
            assert!(arms.contains(&ms), "{name}, row {index}: {ms} is none of {arms:?}");
            let error = |forecast: f64| ((forecast / row.observed_ms) - 1.0).abs().min(1.0);
            served = MEMORY * served + error(ms);
            for (sum, forecast) in errors.iter_mut().zip(arms) {
                *sum = MEMORY * *sum + error(forecast);
            }
            let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
            let bound = 2.0 * (2.0 * best + 8.0_f64.ln()) / (1.0 - (-2.0_f64).exp());
            assert!(served <= bound + 1e-9, "{name}, row {index}: {served} > {bound}");
        }
        let timed = [row.load.timed(row.observed_ms)];
        for model in models.iter_mut().chain([&mut auto]) {
            model.observe(&timed).unwrap();
        }
    }
}

#[test]
fn what_is_served_is_one_of_the_forecasts_and_within_the_bound_of_the_best() {
    for engine in engines() {
        follow_all(engine.name, &engine.run());
    }
}

#[test]
fn it_is_within_the_bound_on_recordings() {
    for path in recordings(&["b300", "cpu"]) {
        let rows: Vec<_> = decode_steps(&path)
            .iter()
            .take(2000)
            .map(|step| {
                let scheduled = &step.scheduled_requests;
                let load = Load {
                    requests: scheduled.num_decode_requests,
                    kv_tokens: scheduled.sum_decode_kv_tokens,
                };
                let ms = 1000.0 * step.wall_time;
                Row { load, truth_ms: ms, observed_ms: ms, is_spike: false }
            })
            .collect();
        follow_all(&path.display().to_string(), &rows);
    }
}
