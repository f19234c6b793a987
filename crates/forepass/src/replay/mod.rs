//! Replays recorded traces: predict each iteration, score the prediction, then learn from it.

mod baseline;
mod curves;
mod errors;
mod input;
mod learner;
mod recording;
mod report;
mod run;
mod score;
mod thin;
mod timeline;

pub use baseline::Baseline;
pub use curves::{ColdStart, LoadBin};
pub use report::{GymScore, InputReport, Report, Result as FitResult};
pub use run::{Contender, Options, Protocol, replay};
pub use score::{IntervalStats, Stats};
pub use timeline::{Events, FitCurves, FitTimeline, Points, Timeline, WorkerTimeline};
