//! The level of late: by what factor the newest latencies differ from what a model says of them.

use crate::retention::Observation;
use crate::workload::FEATURES;

/// How many of the newest latencies the level is taken from; none leaves the model as it is.
pub(super) const WINDOWS: [usize; 4] = [0, 2, 8, NEWEST];

/// Latencies that are remembered in full.
const NEWEST: usize = 32;

/// The newest observations, and their latencies relative to each model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Newest<const MODELS: usize> {
    /// A ring, and where its oldest element will be replaced.
    observations: [Observation; NEWEST],
    ratios: [[f64; NEWEST]; MODELS],
    count: usize,
    next: usize,
    /// The factor of each model for each window.
    pub(super) factors: [[f64; WINDOWS.len()]; MODELS],
}

impl<const MODELS: usize> Default for Newest<MODELS> {
    fn default() -> Self {
        let none = Observation { features: [0.0; FEATURES], latency_ms: 0.0 };
        Self {
            observations: [none; NEWEST],
            ratios: [[1.0; NEWEST]; MODELS],
            count: 0,
            next: 0,
            factors: [[1.0; WINDOWS.len()]; MODELS],
        }
    }
}

impl<const MODELS: usize> Newest<MODELS> {
    /// Takes in an observation that the models put at `values`.
    pub(super) fn learn(&mut self, observation: &Observation, values: &[f64; MODELS]) {
        self.observations[self.next] = *observation;
        for (ratios, value) in self.ratios.iter_mut().zip(values) {
            ratios[self.next] = observation.latency_ms / value;
        }
        self.next = (self.next + 1) % NEWEST;
        self.count = (self.count + 1).min(NEWEST);
        self.measure();
    }

    /// Measures the observations against models that have changed.
    pub(super) fn relearn(&mut self, values: impl Fn(&[f64; FEATURES]) -> [f64; MODELS]) {
        for at in 0..self.count {
            let observation = self.observations[at];
            let values = values(&observation.features);
            for (ratios, value) in self.ratios.iter_mut().zip(values) {
                ratios[at] = observation.latency_ms / value;
            }
        }
        self.measure();
    }

    fn measure(&mut self) {
        for (ratios, factors) in self.ratios.iter().zip(&mut self.factors) {
            for (window, factor) in WINDOWS.into_iter().zip(factors) {
                let count = window.min(self.count);
                if count == 0 {
                    continue;
                }
                let mut newest = [0.0; NEWEST];
                for (age, ratio) in newest[..count].iter_mut().enumerate() {
                    *ratio = ratios[(self.next + NEWEST - 1 - age) % NEWEST];
                }
                *factor = level(&mut newest[..count]);
            }
        }
    }
}

/// The level that is the least off the given ones, in proportion to each: their median, each
/// counted by its inverse.
fn level(ratios: &mut [f64]) -> f64 {
    ratios.sort_unstable_by(f64::total_cmp);
    let half = 0.5 * ratios.iter().map(|ratio| 1.0 / ratio).sum::<f64>();
    let mut sum = 0.0;
    for &ratio in ratios.iter() {
        sum += 1.0 / ratio;
        if sum >= half {
            return ratio;
        }
    }
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_the_least_off_in_proportion() {
        // At 10 the relative errors of 10, 20, 21 sum to 0 + 0.5 + 0.52; at 20 to 1 + 0 + 0.05.
        assert_eq!(level(&mut [21.0, 10.0, 20.0]), 10.0);
        // At 20 those of 15, 20, 20, 20 sum to 0.33; at 15 to 0.75.
        assert_eq!(level(&mut [20.0, 15.0, 20.0, 20.0]), 20.0);
        // Of two, the lower: 1 is off 3 by two thirds of it, 3 is off 1 by twice it.
        assert_eq!(level(&mut [3.0, 1.0]), 1.0);
    }

    #[test]
    fn each_window_looks_at_its_newest_latencies() {
        let mut newest = Newest::<1>::default();
        let at = |latency_ms| Observation { features: [1.0, 1.0], latency_ms };
        for step in 1..=40 {
            newest.learn(&at(if step > 30 { 4.0 } else { 2.0 }), &[2.0]);
        }
        // Ten at twice the model's value, and before them at its value.
        assert_eq!(newest.factors[0], [1.0, 2.0, 2.0, 1.0]);
        newest.learn(&at(200.0), &[2.0]);
        assert_eq!(newest.factors[0], [1.0, 2.0, 2.0, 1.0], "one spike moves no level");
        newest.relearn(|_| [4.0]);
        assert_eq!(newest.factors[0], [1.0, 1.0, 1.0, 0.5]);
    }
}
