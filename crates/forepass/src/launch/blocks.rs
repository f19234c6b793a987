//! Options of a simulated engine that only one backend has.

use serde::{Deserialize, Serialize};

use crate::codes::E_ENGINE;
use crate::config::range;
use crate::error::{Error, Result};

/// Options that only SGLang has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SglangConfig {
    /// The order in which waiting requests are taken.
    pub schedule_policy: SchedulePolicy,
    /// Most prompt tokens of a step; at least 1.
    pub max_prefill_tokens: u64,
    /// Most tokens of one prompt in a step; a multiple of the block size, and at least 1.
    pub chunked_prefill_size: u64,
    /// Most new tokens that a request is expected to need; at least 1.
    pub clip_max_new_tokens: u64,
    /// Factor of the tokens that are expected to be needed; finite and at least 0.
    pub schedule_conservativeness: f64,
}

impl Default for SglangConfig {
    fn default() -> Self {
        Self {
            schedule_policy: SchedulePolicy::default(),
            max_prefill_tokens: 16384,
            chunked_prefill_size: 8192,
            clip_max_new_tokens: 4096,
            schedule_conservativeness: 1.0,
        }
    }
}

impl SglangConfig {
    /// Checks the options, with the block size of an engine that uses them.
    pub(super) fn check(&self, block_size: Option<u64>) -> Result<()> {
        range::positive("max_prefill_tokens", self.max_prefill_tokens)?;
        range::positive("chunked_prefill_size", self.chunked_prefill_size)?;
        range::positive("clip_max_new_tokens", self.clip_max_new_tokens)?;
        range::finite_nonnegative("schedule_conservativeness", self.schedule_conservativeness)?;
        match block_size.filter(|size| self.chunked_prefill_size % size != 0) {
            None => Ok(()),
            Some(size) => Err(Error::launch(
                E_ENGINE,
                "chunked_prefill_size",
                format!("{}: must be a multiple of block_size, {size}", self.chunked_prefill_size),
            )),
        }
    }
}

/// The order in which waiting requests are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SchedulePolicy {
    /// The one that came first.
    #[default]
    Fifo,
    /// The one with the longest cached prefix.
    Lpm,
}

/// Options that only TensorRT-LLM has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TrtllmConfig {
    /// When a request is given its capacity.
    pub capacity_scheduler_policy: CapacitySchedulerPolicy,
}

/// When a request is given its capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CapacitySchedulerPolicy {
    /// Before it starts, all that it may need.
    #[default]
    GuaranteedNoEvict,
}
