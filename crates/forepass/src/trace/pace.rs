//! Whether the durations of a rank fit into the time in which its records came.

/// Records below which nothing is told: a span of a few is no measure.
const ENOUGH_ROWS: u64 = 64;

/// Steps of one rank follow each other, at most a few at a time in the stages of a pipeline.
const TOO_FAST: f64 = 10.0;

/// The records of one rank that tell when they came.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Pace {
    rows: u64,
    spent_s: f64,
    first_ms: f64,
    last_ms: f64,
}

impl Pace {
    pub(super) fn add(&mut self, wall_time_s: f64, time_ms: f64) {
        if self.rows == 0 {
            (self.first_ms, self.last_ms) = (time_ms, time_ms);
        }
        self.rows += 1;
        self.spent_s += wall_time_s;
        self.first_ms = self.first_ms.min(time_ms);
        self.last_ms = self.last_ms.max(time_ms);
    }

    /// Why the durations cannot all be right; `None` where they can.
    pub(super) fn doubt(&self) -> Option<String> {
        let passed_s = (self.last_ms - self.first_ms) / 1e3;
        // Records that are written all at once may have one time of arrival, which tells nothing.
        let doubtful =
            self.rows >= ENOUGH_ROWS && passed_s > 0.0 && self.spent_s > TOO_FAST * passed_s;
        doubtful.then(|| {
            format!(
                "{:.3} s of forward passes in {passed_s:.3} s of recording: wall_time counts in \
                 seconds; is it in milliseconds here, or were the records stamped all at once?",
                self.spent_s
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 5 ms that come every 10 ms, with their durations as told.
    fn pace(rows: u32, told_s: f64, every_ms: f64) -> Option<String> {
        let mut pace = Pace::default();
        for row in 0..rows {
            pace.add(told_s, 1e12 + every_ms * f64::from(row));
        }
        pace.doubt()
    }

    #[test]
    fn milliseconds_taken_for_seconds_are_doubted() {
        assert_eq!(pace(101, 0.005, 10.0), None);
        // 101 steps of "5 s" in 100 gaps of 10 ms.
        let told = pace(101, 5.0, 10.0).unwrap();
        assert!(told.starts_with("505.000 s of forward passes in 1.000 s of recording"), "{told}");
        assert_eq!(pace(63, 5.0, 10.0), None);
        assert!(pace(64, 5.0, 10.0).is_some());
    }

    #[test]
    fn a_few_at_a_time_and_one_time_of_arrival_are_not() {
        // 8 stages of a pipeline, each step lasting 80 ms: 8.08 s in 1 s.
        assert_eq!(pace(101, 0.080, 10.0), None);
        assert_eq!(pace(101, 5.0, 0.0), None);
        assert_eq!(pace(0, 5.0, 0.0), None);
    }
}
