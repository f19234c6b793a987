//! What a mixed step costs at the least: the decode or the prefill work in it, done alone.

use super::choice::relative_error;

/// Share of an error that is remembered one step later.
const MEMORY: f64 = 0.97;

/// Whether a floor under forecasts has lately brought them closer to what was observed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Floor {
    /// Discounted relative errors with the floor, less those without it.
    excess: f64,
}

impl Floor {
    /// The floor, where it is above the forecast and has not lately been wrong to be.
    pub(super) fn under(self, forecast_ms: f64, floor_ms: Option<f64>) -> Option<f64> {
        floor_ms.filter(|&floor| self.excess <= 0.0 && floor > forecast_ms)
    }

    /// Learns whether the floor would have been right to raise a forecast.
    pub(super) fn learn(&mut self, forecast_ms: f64, floor_ms: Option<f64>, observed_ms: f64) {
        self.excess *= MEMORY;
        if let Some(floor) = floor_ms.filter(|&floor| floor > forecast_ms) {
            self.excess +=
                relative_error(floor, observed_ms) - relative_error(forecast_ms, observed_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_raises_a_forecast_until_it_was_wrong_to() {
        let mut floor = Floor::default();
        assert_eq!(floor.under(5.0, Some(8.0)), Some(8.0));
        assert_eq!(floor.under(9.0, Some(8.0)), None);
        assert_eq!(floor.under(9.0, None), None);
        floor.learn(5.0, Some(8.0), 5.0);
        assert_eq!(floor.under(5.0, Some(8.0)), None, "it would have been off by 60 %");
        for _ in 0..3 {
            floor.learn(5.0, Some(8.0), 8.0);
        }
        assert_eq!(floor.under(5.0, Some(8.0)), Some(8.0), "it has paid since");
    }
}
