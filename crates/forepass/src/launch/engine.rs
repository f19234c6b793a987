//! The options of a simulated engine, and what they must be by themselves.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::blocks::{SglangConfig, TrtllmConfig};
use super::timing::TimingModel;
use crate::codes::E_ENGINE;
use crate::config::range;
use crate::error::{Error, Result, present};
use crate::speculation::{AcceptanceRates, Backend, MAX_REPLAY_DEPTH};
use crate::workload::WorkerType;

const DEFAULT_NUM_GPU_BLOCKS: u64 = 16384;
/// The seed of the draws that accept drafts, where there is no other.
pub(super) const DEFAULT_SEED: u64 = 42;

/// The options of one scheduler rank of a simulated engine.
///
/// Every option has a default. What depends on another option (block size, block count, depth,
/// acceptance) is told by the [`EngineLaunchConfig`](super::EngineLaunchConfig) alone.
///
/// | Name | Default | Range |
/// |---|---|---|
/// | `backend` | vllm | vllm, sglang, trtllm |
/// | `num_gpu_blocks` | 16384 | ≥ 1 |
/// | `block_size` | vllm 64, sglang 1, trtllm 32 | ≥ 1; vllm and trtllm ≥ 2 |
/// | `max_model_len` | null | ≥ 1, or null |
/// | `max_num_seqs`, `max_num_batched_tokens` | 256, 8192 | ≥ 1, or null for no bound |
/// | `prefill_schedule_interval` | 1 | ≥ 1; other than 1 on vllm only |
/// | `prefill_decode_interval` | 0 | other than 0 on sglang only |
/// | `enable_prefix_caching`, `enable_chunked_prefill` | true | sglang needs chunked prefill |
/// | `speedup_ratio`, `decode_speedup_ratio` | 1.0 | finite, ≥ 0; decode 1.0 where tokens are drafted |
/// | `aic_nextn` | inferred | 1 to 5, the depth |
/// | `aic_nextn_accept_rates` | null | comma-separated, each 0 to 1; only where tokens are drafted |
/// | `aic_mtp_seed` | 42 | 42 unless tokens are drafted |
/// | `aic_verify_width` | inferred | the depth + 1 |
/// | `worker_type` | aggregated | aggregated, prefill, decode |
/// | `preemption_mode` | lifo | lifo, fifo |
/// | `emit_kv_events`, `emit_kv_token_ids` | false | the second needs the first |
/// | `kv_transfer_bytes_per_token`, `kv_cache_bytes_per_token`, `kv_cache_capacity_bytes` | null | integers |
/// | `kv_cache_groups` | empty | not where tokens are drafted |
/// | `native_host_offload`, `g3_offload` | null | not where tokens are drafted; the second needs the first |
/// | `state_cache`, `prefix_match_unit` | null | vllm, aggregated, no offload; the second not where tokens are drafted |
/// | `kv_transfer_bandwidth` | null | finite, ≥ 0 |
/// | `kv_transfer_timing_mode` | `full_prompt` | `full_prompt`, `destination_missing` |
/// | `timing_model` | polynomial | see [`TimingModel`] |
/// | `sglang`, `trtllm` | null | see [`SglangConfig`] and [`TrtllmConfig`] |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct EngineConfig {
    /// The engine that is simulated.
    pub backend: Backend,
    #[serde(deserialize_with = "present")]
    pub(super) num_gpu_blocks: Option<u64>,
    #[serde(deserialize_with = "present")]
    pub(super) block_size: Option<u64>,
    /// Longest sequence, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u64>,
    /// Most sequences in a batch; `None` for no bound.
    pub max_num_seqs: Option<u64>,
    /// Most tokens in a batch; `None` for no bound.
    pub max_num_batched_tokens: Option<u64>,
    /// Steps from one scheduling of prefills to the next.
    pub prefill_schedule_interval: u64,
    /// Decode steps between two prefills.
    pub prefill_decode_interval: u64,
    /// Whether prefixes are cached.
    pub enable_prefix_caching: bool,
    /// Whether a prompt may be split over steps.
    pub enable_chunked_prefill: bool,
    /// Factor of the speed of every pass.
    pub speedup_ratio: f64,
    /// Factor of the speed of decode passes.
    pub decode_speedup_ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) aic_nextn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) aic_nextn_accept_rates: Option<String>,
    /// Seed of the draws that accept drafts.
    pub aic_mtp_seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) aic_verify_width: Option<u32>,
    /// What the worker serves.
    pub worker_type: WorkerType,
    /// Which request is preempted first.
    pub preemption_mode: PreemptionMode,
    /// Whether events of the KV cache are emitted.
    pub emit_kv_events: bool,
    /// Whether these events carry token ids.
    pub emit_kv_token_ids: bool,
    /// Bytes of a token that are moved between workers.
    #[serde(skip_serializing_if = "Option::is_none", alias = "kv_bytes_per_token")]
    pub kv_transfer_bytes_per_token: Option<u64>,
    /// Bytes of a token in the KV cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_bytes_per_token: Option<u64>,
    /// Bytes of the whole KV cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_capacity_bytes: Option<u64>,
    /// Groups of layers with a KV cache of their own, kept as authored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kv_cache_groups: Vec<Map<String, Value>>,
    /// Offload to host memory, kept as authored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_host_offload: Option<Map<String, Value>>,
    /// Offload beyond host memory, kept as authored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub g3_offload: Option<Map<String, Value>>,
    /// Cache of recurrent states, kept as authored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_cache: Option<Map<String, Value>>,
    /// Tokens by which prefixes are matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix_match_unit: Option<u64>,
    /// Bandwidth between workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_transfer_bandwidth: Option<f64>,
    /// What of a prompt is moved between workers.
    pub kv_transfer_timing_mode: KvTransferTimingMode,
    /// Where the time of a pass comes from.
    pub timing_model: TimingModel,
    /// Options that only SGLang has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sglang: Option<SglangConfig>,
    /// Options that only TensorRT-LLM has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trtllm: Option<TrtllmConfig>,
}

/// Which request is preempted first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PreemptionMode {
    /// The one that came last.
    #[default]
    Lifo,
    /// The one that came first.
    Fifo,
}

/// What of a prompt is moved between workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KvTransferTimingMode {
    /// All of it.
    #[default]
    FullPrompt,
    /// What the destination does not hold yet.
    DestinationMissing,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            backend: Backend::default(),
            num_gpu_blocks: None,
            block_size: None,
            max_model_len: None,
            max_num_seqs: Some(256),
            max_num_batched_tokens: Some(8192),
            prefill_schedule_interval: 1,
            prefill_decode_interval: 0,
            enable_prefix_caching: true,
            enable_chunked_prefill: true,
            speedup_ratio: 1.0,
            decode_speedup_ratio: 1.0,
            aic_nextn: None,
            aic_nextn_accept_rates: None,
            aic_mtp_seed: DEFAULT_SEED,
            aic_verify_width: None,
            worker_type: WorkerType::Aggregated,
            preemption_mode: PreemptionMode::default(),
            emit_kv_events: false,
            emit_kv_token_ids: false,
            kv_transfer_bytes_per_token: None,
            kv_cache_bytes_per_token: None,
            kv_cache_capacity_bytes: None,
            kv_cache_groups: Vec::new(),
            native_host_offload: None,
            g3_offload: None,
            state_cache: None,
            prefix_match_unit: None,
            kv_transfer_bandwidth: None,
            kv_transfer_timing_mode: KvTransferTimingMode::default(),
            timing_model: TimingModel::default(),
            sglang: None,
            trtllm: None,
        }
    }
}

fn refuse(path: &str, message: impl Into<String>) -> Result<()> {
    Err(Error::launch(E_ENGINE, path, message))
}

impl EngineConfig {
    /// KV blocks, whether authored or not.
    pub(super) fn blocks(&self) -> u64 {
        self.num_gpu_blocks.unwrap_or(DEFAULT_NUM_GPU_BLOCKS)
    }

    /// Tokens in a block, whether authored or not.
    pub(super) fn tokens_per_block(&self) -> u64 {
        self.block_size.unwrap_or(match self.backend {
            Backend::Vllm => 64,
            Backend::Sglang => 1,
            Backend::Trtllm => 32,
        })
    }

    /// The authored rates, unless they are blank.
    pub(super) fn rates(&self) -> Option<&str> {
        self.aic_nextn_accept_rates.as_deref().filter(|text| !text.trim().is_empty())
    }

    /// Checks what holds whether or not tokens are drafted.
    pub(super) fn check(&self) -> Result<()> {
        let least = if self.backend == Backend::Sglang { 1 } else { 2 };
        let block_size = self.tokens_per_block();
        if block_size < least {
            let message = format!("{block_size}: must be at least {least} on {}", self.backend);
            return refuse("block_size", message);
        }
        for (path, count) in [
            ("num_gpu_blocks", self.num_gpu_blocks),
            ("max_model_len", self.max_model_len),
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("prefill_schedule_interval", Some(self.prefill_schedule_interval)),
            ("prefix_match_unit", self.prefix_match_unit),
        ] {
            range::positive(path, count.unwrap_or(1))?;
        }
        for (path, value) in [
            ("speedup_ratio", self.speedup_ratio),
            ("decode_speedup_ratio", self.decode_speedup_ratio),
            ("kv_transfer_bandwidth", self.kv_transfer_bandwidth.unwrap_or(0.0)),
        ] {
            range::finite_nonnegative(path, value)?;
        }
        if let Some(depth) = self.aic_nextn.filter(|depth| !(1..=MAX_REPLAY_DEPTH).contains(depth))
        {
            let message = format!("{depth}: must be 1 to {MAX_REPLAY_DEPTH}, or absent");
            return refuse("aic_nextn", message);
        }
        if let Some(Err(error)) = self.rates().map(str::parse::<AcceptanceRates>) {
            return refuse("aic_nextn_accept_rates", error.message());
        }
        if self.emit_kv_token_ids && !self.emit_kv_events {
            return refuse("emit_kv_token_ids", "true: needs emit_kv_events to be true");
        }
        if self.g3_offload.is_some() && self.native_host_offload.is_none() {
            return refuse("g3_offload", "given: needs native_host_offload");
        }
        self.check_backend()?;
        self.check_state_cache()?;
        self.timing_model.check().map_err(|error| error.within("timing_model"))
    }

    /// Checks that options of one backend are not asked of another.
    fn check_backend(&self) -> Result<()> {
        let backend = self.backend;
        if self.prefill_schedule_interval != 1 && backend != Backend::Vllm {
            let found = self.prefill_schedule_interval;
            let message = format!("{found}: must be 1 on {backend}, only vllm has it");
            return refuse("prefill_schedule_interval", message);
        }
        if self.prefill_decode_interval != 0 && backend != Backend::Sglang {
            let found = self.prefill_decode_interval;
            let message = format!("{found}: must be 0 on {backend}, only sglang has it");
            return refuse("prefill_decode_interval", message);
        }
        if !self.enable_chunked_prefill && backend == Backend::Sglang {
            return refuse("enable_chunked_prefill", "false: must be true on sglang");
        }
        let used = (backend == Backend::Sglang).then(|| self.tokens_per_block());
        match (&self.sglang, used) {
            (Some(sglang), used) => sglang.check(used).map_err(|error| error.within("sglang")),
            (None, Some(block_size)) => {
                let chunk = SglangConfig::default().chunked_prefill_size;
                if chunk % block_size == 0 {
                    return Ok(());
                }
                let message =
                    format!("{block_size}: must divide sglang.chunked_prefill_size, {chunk}");
                refuse("block_size", message)
            }
            (None, None) => Ok(()),
        }
    }

    /// Checks that recurrent states are cached only where they can be.
    fn check_state_cache(&self) -> Result<()> {
        for (path, given) in [
            ("state_cache", self.state_cache.is_some()),
            ("prefix_match_unit", self.prefix_match_unit.is_some()),
        ] {
            if !given {
                continue;
            }
            if self.backend != Backend::Vllm {
                return refuse(path, format!("given: only vllm has it, not {}", self.backend));
            }
            if self.worker_type != WorkerType::Aggregated {
                return refuse(path, "given: needs the worker_type aggregated");
            }
            if self.native_host_offload.is_some() {
                return refuse(path, "given: excludes native_host_offload");
            }
        }
        Ok(())
    }

    /// Checks what holds for an engine that drafts tokens, or for one that does not.
    pub(super) fn check_drafting(&self, drafts: bool) -> Result<()> {
        if !drafts {
            if self.rates().is_some() {
                return refuse("aic_nextn_accept_rates", "given, but no tokens are drafted");
            }
            if self.aic_mtp_seed != DEFAULT_SEED {
                let seed = self.aic_mtp_seed;
                let message = format!("{seed}: must be {DEFAULT_SEED}, as no tokens are drafted");
                return refuse("aic_mtp_seed", message);
            }
            if self.aic_verify_width.is_some() {
                return refuse("aic_verify_width", "given, but no tokens are drafted");
            }
            return Ok(());
        }
        if self.decode_speedup_ratio != 1.0 {
            let found = self.decode_speedup_ratio;
            let message = format!("{found}: must be 1, as tokens are drafted");
            return refuse("decode_speedup_ratio", message);
        }
        for (path, given) in [
            ("kv_cache_groups", !self.kv_cache_groups.is_empty()),
            ("native_host_offload", self.native_host_offload.is_some()),
            ("prefix_match_unit", self.prefix_match_unit.is_some()),
        ] {
            if given {
                return refuse(path, "given: not supported where tokens are drafted");
            }
        }
        Ok(())
    }
}
