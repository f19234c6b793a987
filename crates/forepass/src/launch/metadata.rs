//! What a report says about the speculation of a launch, beside its numbers.

use serde::Serialize;

use super::config::EngineLaunchConfig;
use super::engine::KvTransferTimingMode;
use super::timing::TimingModel;
use crate::speculation::AcceptanceRates;
use crate::workload::WorkerType;

/// What a report says about the speculation of one role's launch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpeculationMetadata {
    /// What the worker serves.
    pub role: WorkerType,
    /// Name of the target model, where a performance model says it.
    pub target_model: Option<String>,
    /// Kind of the scheme as it was asked for; absent for a depth in the older spelling.
    pub requested_method: Option<String>,
    /// Kind of the scheme that is replayed.
    pub resolved_method: String,
    /// Draft tokens of a step.
    pub num_speculative_tokens: u32,
    /// Rows of a sequence in a decode step.
    pub decode_width: u32,
    /// Mean number of drafts that a step accepts.
    pub expected_accepted_tokens: f64,
    /// Conditional acceptance of each level.
    pub acceptance_rates: AcceptanceRates,
    /// Seed of the draws that accept drafts.
    pub seed: u64,
    /// What the cost of drafting and verifying is taken from: `performance_model`,
    /// `external_model`, `fixed_times` or `polynomial`.
    pub cost_approximation: &'static str,
    /// Where the size of the KV cache comes from: `explicit_fixed` or `inferred`.
    pub capacity_source: &'static str,
    /// What of a prompt is moved between workers: `full_prompt` or `destination_missing`.
    pub kv_transfer_approximation: &'static str,
    /// How far the result can be trusted: `simulated_acceptance`, or `exact` where nothing is
    /// drafted.
    pub qualification: &'static str,
}

/// What a report says about the speculation of a launch.
pub fn speculation_report_metadata(launch: &EngineLaunchConfig) -> SpeculationMetadata {
    let performance = launch.performance_config();
    let speculation = performance.and_then(|config| config.speculation.as_ref());
    SpeculationMetadata {
        role: launch.worker_type,
        target_model: performance.map(|config| config.model.clone()),
        requested_method: speculation.map(|speculation| speculation.kind.clone()),
        resolved_method: launch.draft().kind.clone(),
        num_speculative_tokens: launch.depth(),
        decode_width: launch.decode_width(),
        expected_accepted_tokens: launch.acceptance().expected_accepted(),
        acceptance_rates: launch.acceptance().clone(),
        seed: launch.aic_mtp_seed,
        cost_approximation: match &launch.timing_model {
            TimingModel::Polynomial => "polynomial",
            TimingModel::Fixed { .. } => "fixed_times",
            TimingModel::External { .. } if performance.is_some() => "performance_model",
            TimingModel::External { .. } => "external_model",
        },
        capacity_source: if launch.capacity().explicit { "explicit_fixed" } else { "inferred" },
        kv_transfer_approximation: match launch.kv_transfer_timing_mode {
            KvTransferTimingMode::FullPrompt => "full_prompt",
            KvTransferTimingMode::DestinationMissing => "destination_missing",
        },
        qualification: if launch.depth() > 0 { "simulated_acceptance" } else { "exact" },
    }
}
