//! The spline as a Rust program uses it, against hand-derived numbers.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::retention::Observation;
use forepass::spline::{Basis, SplineModel};
use forepass::store::StoreDiagnostics;
use forepass::{ForwardPassMetrics, ForwardPassModel, Source, WorkerType};

fn decode_model(regression: &str) -> ForwardPassModel {
    let estimator = format!(r#"{{"fpm_regression": {regression}}}"#);
    let estimator = EstimatorConfig::from_json(estimator.as_bytes()).unwrap();
    let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Decode, estimator);
    ForwardPassModel::new(config.check().unwrap())
}

fn observe(model: &mut ForwardPassModel, requests: u64, kv: u64, latency_ms: f64) {
    let step = ForwardPassMetrics::decode(requests, kv).with_wall_time(latency_ms / 1000.0);
    model.observe(&[step]).unwrap();
}

fn store(model: &ForwardPassModel) -> StoreDiagnostics {
    model.diagnostics().stores.remove(0)
}

fn searches(model: &ForwardPassModel) -> u64 {
    store(model).spline.unwrap().knot_searches
}

/// The grid {0, 0.1, ..., 1}² with latencies of a known spline.
fn grid(latency_ms: impl Fn(f64, f64) -> f64) -> Vec<Observation> {
    (0..121)
        .map(|i| (f64::from(i / 11) / 10.0, f64::from(i % 11) / 10.0))
        .map(|(a, f)| Observation { features: [a, f], latency_ms: latency_ms(a, f) })
        .collect()
}

/// A continuous piecewise line from 0 with these slopes between these knots.
fn piecewise(x: f64, knots: &[f64], slopes: &[f64]) -> f64 {
    let mut left = 0.0;
    let mut value = 0.0;
    for (index, slope) in slopes.iter().enumerate() {
        let right = knots.get(index).copied().unwrap_or(f64::INFINITY);
        value += slope * (x.min(right) - left).max(0.0);
        left = right;
    }
    value
}

#[test]
fn a_spline_of_known_knots_is_recovered() {
    // Specification vector 25: (0.5, 0.5) is 3 + (20 + 6) + (18 + 3) = 50.
    let (first, second) = ([0.2, 0.6], [0.3, 0.7]);
    let rows = grid(|a, f| {
        3.0 + piecewise(a, &first, &[100.0, 20.0, 2.0]) + piecewise(f, &second, &[60.0, 15.0, 1.0])
    });
    let basis = Basis::new([1.0, 1.0], [&first, &second]).unwrap();
    let (model, sse) = SplineModel::fit(&basis, &rows).unwrap();
    assert!((model.value(&[0.5, 0.5]) - 50.0).abs() < 1e-10);
    assert!(sse < 1e-9 * 3e5, "{sse}");
    let expected = [100.0, 20.0, 2.0, 0.0, 60.0, 15.0, 1.0, 0.0];
    for (price, expected) in model.prices().iter().zip(expected) {
        assert!((price - expected).abs() < 1e-8, "{price} for {expected}");
    }
}

#[test]
fn three_knots_an_axis_are_recovered() {
    // Specification vector 26: (0.6, 0.6) is 3 + (20 + 12 + 1) + (6 + 6 + 1) = 49.
    let (first, second) = ([0.2, 0.5, 0.8], [0.1, 0.4, 0.7]);
    let rows = grid(|a, f| {
        3.0 + piecewise(a, &first, &[100.0, 40.0, 10.0, 2.0])
            + piecewise(f, &second, &[60.0, 20.0, 5.0, 1.0])
    });
    let basis = Basis::new([1.0, 1.0], [&first, &second]).unwrap();
    let (model, _) = SplineModel::fit(&basis, &rows).unwrap();
    assert!((model.value(&[0.6, 0.6]) - 49.0).abs() < 1e-10);
    assert!((model.value(&[0.0, 0.0]) - 3.0).abs() < 1e-10);
}

#[test]
fn a_spline_is_continuous_and_rises_everywhere() {
    // Cases C2, C4 and C7: at each knot and one ulp around it, far outside, and in between.
    let rows = grid(|a, f| 5.0 + 30.0 * a.min(0.4) + 2.0 * (f - 0.5).max(0.0) + 0.01 * a * f);
    let (first, second) = ([0.25, 0.4, 0.75], [0.3, 0.5]);
    let basis = Basis::new([1.0, 1.0], [&first, &second]).unwrap();
    let (model, _) = SplineModel::fit(&basis, &rows).unwrap();
    assert!(model.prices().iter().all(|&price| price >= 0.0));
    for &knot in first.iter().chain(&second) {
        let around = [knot.next_down(), knot, knot.next_up()];
        for axis in [|x| [x, 0.5], |x| [0.5, x]] {
            let values = around.map(|x| model.value(&axis(x)));
            assert!(values[0] <= values[1] && values[1] <= values[2]);
            assert!(values[2] - values[0] < 1e-12);
        }
    }
    let steps = (0..1000).map(|i| f64::from(i) * 0.1);
    let values: Vec<_> = steps.map(|x| model.value(&[x, x])).collect();
    assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn constant_latency_is_no_signal_however_much_load_varies() {
    // As specification vector 27: forty rows of 10 ms.
    let mut model = decode_model(r#"{"fit": {"kind": "spline", "spline": {"knots_per_axis": 3}}}"#);
    for i in 0..40 {
        observe(&mut model, 1 + i % 3, 100 * (i % 3), 10.0);
    }
    let spline = store(&model).spline.unwrap();
    assert!(spline.initialized && !spline.ready);
    let knots = spline.knots.unwrap();
    assert_eq!([knots[0].len(), knots[1].len()], [2, 2], "three values leave room for two knots");
    assert_eq!(model.predict(&[ForwardPassMetrics::decode(2, 100)]), Ok(None));
}

#[test]
fn the_spline_answers_only_where_the_line_does() {
    // Specification vector 28: latency 100 at kv 0, 1 for 1 to 23, 10 above: the line falls.
    let mut model = decode_model(r#"{"fit": {"kind": "spline"}}"#);
    for kv in 0..32 {
        let latency_ms = if kv == 0 {
            100.0
        } else if kv <= 23 {
            1.0
        } else {
            10.0
        };
        observe(&mut model, 1, kv, latency_ms);
    }
    let diagnostics = store(&model);
    assert!(!diagnostics.ready && diagnostics.spline.unwrap().ready);
    for kv in 0..40 {
        assert_eq!(model.predict(&[ForwardPassMetrics::decode(1, kv)]), Ok(None));
    }
    for kv in 0..32 {
        observe(&mut model, 1, kv, 5.0 + kv as f64);
    }
    let forecast = model.forecast(&[ForwardPassMetrics::decode(1, 16)]).unwrap();
    assert_eq!(forecast.source, Some(Source::Spline));
    let beyond = model.forecast(&[ForwardPassMetrics::decode(1, 1000)]).unwrap();
    assert_eq!(beyond.source, Some(Source::Linear));
}

#[test]
fn searches_come_at_multiples_of_the_step() {
    // Specification vector 29: none below 32, then 1 + ⌊i/step⌋ - ⌊32/step⌋.
    for step in [8, 16, 32, 64, 128] {
        let search = format!(r#"{{"kind": "periodic", "step": {step}}}"#);
        let fit = format!(r#"{{"kind": "spline", "spline": {{"search": {search}}}}}"#);
        let sampling = r#"{"max_observations": 32}"#;
        let mut model = decode_model(&format!(r#"{{"fit": {fit}, "sampling": {sampling}}}"#));
        for i in 1..=300 {
            observe(&mut model, 1 + i % 4, 10 * (i % 9), 5.0 + (i % 9) as f64);
            let expected = if i < 32 { 0 } else { 1 + i / step - 32 / step };
            assert_eq!(searches(&model), expected, "step {step}, observation {i}");
        }
    }
    let mut late = decode_model(r#"{"fit": {"kind": "spline"}, "min_observations": 40}"#);
    for i in 1..=40 {
        assert_eq!(searches(&late), 0);
        observe(&mut late, 1 + i % 4, 10 * (i % 9), 5.0 + (i % 9) as f64);
    }
    assert_eq!(store(&late).spline.unwrap().last_search_observation, Some(40));
}

#[test]
fn a_search_without_signal_still_counts() {
    // Specification vector 30: forty constant rows at period 10,000, then eleven that vary.
    let mut model = decode_model(
        r#"{"fit": {"kind": "spline", "spline": {"search": {"kind": "periodic", "step": 10000}}}}"#,
    );
    for _ in 0..40 {
        observe(&mut model, 2, 100, 10.0);
    }
    let spline = store(&model).spline.unwrap();
    assert!(spline.initialized && !spline.ready);
    assert_eq!(
        (spline.knot_searches, model.predict(&[ForwardPassMetrics::decode(2, 100)])),
        (1, Ok(None))
    );
    for i in 0..11 {
        observe(&mut model, 2 + i, 100 + 10 * i, 10.0 + i as f64);
    }
    let spline = store(&model).spline.unwrap();
    assert!(spline.ready);
    assert_eq!(spline.knot_searches, 1);
}

#[test]
fn an_adaptive_spline_searches_again_once_it_is_wrong() {
    // Specification vector 31: constant latency, then alternating 20 and 40: second search at 96.
    let mut model = decode_model(r#"{"fit": {"kind": "spline"}}"#);
    for i in 1..=120_u64 {
        let latency_ms = if i <= 32 { 10.0 } else { 20.0 * (1 + i % 2) as f64 };
        observe(&mut model, 1 + i % 5, 10 * (i % 7), latency_ms);
        let expected = match i {
            0..32 => 0,
            32..96 => 1,
            _ => 2,
        };
        assert_eq!(searches(&model), expected, "observation {i}");
    }
}

/// Inputs up to 170 at which the line's rebuild, and any of the spline's, was counted; one cell of
/// 32 rows, a search every 64 inputs, a rebuild due every 70 insertions and evictions.
fn rebuilt_at(first_kv: u64) -> (Vec<u64>, Vec<u64>) {
    let mut model = decode_model(
        r#"{
            "sampling": {"bins_per_axis": [1, 1], "max_observations": 32},
            "fit": {
                "kind": "spline",
                "rebuild_interval": 70,
                "spline": {"search": {"kind": "periodic", "step": 64}}
            }
        }"#,
    );
    let (mut line, mut spline) = (Vec::new(), Vec::new());
    let mut before = (0, 0);
    for i in 1..=170_u64 {
        let kv = if i == 1 { first_kv } else { 10 * (i % 7) };
        observe(&mut model, 1 + i % 5, kv, 5.0 + (i % 7) as f64 + 0.5 * (i % 5) as f64);
        let store = store(&model);
        let after = (store.rebuilds.scheduled, store.spline.unwrap().numerical_rebuilds);
        line.extend((after.0 > before.0).then_some(i));
        spline.extend((after.1 > before.1).then_some(i));
        before = after;
    }
    (line, spline)
}

#[test]
fn a_search_starts_the_clock_of_the_spline_anew_but_not_that_of_the_line() {
    // Specification vector 33. The line's clock counts 32 insertions, then two an input: 70 at
    // 32 + 19 = 51, and every 35 inputs after that. The spline's starts with the searches at 32,
    // 64 and 128: 62 at 63, 70 at 64 + 35 = 99, 56 at 127, 70 at 128 + 35 = 163.
    let (line, spline) = rebuilt_at(0);
    assert_eq!(line, [51, 86, 121, 156]);
    assert_eq!(spline, [99, 163]);
}

#[test]
fn a_recovery_leaves_the_schedule_alone() {
    // The first load is so large that, when it leaves with the first eviction at 33, both sets of
    // statistics have to be rebuilt. Whoever asks for a rebuild every so many updates is to find
    // it at inputs that follow from counting them; a recovery comes as the data would have it, and
    // one that moved the schedule would make the promise hang on them.
    let (line, spline) = rebuilt_at(4_000_000_000);
    assert_eq!(line, [51, 86, 121, 156]);
    assert_eq!(spline, [33, 99, 163]);
}

#[test]
fn rebuilds_for_cause_and_on_schedule_are_counted_side_by_side() {
    // Specification vector 34: a search every 4 inputs, a rebuild due every 2, no evictions. The
    // loads rise together but for parts in 1e5, so that no fit from recursive statistics is clear
    // enough. In each epoch of four inputs, the first falls back, the second is due (and needs no
    // fallback), the third falls back, and the fourth searches, which counts as none. A fallback
    // that started the clock anew would let no rebuild ever fall due.
    let mut model = decode_model(
        r#"{
            "fit": {
                "kind": "spline",
                "rebuild_interval": 2,
                "spline": {"search": {"kind": "periodic", "step": 4}}
            }
        }"#,
    );
    for i in 1..=64_u64 {
        let requests = 1 + i % 8;
        observe(&mut model, requests, 10_000 * requests + i % 3, 5.0 + requests as f64);
        let spline = store(&model).spline.unwrap();
        let (epochs, since) = (i.saturating_sub(32) / 4, i.saturating_sub(32) % 4);
        let counts = (spline.numerical_rebuilds, spline.batch_fallbacks);
        assert_eq!(counts, (3 * epochs + since, 2 * epochs + since.div_ceil(2)), "input {i}");
        assert_eq!(spline.knot_searches, if i < 32 { 0 } else { 1 + epochs });
    }
}

#[test]
fn knots_stay_between_searches() {
    // Case C3: rows come and go, the knots do not move.
    let mut model = decode_model(
        r#"{"fit": {"kind": "spline", "spline": {"search": {"kind": "periodic", "step": 1000}}}}"#,
    );
    for i in 0..40 {
        observe(&mut model, 1 + i % 8, 100 * i, 5.0 + 0.1 * i as f64);
    }
    let knots = store(&model).spline.unwrap().knots;
    for i in 40..200 {
        observe(&mut model, 1 + i % 8, 100 * i, 5.0 + 0.2 * i as f64);
        assert_eq!(store(&model).spline.unwrap().knots, knots);
    }
}

#[test]
fn the_kinds_that_name_a_line_are_one() {
    // Specification vector 40: the same forecasts under each spelling, and no spline in sight.
    let spellings =
        [r"{}", r#"{"fit": {"kind": "linear"}}"#, r#"{"fit": {"kind": "standardized_nnls"}}"#];
    let mut models = spellings.map(decode_model);
    for i in 0..89 {
        for model in &mut models {
            observe(model, 1 + i % 7, 13 * i % 997, 5.0 + (i % 11) as f64);
        }
        let query = [ForwardPassMetrics::decode(3, 500)];
        let forecasts: Vec<_> = models.iter().map(|model| model.forecast(&query)).collect();
        assert!(forecasts.windows(2).all(|pair| pair[0] == pair[1]));
    }
    let diagnostics = serde_json::to_value(models[1].diagnostics()).unwrap();
    assert_eq!(diagnostics["retained_observations"], 64);
    assert!(diagnostics["stores"][0].get("spline").is_none());
}
