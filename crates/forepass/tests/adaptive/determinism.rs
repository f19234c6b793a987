//! The same rows leave the same bits, on recordings as on synthetic engines.

use forepass::{ForwardPassMetrics, ForwardPassModel, ReadOptions, TraceReader, WorkerType};

use crate::accuracy::engines;
use crate::found::recordings;
use crate::synthetic::{AUTO, config};

/// Follows the steps with two models, and a clone of the first one made halfway.
fn all_agree(name: &str, steps: &[ForwardPassMetrics]) {
    let new = || ForwardPassModel::new(config(WorkerType::Aggregated, AUTO, "{}"));
    let mut models = vec![new(), new()];
    let mut answered = 0;
    for (index, step) in steps.iter().enumerate() {
        if index == steps.len() / 2 {
            models.push(models[0].clone());
        }
        let bits: Vec<_> = models
            .iter()
            .map(|model| {
                let forecast = model.forecast_at(std::slice::from_ref(step), 0.9).unwrap();
                let interval = forecast.interval_ms.map(|ends| ends.map(f64::to_bits));
                (forecast.ms.map(f64::to_bits), interval, forecast.source, forecast.reason)
            })
            .collect();
        assert!(bits.iter().all(|other| *other == bits[0]), "{name}, row {index}: {bits:?}");
        answered += usize::from(bits[0].0.is_some());
        for model in &mut models {
            model.observe(std::slice::from_ref(step)).unwrap();
        }
    }
    assert!(2 * answered > steps.len(), "{name}: {answered}");
    assert_eq!(models[0], models[1], "{name}");
    assert_eq!(models[0], models[2], "{name}");
}

#[test]
fn the_same_rows_leave_the_same_bits() {
    for engine in engines() {
        let timed = |row: &crate::synthetic::Row| row.load.timed(row.observed_ms);
        all_agree(engine.name, &engine.run().iter().map(timed).collect::<Vec<_>>());
    }
    for path in recordings(&["cpu"]) {
        let reader = TraceReader::open(&path, &ReadOptions::default()).unwrap();
        let steps: Vec<_> =
            reader.take(3000).map(|iteration| iteration.unwrap().ranks.swap_remove(0)).collect();
        all_agree(&path.display().to_string(), &steps);
    }
}
