//! Recursive fits against batch fits of what is retained, whatever comes and goes.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use forepass::linear::{self, LinearFit, LinearModel, LinearParams, Unready};
use forepass::moments::Moments;
use forepass::retention::{Observation, Retention};
use proptest::prelude::*;

/// A store's line, updated row by row, beside the retained rows.
struct Recursive {
    retention: Retention,
    fit: LinearFit,
}

impl Recursive {
    fn new(max_observations: usize) -> Self {
        let params = LinearParams::default();
        Self { retention: Retention::new([4, 4], max_observations), fit: LinearFit::new(params) }
    }

    fn learn(&mut self, x0: f64, x1: f64, latency_ms: f64) {
        let row = Observation { features: [x0, x1], latency_ms };
        let evicted = self.retention.insert(row);
        let retention = &self.retention;
        self.fit.update(&row.row(), evicted.map(|row| row.row()).as_ref(), || {
            retention.observations().map(Observation::row)
        });
    }

    /// The batch fit of the retained rows.
    fn batch(&self) -> Result<LinearModel, Unready> {
        let mut moments = Moments::default();
        moments.rebuild(self.retention.observations().map(Observation::row));
        linear::fit(&moments.centred(), &LinearParams::default()).0
    }

    /// Whether both fits say the same at every retained load, and at one between them; where the
    /// window has no load signal, the recursive fit may keep an earlier line.
    fn agrees(&self) -> Result<(), TestCaseError> {
        let batch = match (self.fit.model(), self.batch()) {
            (_, Err(Unready::NoLoadSignal)) => return Ok(()),
            (recursive, Err(reason)) => {
                prop_assert_eq!(recursive.err(), Some(reason));
                return Ok(());
            }
            (recursive, Ok(batch)) => {
                prop_assert!(recursive.is_ok());
                batch
            }
        };
        let recursive = self.fit.model().unwrap();
        let spread = |i: usize| self.retention.range()[i];
        let middle = [0, 1].map(|i| f64::midpoint(spread(i)[0], spread(i)[1]));
        let loads = self.retention.observations().map(|row| row.features);
        for load in loads.chain([middle]) {
            let (actual, expected) = (recursive.value(&load), batch.value(&load));
            // Relative to the terms of the line: where they cancel, so do their digits.
            let size = (0..2).fold(batch.latency_ms.abs(), |size, i| {
                size + (batch.prices[i] * (load[i] - batch.center[i])).abs()
            });
            prop_assert!(
                (actual - expected).abs() <= 1e-9 * size,
                "{} against {} at {:?}",
                actual,
                expected,
                load
            );
        }
        Ok(())
    }
}

/// A window of rows with noise, spikes of latency and glitches of either feature.
fn rows() -> impl Strategy<Value = Vec<(f64, f64, f64, u8)>> {
    prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64, 0..60u8), 8..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Case A9: after every step, through glitches up to 1e12 on each axis.
    #[test]
    fn recursion_equals_the_batch_fit_of_what_is_retained(
        rows in rows(),
        capacity in 5..80usize,
        scale in (prop::sample::select(vec![1e-12, 1e-6, 1.0, 1e4, 1e13]),
            prop::sample::select(vec![1e-12, 1.0, 1e6])),
        integral in any::<bool>(),
    ) {
        let mut recursive = Recursive::new(capacity);
        for (a, b, noise, glitch) in rows {
            let whole = |value: f64| if integral { (value * 40.0).round() } else { value };
            let (a, b) = (whole(a), whole(b));
            let y = 5.0 + 2.0 * a + b + noise;
            let (a, b, y) = match glitch {
                0 => (a, b, y * 1e12),
                1 => (1e12, b, y),
                2 => (a, 1e12, y),
                3 => (1e6, 1e6, y),
                _ => (a, b, y),
            };
            recursive.learn(a * scale.0, b * scale.1, y);
            recursive.agrees()?;
        }
    }

    /// Axes that nearly agree: the second is the first plus a little, down to nothing.
    #[test]
    fn recursion_equals_the_batch_fit_on_nearly_collinear_axes(
        rows in rows(),
        apart in prop::sample::select(vec![0.0, 1e-9, 1e-7, 1e-5, 1e-3]),
        sign in prop::sample::select(vec![-1.0, 1.0]),
    ) {
        let mut recursive = Recursive::new(64);
        for (a, b, noise, _) in rows {
            recursive.learn(a, 1.0 + sign * a + apart * b, 5.0 + 2.0 * a + b + noise);
            recursive.agrees()?;
        }
    }

    /// Case B6: the unit of a feature does not matter.
    #[test]
    fn scaling_a_column_scales_its_price_and_nothing_else(
        rows in rows(),
        power in -12..10i32,
        axis in 0..2usize,
    ) {
        let factor = 10f64.powi(power);
        let scaled = |x: [f64; 2]| {
            let mut x = x;
            x[axis] *= factor;
            x
        };
        // The retained rows are given: the sampler's grid is in logarithms of tokens.
        let fit = |scale: bool| {
            let mut moments = Moments::default();
            moments.rebuild(rows.iter().map(|&(a, b, noise, glitch)| {
                let x = if scale { scaled([a, b]) } else { [a, b] };
                let spike = if glitch == 0 { 1000.0 } else { 1.0 };
                [x[0], x[1], spike * (5.0 + 2.0 * a + b + noise)]
            }));
            linear::fit(&moments.centred(), &LinearParams::default()).0
        };
        let (plain, scaled_fit) = (fit(false), fit(true));
        prop_assert_eq!(plain.is_ok(), scaled_fit.is_ok());
        if let (Ok(plain), Ok(scaled_fit)) = (plain, scaled_fit) {
            for load in [[0.1, 0.9], [0.5, 0.5], [0.9, 0.1], [10.0, 10.0]] {
                let (expected, actual) = (plain.value(&load), scaled_fit.value(&scaled(load)));
                prop_assert!((actual - expected).abs() <= 1e-9 * expected.abs());
            }
        }
    }
}

#[test]
fn a_glitch_that_left_leaves_no_trace() {
    // Case B1: y = 2 + 0.0079 x on 1024..4096 after x = 1e11 has left a window of four. A plain
    // downdate gives a slope 25 % off.
    let mut recursive = Recursive { retention: Retention::new([1, 1], 4), ..Recursive::new(4) };
    let rows = [(1e11, 50.0), (1024.0, 10.1), (2048.0, 18.2), (3072.0, 26.4), (4096.0, 34.3)];
    for (x, y) in rows {
        recursive.learn(x, 0.0, y);
    }
    assert_eq!(recursive.fit.model().err(), Some(Unready::Cold), "four rows of five");
    // Least squares of the four by hand: Σ d y over Σ d², d = ±512, ±1536.
    let mut moments = Moments::default();
    moments.rebuild(recursive.retention.observations().map(Observation::row));
    let slope = moments.scatter(0, 2) / moments.scatter(0, 0);
    let by_hand = (1536.0 * (34.3 - 10.1) + 512.0 * (26.4 - 18.2))
        / (2.0 * (1536.0 * 1536.0 + 512.0 * 512.0));
    assert!((slope - by_hand).abs() < 1e-12 * by_hand);
}

#[test]
fn ten_thousand_rows_through_a_small_window_do_not_drift() {
    // Case A9: one glitch of 1e11 among the first rows, then 10,000 ordinary ones.
    let mut recursive = Recursive::new(8);
    for i in 0..10_000u32 {
        let x = if i == 2 { 1e11 } else { f64::from(i * 7919 % 4096) };
        let z = f64::from(i * 104_729 % 64);
        recursive.learn(x, z, 5.0 + 0.01 * x.min(4096.0) + 0.3 * z + f64::from(i * 31 % 17) / 17.0);
        recursive.agrees().unwrap();
    }
}

#[test]
fn an_early_spike_is_forgotten_once_it_leaves() {
    // Case B1 on latency: a spike of 1e9 ms among rows of a few ms.
    let mut recursive = Recursive { retention: Retention::new([1, 1], 16), ..Recursive::new(16) };
    for i in 0..40u32 {
        let x = f64::from(i % 8);
        let y = if i == 3 { 1e9 } else { 5.0 + 2.0 * x };
        recursive.learn(x, 0.0, y);
        recursive.agrees().unwrap();
    }
    let model = recursive.fit.model().unwrap();
    assert!((model.value(&[8.0, 0.0]) - 21.0).abs() < 1e-9 * 21.0);
}

#[test]
fn a_small_spread_on_a_large_mean_keeps_its_digits() {
    // Case B12: y = 3 + 2 (x - base) on base + {0, 1, 2, 3}; at base + 5 that is 13.
    for base in [1e6, 1e8, 1e9, 1e10, 1e12] {
        let mut moments = Moments::default();
        moments.rebuild((0..8).map(|i| f64::from(i % 4)).map(|d| [base + d, 0.0, 3.0 + 2.0 * d]));
        let model = linear::fit(&moments.centred(), &LinearParams::default()).0.unwrap();
        let value = model.value(&[base + 5.0, 0.0]);
        assert!((value - 13.0).abs() <= 1e-9 * 13.0, "{value} at {base}");
    }
}

#[test]
fn collinear_features_are_priced_alike_in_any_unit() {
    // Case B6 with K = 1000 B, y = 6 + 0.3 B: the attention feature, the first, bears the price
    // in every unit, so that (60000, 1) costs 6 + 0.3 * 60 = 24 ms.
    for unit in [1e-12, 0.3, 1.0, 1.5, 2.0, 3.0, 4096.0, 1e9] {
        let mut moments = Moments::default();
        let batches = [5.0, 7.0, 9.0, 12.0, 15.0, 20.0];
        moments.rebuild(batches.iter().map(|b| [unit * 1000.0 * b, *b, 6.0 + 0.3 * b]));
        let model = linear::fit(&moments.centred(), &LinearParams::default()).0.unwrap();
        let value = model.value(&[unit * 60_000.0, 1.0]);
        assert!((value - 24.0).abs() <= 1e-9 * 24.0, "{value} in {unit}");
    }
}
