//! Intervals: how many latencies they hold, and from when on there are any.

use forepass::ForwardPassModel;

use crate::accuracy::engines;
use crate::synthetic::{AUTO, Engine, decode_model};

pub(crate) const LEVELS: [f64; 3] = [0.8, 0.9, 0.95];

/// Latencies that intervals held, at each of [`LEVELS`].
#[derive(Default, Debug)]
pub(crate) struct Held {
    asked: [u32; 3],
    inside: [u32; 3],
}

impl Held {
    /// Asks for the intervals of a step that will take this long.
    pub(crate) fn ask(
        &mut self,
        model: &ForwardPassModel,
        step: &[forepass::ForwardPassMetrics],
        observed_ms: f64,
    ) {
        for (at, level) in LEVELS.into_iter().enumerate() {
            let forecast = model.forecast_at(step, level).unwrap();
            let (Some(ms), Some([low, high])) = (forecast.ms, forecast.interval_ms) else {
                continue;
            };
            assert!(low > 0.0 && low < high && high.is_finite(), "{ms}: {low} to {high}");
            self.asked[at] += 1;
            self.inside[at] += u32::from((low..=high).contains(&observed_ms));
        }
    }

    pub(crate) fn shares(&self) -> [f64; 3] {
        std::array::from_fn(|at| f64::from(self.inside[at]) / f64::from(self.asked[at]))
    }
}

#[test]
fn intervals_hold_what_they_say() {
    for engine in engines() {
        let engine = Engine { rows: 6000, ..engine };
        let mut model = decode_model(AUTO);
        let mut held = Held::default();
        for row in engine.run() {
            held.ask(&model, &[row.load.step()], row.observed_ms);
            model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
        }
        let shares = held.shares();
        println!("{:>22}: {shares:.3?}", engine.name);
        for (share, level) in shares.into_iter().zip(LEVELS) {
            assert!((share - level).abs() < 0.02, "{}: {share} at {level}", engine.name);
        }
    }
}

#[test]
fn there_is_no_interval_until_its_tails_are_in_the_sample() {
    let mut model = decode_model(AUTO);
    let mut first = [None; 3];
    for (index, row) in Engine::PLAIN.run().iter().take(100).enumerate() {
        for (at, level) in LEVELS.into_iter().enumerate() {
            let forecast = model.forecast_at(&[row.load.step()], level).unwrap();
            if forecast.interval_ms.is_some() {
                first[at].get_or_insert(index);
            } else {
                assert_eq!(first[at], None, "an interval came and went");
            }
        }
        model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
    }
    // Five rows until there is a forecast to be wrong; then a tail of 0.1 needs 9 errors, one of
    // 0.05 needs 19 and one of 0.025 needs 39, to be at least one of them.
    assert_eq!(first, [Some(14), Some(24), Some(44)]);
}
