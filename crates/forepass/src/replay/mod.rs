//! Replays recorded traces: predict each iteration, score the prediction, then learn from it.

mod baseline;
mod input;
mod report;
mod run;
mod score;

pub use baseline::Baseline;
pub use report::{GymScore, InputReport, Report, Result as FitResult};
pub use run::{Contender, Options, Protocol, replay};
pub use score::{IntervalStats, Stats};
