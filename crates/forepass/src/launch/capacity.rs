//! How large the KV cache is, and what an estimate of it needs to know.

use serde::Serialize;

/// Size of the KV cache, and whether its author chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capacity {
    /// Number of blocks.
    pub num_gpu_blocks: u64,
    /// Whether the number was authored, and not inferred.
    pub explicit: bool,
}

impl Capacity {
    /// This many blocks, authored or not.
    pub fn new(num_gpu_blocks: u64, explicit: bool) -> Self {
        Self { num_gpu_blocks, explicit }
    }
}

/// What an estimate of the KV capacity needs to know.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CapacityEstimationOptions {
    /// Tokens in a block.
    pub block_size: u64,
    /// Most sequences in a batch, where there is a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_seqs: Option<u64>,
    /// Most tokens in a batch, where there is a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_batched_tokens: Option<u64>,
    /// Part of the memory that vLLM may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory_utilization: Option<f64>,
    /// Part of the memory that SGLang uses for weights and KV cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_fraction_static: Option<f64>,
    /// Part of the free memory that TensorRT-LLM uses for the KV cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_gpu_memory_fraction: Option<f64>,
    /// Bytes that captured graphs take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_graph_reserved_bytes: Option<u64>,
}
