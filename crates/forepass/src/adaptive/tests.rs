use super::*;
use crate::retention::Freshness;

fn params() -> AdaptiveParams {
    AdaptiveParams {
        linear: LinearParams::default(),
        line: true,
        knots_per_axis: Some(3),
        weighting: Weighting { relative: true, huber: Some(0.7) },
        level_tracking: true,
    }
}

/// A fit and the rows that it keeps.
struct Stand {
    adaptive: Adaptive,
    retention: Retention,
}

impl Stand {
    fn new(params: AdaptiveParams) -> Self {
        let retention = Retention::new([4, 4], 64).with_freshness(Freshness::new(32, 4096));
        Self { adaptive: Adaptive::new(params, 64), retention }
    }

    fn observe(&mut self, features: [f64; 2], latency_ms: f64) {
        let observation = Observation { features, latency_ms };
        self.adaptive.judge(&observation, &self.retention, None);
        self.retention.insert(observation);
        self.adaptive.update(&self.retention);
    }

    fn ms(&self, features: [f64; 2]) -> f64 {
        self.adaptive.forecast(&features, &self.retention, None).unwrap().ms
    }
}

/// Loads that go round both axes.
fn load(step: u32) -> [f64; 2] {
    [1000.0 + f64::from(step * 7 % 64) * 100.0, 1.0 + f64::from(step * 13 % 32)]
}

fn cost([attention, ffn]: [f64; 2]) -> f64 {
    5.0 + attention / 1000.0 + 0.25 * ffn
}

#[test]
fn a_few_clean_rows_give_the_line_through_them() {
    let mut stand = Stand::new(params());
    for step in 0..4 {
        stand.observe(load(step), cost(load(step)));
        let answer = stand.adaptive.forecast(&load(9), &stand.retention, None);
        assert_eq!(answer, Err(Reason::Cold));
    }
    stand.observe(load(4), cost(load(4)));
    // Five rows on one plane: 5 + 2.5 + 2 = 9.5 at an attention of 2500 and 8 FFN tokens.
    assert!((stand.ms([2500.0, 8.0]) - 9.5).abs() < 1e-9);
}

#[test]
fn spikes_of_a_thousand_times_do_not_move_a_forecast() {
    let mut stand = Stand::new(params());
    for step in 0..400 {
        let spike = if step % 20 == 7 { 1000.0 } else { 1.0 };
        stand.observe(load(step), spike * cost(load(step)));
        if step >= 64 && step % 20 != 7 {
            let next = load(step + 1);
            assert!((stand.ms(next) / cost(next) - 1.0).abs() < 0.02, "{step}");
        }
    }
}

#[test]
fn a_new_level_is_followed_within_a_few_rows() {
    let mut stand = Stand::new(params());
    for step in 0..500 {
        stand.observe(load(step), cost(load(step)));
    }
    for step in 500..510 {
        stand.observe(load(step), 1.8 * cost(load(step)));
    }
    let next = load(510);
    assert!((stand.ms(next) / (1.8 * cost(next)) - 1.0).abs() < 0.02, "{}", stand.ms(next));
    for step in 510..700 {
        stand.observe(load(step), 1.8 * cost(load(step)));
    }
    // By then the models themselves have been fitted to the new level.
    let served = stand.adaptive.forecast(&load(700), &stand.retention, None).unwrap();
    assert!((served.ms / (1.8 * cost(load(700))) - 1.0).abs() < 0.001, "{served:?}");
}

#[test]
fn beyond_the_retained_loads_the_forecast_goes_on_along_the_line() {
    let mut stand = Stand::new(params());
    for step in 0..300 {
        stand.observe(load(step), cost(load(step)));
    }
    let beyond = [20_000.0, 64.0];
    let served = stand.adaptive.forecast(&beyond, &stand.retention, None).unwrap();
    assert_eq!(served.reason, Some(Reason::Extrapolating));
    assert!((served.ms / cost(beyond) - 1.0).abs() < 1e-6, "{served:?}");
}

#[test]
fn beyond_the_loads_of_one_feature_more_of_the_other_is_not_faster() {
    let mut stand = Stand::new(params());
    // Tokens cost nothing from the eighth on, as the spline can tell and the line cannot.
    let cost = |[attention, ffn]: [f64; 2]| 5.0 + attention / 1000.0 + ffn.min(8.0);
    for step in 0..300 {
        stand.observe(load(step), cost(load(step)));
    }
    let forecasts = [10.0, 20.0, 30.0].map(|ffn| stand.ms([20_000.0, ffn]));
    assert!(forecasts.is_sorted(), "{forecasts:?}");
    assert!((forecasts[0] / cost([20_000.0, 10.0]) - 1.0).abs() < 0.1, "{forecasts:?}");
}

#[test]
fn a_line_does_not_fall_below_zero_without_load() {
    let mut stand = Stand::new(params());
    // Latency grows with the square of load: the best line has a negative intercept.
    for step in 0..60_u32 {
        let attention = 100.0 + f64::from(step % 20) * 50.0;
        stand.observe([attention, 1.0], attention * attention / 1e4);
    }
    let line = stand.adaptive.line().unwrap();
    assert!(line.value(&[0.0, 0.0]) >= 0.0, "{line:?}");
    assert!(stand.ms([1.0, 1.0]) > 0.0);
}

#[test]
fn a_floor_is_served_where_the_mixed_store_knows_less() {
    let mut stand = Stand::new(params());
    for step in 0..100 {
        stand.observe(load(step), cost(load(step)));
    }
    let own = stand.ms(load(7));
    let floored = stand.adaptive.forecast(&load(7), &stand.retention, Some(own + 1.0)).unwrap();
    assert_eq!((floored.ms, floored.source), (own + 1.0, Source::PartFloor));
    let below = stand.adaptive.forecast(&load(7), &stand.retention, Some(own - 1.0)).unwrap();
    assert_eq!(below.ms, own);
}

#[test]
fn only_what_the_options_name_takes_part() {
    let arms = |params| -> Vec<_> {
        let mut stand = Stand::new(params);
        for step in 0..100 {
            stand.observe(load(step), cost(load(step)));
        }
        let arms = stand.adaptive.diagnostics().arms;
        arms.iter().map(|arm| (arm.source, arm.level_window)).collect()
    };
    let still = AdaptiveParams { level_tracking: false, ..params() };
    assert_eq!(arms(AdaptiveParams { knots_per_axis: None, ..still }), [(Source::RobustLinear, 0)]);
    assert_eq!(arms(AdaptiveParams { line: false, ..still }), [(Source::RobustSpline, 0)]);
    assert_eq!(arms(params()).len(), 8);
}

#[test]
fn a_flat_window_leaves_the_earlier_line_and_says_so() {
    let mut stand = Stand::new(AdaptiveParams { knots_per_axis: None, ..params() });
    for step in 0..100 {
        stand.observe(load(step), cost(load(step)));
    }
    // Latency falls with load from here on: no price is positive.
    for step in 0..400 {
        stand.observe(load(step), 100.0 - cost(load(step)));
    }
    assert!(stand.adaptive.is_stale());
    let served = stand.adaptive.forecast(&load(3), &stand.retention, None).unwrap();
    assert_eq!(served.reason, Some(Reason::Stale));
}
