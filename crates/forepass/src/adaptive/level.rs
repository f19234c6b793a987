//! The level of late: by what factor the newest latencies differ from what a model says of them.

use crate::retention::Observation;
use crate::workload::FEATURES;

/// How many of the newest latencies the level is taken from; none leaves the model as it is.
pub(super) const WINDOWS: [usize; 4] = [0, 2, 8, NEWEST];

/// Latencies that are remembered in full.
const NEWEST: usize = 32;

/// The newest observations, and what each model says of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Newest<const MODELS: usize> {
    /// A ring, and where its oldest element will be replaced.
    observations: [Observation; NEWEST],
    shares: [Shares; MODELS],
    count: usize,
    next: usize,
    /// The factor of each model for each window.
    pub(super) factors: [[f64; WINDOWS.len()]; MODELS],
}

/// What one model says of the newest latencies, each as a share of the latency: the inverse of a
/// level.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shares {
    /// In the order of the ring.
    arrived: [f64; NEWEST],
    /// Those of each window, descending; zero where there is none yet.
    sorted: [[f64; NEWEST]; WINDOWS.len()],
}

impl<const MODELS: usize> Default for Newest<MODELS> {
    fn default() -> Self {
        let none = Observation { features: [0.0; FEATURES], latency_ms: 0.0 };
        let shares = Shares { arrived: [1.0; NEWEST], sorted: [[0.0; NEWEST]; WINDOWS.len()] };
        Self {
            observations: [none; NEWEST],
            shares: [shares; MODELS],
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
        for (shares, value) in self.shares.iter_mut().zip(values) {
            shares.learn(value / observation.latency_ms, self.next, self.count);
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
            for (shares, value) in self.shares.iter_mut().zip(values) {
                shares.arrived[at] = value / observation.latency_ms;
            }
        }
        for shares in &mut self.shares {
            shares.sort(self.next, self.count);
        }
        self.measure();
    }

    fn measure(&mut self) {
        for (shares, factors) in self.shares.iter().zip(&mut self.factors) {
            for ((window, sorted), factor) in WINDOWS.iter().zip(&shares.sorted).zip(factors) {
                *factor = level(&sorted[..self.count.min(*window)]);
            }
        }
    }
}

impl Shares {
    /// Takes in the share that comes at `next`, after `count` others that are remembered.
    fn learn(&mut self, share: f64, next: usize, count: usize) {
        for (window, sorted) in WINDOWS.into_iter().zip(&mut self.sorted).skip(1) {
            let mut place = count;
            if count >= window {
                let leaving = self.arrived[(next + NEWEST - window) % NEWEST];
                let is_larger = |&other: &f64| other > leaving;
                place = sorted[..window].partition_point(is_larger).min(window - 1);
            }
            settle(&mut sorted[..window], place, share);
        }
        self.arrived[next] = share;
    }

    /// Puts the shares of each window, the last of which is before `next`, in order anew.
    fn sort(&mut self, next: usize, count: usize) {
        for (window, sorted) in WINDOWS.into_iter().zip(&mut self.sorted) {
            let sorted = &mut sorted[..count.min(window)];
            for (age, share) in sorted.iter_mut().enumerate() {
                *share = self.arrived[(next + NEWEST - 1 - age) % NEWEST];
            }
            sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        }
    }
}

/// Puts a value in place of one in a descending list, and where it belongs.
fn settle(sorted: &mut [f64], mut place: usize, value: f64) {
    while place > 0 && sorted[place - 1] < value {
        sorted[place] = sorted[place - 1];
        place -= 1;
    }
    while place + 1 < sorted.len() && sorted[place + 1] > value {
        sorted[place] = sorted[place + 1];
        place += 1;
    }
    sorted[place] = value;
}

/// The level that is the least off, in proportion to each, from those of which descending shares
/// are given: their median, each counted by its share. No level is one.
fn level(shares: &[f64]) -> f64 {
    let half = 0.5 * shares.iter().sum::<f64>();
    let mut sum = 0.0;
    for &share in shares {
        sum += share;
        if sum >= half {
            return 1.0 / share;
        }
    }
    1.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_levels(levels: &[f64]) -> f64 {
        let mut shares: Vec<f64> = levels.iter().map(|level| 1.0 / level).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        level(&shares)
    }

    #[test]
    fn a_level_is_the_least_off_in_proportion() {
        // At 10 the relative errors of 10, 20, 21 sum to 0 + 0.5 + 0.52; at 20 to 1 + 0 + 0.05.
        assert_eq!(of_levels(&[21.0, 10.0, 20.0]), 10.0);
        // At 20 those of 15, 20, 20, 20 sum to 0.33; at 15 to 0.75.
        assert_eq!(of_levels(&[20.0, 15.0, 20.0, 20.0]), 20.0);
        // Of two, the lower: 1 is off 4 by three quarters of it, 4 is off 1 by three times it.
        assert_eq!(of_levels(&[4.0, 1.0]), 1.0);
        assert_eq!(level(&[]), 1.0);
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

    proptest! {
        #[test]
        fn row_by_row_is_as_all_at_once(
            latencies in prop::collection::vec(prop::sample::select(vec![1.0, 2.0, 2.5, 80.0]), 1..100),
        ) {
            let (mut newest, mut again) = (Newest::<2>::default(), Newest::<2>::default());
            for latency_ms in latencies {
                let observation = Observation { features: [1.0, 1.0], latency_ms };
                newest.learn(&observation, &[2.0, 3.0]);
                again.learn(&observation, &[7.0, 7.0]);
                again.relearn(|_| [2.0, 3.0]);
                prop_assert_eq!(newest.factors, again.factors);
            }
        }
    }
}
