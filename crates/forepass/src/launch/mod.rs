//! How an engine is launched, and how deep it will speculate then.
//!
//! [`resolve_launch`] reads a launch and answers with a [`LaunchReport`], which says how deep the
//! engine drafts, how wide it decodes, where each number comes from, and what is wrong.
//! [`EngineLaunchConfig`] is the launch itself, for a program that goes on with it: it exists only
//! checked. The performance model's configuration says what is drafted, under `speculation`; its
//! own `nextn` stays 0 then. The depth is inferred from it, and how often drafts are accepted is
//! said on the engine. [`engines`] reads what an operator gives to a real engine. Faults have
//! stable [`codes`](crate::codes).

mod authored;
mod blocks;
mod capacity;
mod config;
mod drafting;
mod engine;
pub mod engines;
mod legacy;
mod materialize;
mod metadata;
mod nextn;
mod report;
#[cfg(test)]
mod tests;
mod timing;

pub use blocks::{CapacitySchedulerPolicy, SchedulePolicy, SglangConfig, TrtllmConfig};
pub use capacity::{Capacity, CapacityEstimationOptions};
pub use config::EngineLaunchConfig;
pub use engine::{EngineConfig, KvTransferTimingMode, PreemptionMode};
pub use legacy::canonical_launch;
pub use materialize::{canonical_performance_config, materialize_engine_launch_config};
pub use metadata::{SpeculationMetadata, speculation_report_metadata};
pub use nextn::normalize_speculation_engine_args;
pub use report::{LaunchReport, SCHEMA, resolve_launch};
pub use timing::{ExternalConfig, TimingModel};

use crate::error::{Error, join};

/// Path of the engine in a launch.
const ENGINE: &str = "engine";

/// Path of the performance model's configuration in a launch.
const PERFORMANCE: &str = "engine.timing_model.config";

/// Paths that messages about a launch name.
const TOLD: [&str; 3] = [PERFORMANCE, "engine.backend", "engine.num_gpu_blocks"];

/// A message with its paths in the places that they have in another form of the launch.
fn retold(message: &str, place: impl Fn(&str) -> String) -> String {
    TOLD.iter().fold(message.to_owned(), |told, path| told.replace(path, &place(path)))
}

/// A fault of the canonical form, told as one of another form of the launch.
fn relocated(error: Error, place: impl Fn(&str) -> String) -> Error {
    let (path, message) = (place(&error.path()), retold(&error.message(), place));
    error.at(path).saying(message)
}

/// A fault of a part, as a fault of the launch.
fn recoded(error: &Error, code: &'static str, prefix: &str) -> Error {
    Error::launch(code, join(prefix, &error.path()), error.message())
}
