//! Which forecast to serve of several, judged by their errors of late.

/// Share of an error that is remembered one step later.
const MEMORY: f64 = 0.96;

/// How strongly errors count against a forecast.
const RATE: f64 = 2.0;

/// Share of the weight by which a half may fall short: the weights of two models often pair up, and
/// rounding must not decide between forecasts that are far apart.
const TIE: f64 = 1e-12;

/// Keeps the errors of `N` forecasts and picks their weighted median.
///
/// An error is relative, and at most 1: a spike that all of them miss teaches nothing. Let `L(i)`
/// be the sum of errors of forecast `i`, each discounted by [`MEMORY`] a step, and weigh it by
/// `exp(-RATE L(i))`. The median of the weighted forecasts is one of them, rises with load where
/// all do, and its discounted errors `S` are bounded at all times and for all data by the best:
///
/// `S <= 2 (RATE min L(i) + ln N) / (1 - exp(-RATE))`
///
/// for at least half of the weight is as far off as the median, on its side or farther; and the
/// logarithm of the total of the weights falls by `1 - exp(-RATE)` times their mean error a step,
/// whatever is discounted (Jensen), but never below `-RATE min L(i)`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice<const N: usize> {
    /// The forecasts that take part.
    admitted: [bool; N],
    pub(super) errors: [f64; N],
    pub(super) weights: [f64; N],
}

impl<const N: usize> Choice<N> {
    /// A choice among the admitted forecasts, at first an even one.
    pub(super) fn new(admitted: [bool; N]) -> Self {
        let weights = admitted.map(|admitted| if admitted { 1.0 } else { 0.0 });
        Self { admitted, errors: [0.0; N], weights }
    }

    /// Learns how far the forecasts were off.
    pub(super) fn learn(&mut self, forecasts: &[f64; N], observed: f64) {
        for (error, forecast) in self.errors.iter_mut().zip(forecasts) {
            *error = MEMORY * *error + relative_error(*forecast, observed);
        }
        let admitted = || (0..N).filter(|&i| self.admitted[i]);
        let least = admitted().map(|i| self.errors[i]).fold(f64::INFINITY, f64::min);
        for i in admitted() {
            // Discounted as they will be at the next step, on which they are used.
            self.weights[i] = (RATE * MEMORY * (least - self.errors[i])).exp();
        }
    }

    /// The forecast with half of the weight on either side: the least one that has half of it at or
    /// below it, and of equal ones the first.
    pub(super) fn pick(&self, forecasts: &[f64; N]) -> usize {
        let half = (0.5 - TIE) * self.weights.iter().sum::<f64>();
        let (mut too_low, mut picked) = (f64::NEG_INFINITY, None);
        for i in (0..N).filter(|&i| self.admitted[i]) {
            let value = forecasts[i];
            if value <= too_low || picked.is_some_and(|best: usize| forecasts[best] <= value) {
                continue;
            }
            let below = |j: usize| if forecasts[j] <= value { self.weights[j] } else { 0.0 };
            if (0..N).fold(0.0, |sum, j| sum + below(j)) >= half {
                picked = Some(i);
            } else {
                too_low = value;
            }
        }
        picked.unwrap_or(0)
    }
}

/// The error of a forecast relative to what was observed, at most 1.
pub(super) fn relative_error(forecast: f64, observed: f64) -> f64 {
    ((forecast - observed).abs() / observed).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_one_that_was_right_of_late_is_picked() {
        let mut choice = Choice::new([true, true, false]);
        let forecasts = [10.0, 20.0, 10.0];
        for _ in 0..30 {
            choice.learn(&forecasts, 10.0);
        }
        assert_eq!(choice.pick(&forecasts), 0);
        for _ in 0..30 {
            choice.learn(&forecasts, 20.0);
        }
        assert_eq!(choice.pick(&forecasts), 1);
    }

    #[test]
    fn a_spike_that_all_miss_moves_no_weight() {
        let mut choice = Choice::new([true; 2]);
        for _ in 0..10 {
            choice.learn(&[10.0, 12.0], 10.0);
        }
        let before = choice.weights[1];
        choice.learn(&[10.0, 12.0], 1e6);
        // Both lose about all of it; what was there before fades by a tenth.
        assert!(choice.weights[1] >= before && choice.weights[1] < 1.0);
    }

    proptest! {
        #[test]
        fn what_is_served_is_bounded_by_the_best_at_all_times(
            rows in prop::collection::vec((prop::array::uniform4(1.0..100.0f64), 1.0..100.0f64), 1..300),
        ) {
            let mut choice = Choice::new([true; 4]);
            let mut served = 0.0;
            for (forecasts, observed) in rows {
                let picked = forecasts[choice.pick(&forecasts)];
                served = MEMORY * served + relative_error(picked, observed);
                choice.learn(&forecasts, observed);
                let best = choice.errors.iter().copied().fold(f64::INFINITY, f64::min);
                let bound = 2.0 * (RATE * best + 4.0_f64.ln()) / (1.0 - (-RATE).exp());
                prop_assert!(served <= bound + 1e-9, "{served} > {bound}");
            }
        }

        #[test]
        fn the_median_rises_where_all_forecasts_rise(
            low in prop::array::uniform4(1.0..100.0f64),
            rise in prop::array::uniform4(0.0..10.0f64),
            errors in prop::array::uniform4(0.0..5.0f64),
        ) {
            let mut choice = Choice::new([true; 4]);
            choice.errors = errors;
            choice.learn(&[1.0; 4], 1.0);
            let high: [f64; 4] = std::array::from_fn(|i| low[i] + rise[i]);
            prop_assert!(high[choice.pick(&high)] >= low[choice.pick(&low)]);
        }
    }
}
