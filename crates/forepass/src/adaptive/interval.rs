//! Intervals that hold what they say: quantiles of past errors, corrected by how often they held.
//!
//! The ratio of each latency to its forecast joins a sample of the latest ones, and an interval
//! spans quantiles of that sample around a forecast. Where latencies fall outside more or less often
//! than a level allows, the quantiles move out or in (adaptive conformal inference), so that the
//! share that falls inside comes to the level under drift too.

/// Ratios that are kept.
const SAMPLE: usize = 256;

/// Levels that are corrected; those between are corrected in between.
const LEVELS: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 0.99];

/// How far a tail moves when a latency falls into it, as a share of one.
const STEP: f64 = 0.02;

/// The latest ratios of latency to forecast, and the tails that the levels leave out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conformal {
    /// As they came, a ring; and ascending.
    arrived: Vec<f64>,
    next: usize,
    sorted: Vec<f64>,
    /// The share of the sample beyond each end of the interval at each of [`LEVELS`].
    tails: [[f64; 2]; LEVELS.len()],
}

impl Default for Conformal {
    fn default() -> Self {
        Self {
            arrived: Vec::with_capacity(SAMPLE),
            next: 0,
            sorted: Vec::with_capacity(SAMPLE),
            tails: LEVELS.map(|level| [tail(level); 2]),
        }
    }
}

/// Share of a row by which a tail may fall short of a whole number of rows: rounding.
const ROUNDING: f64 = 1e-9;

/// The share of latencies beyond each end of an interval.
fn tail(level: f64) -> f64 {
    0.5 * (1.0 - level)
}

impl Conformal {
    /// Learns how far a forecast was off.
    pub(super) fn learn(&mut self, forecast_ms: f64, observed_ms: f64) {
        let ratio = observed_ms / forecast_ms;
        if !ratio.is_finite() {
            return;
        }
        for (index, level) in LEVELS.into_iter().enumerate() {
            if !self.is_calibrated(level) {
                break;
            }
            let [low, high] = self.ends(self.tails[index]);
            for (side, missed) in [ratio < low, ratio > high].into_iter().enumerate() {
                let missed = if missed { 1.0 } else { 0.0 };
                self.tails[index][side] += STEP * (tail(level) - missed);
            }
        }
        if self.arrived.len() < SAMPLE {
            self.arrived.push(ratio);
        } else {
            let oldest = std::mem::replace(&mut self.arrived[self.next], ratio);
            self.next = (self.next + 1) % SAMPLE;
            let at = self.sorted.partition_point(|&value| value < oldest);
            self.sorted.remove(at.min(SAMPLE - 1));
        }
        let at = self.sorted.partition_point(|&value| value < ratio);
        self.sorted.insert(at, ratio);
    }

    /// Ratios seen, up to the size of the sample.
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The interval around a forecast that should hold this share of latencies; `None` until the
    /// sample is large enough to have a tail of that size.
    pub(super) fn interval(&self, forecast_ms: f64, level: f64) -> Option<[f64; 2]> {
        let interval = self.ends(self.corrected(level)).map(|ratio| forecast_ms * ratio);
        self.is_calibrated(level).then_some(interval)
    }

    fn is_calibrated(&self, level: f64) -> bool {
        tail(level) * (self.len() + 1) as f64 >= 1.0 - ROUNDING
    }

    /// The tails of any level: its own, stretched as those of the corrected levels around it are.
    fn corrected(&self, level: f64) -> [f64; 2] {
        let above = LEVELS.partition_point(|&known| known < level).clamp(1, LEVELS.len() - 1);
        let (left, right) = (LEVELS[above - 1], LEVELS[above]);
        let share = ((level - left) / (right - left)).clamp(0.0, 1.0);
        std::array::from_fn(|side| {
            let stretch = |index: usize| self.tails[index][side] / tail(LEVELS[index]);
            tail(level) * (stretch(above - 1) + share * (stretch(above) - stretch(above - 1)))
        })
    }

    /// The ratios that leave out these tails. A tail below zero reaches beyond the sample.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn ends(&self, tails: [f64; 2]) -> [f64; 2] {
        let last = self.len().saturating_sub(1);
        let beyond = |tail: f64| 1.0 + (-tail).max(0.0) * (self.len() + 1) as f64;
        let rank = |tail: f64| {
            let rows = tail.clamp(0.0, 0.5) * (self.len() + 1) as f64;
            let rank = (rows + ROUNDING) as usize;
            rank.saturating_sub(1).min(last)
        };
        let at = |index: usize| self.sorted.get(index).copied().unwrap_or(1.0);
        [at(rank(tails[0])) / beyond(tails[0]), at(last - rank(tails[1])) * beyond(tails[1])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nineteen ratios 0.91, 0.92, ... 1.09, shuffled by a stride.
    fn uniform() -> Conformal {
        let mut conformal = Conformal::default();
        for i in 0..19 {
            conformal.learn(100.0, 91.0 + f64::from(i * 7 % 19));
        }
        conformal
    }

    #[test]
    fn there_is_no_interval_before_its_tails_are_in_the_sample() {
        // A tail of 0.1 needs nine ratios, one of 0.05 nineteen, one of 0.025 thirty-nine.
        let conformal = uniform();
        assert!(conformal.interval(100.0, 0.8).is_some());
        assert!(conformal.interval(100.0, 0.9).is_some());
        assert_eq!(conformal.interval(100.0, 0.95), None);
        assert_eq!(Conformal::default().interval(1.0, 0.5), None);
    }

    #[test]
    fn an_interval_leaves_out_its_tails() {
        // Uncorrected, a tail of 0.05 of twenty places ends at the least and the greatest of 19.
        let mut conformal = uniform();
        conformal.tails = LEVELS.map(|level| [tail(level); 2]);
        let [low, high] = conformal.interval(200.0, 0.9).unwrap();
        assert!((low - 182.0).abs() < 1e-9 && (high - 218.0).abs() < 1e-9, "{low} {high}");
        let [low, high] = conformal.interval(200.0, 0.5).unwrap();
        assert!((low - 190.0).abs() < 1e-9 && (high - 210.0).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn coverage_comes_to_the_level_under_drift_and_growing_noise() {
        // Latencies drift by a half and scatter ever more; the forecast knows nothing of it.
        let mut conformal = Conformal::default();
        let (mut inside, mut asked) = ([0.0_f64; 3], 0.0_f64);
        let mut state = 1_u64;
        for step in 0..6000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = f64::from(u32::try_from(state >> 40).unwrap()) / f64::from(1 << 24) - 0.5;
            let share = f64::from(step) / 6000.0;
            let observed = 10.0 * (1.0 + 0.5 * share) * (1.0 + 0.4 * share * noise);
            if step >= 64 {
                asked += 1.0;
                for (level, inside) in [0.8, 0.9, 0.95].into_iter().zip(&mut inside) {
                    let [low, high] = conformal.interval(10.0, level).unwrap();
                    *inside += if (low..=high).contains(&observed) { 1.0 } else { 0.0 };
                }
            }
            conformal.learn(10.0, observed);
        }
        for (level, inside) in [0.8, 0.9, 0.95].into_iter().zip(inside) {
            assert!((inside / asked - level).abs() < 0.02, "{level}: {}", inside / asked);
        }
    }
}
