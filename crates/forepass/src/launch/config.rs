//! The launch of an engine: read strictly, checked in one order, and with its depth in its type.

use std::ops::Deref;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::capacity::{Capacity, CapacityEstimationOptions};
use super::drafting::{Drafting, acceptance};
use super::engine::EngineConfig;
use super::report::LaunchReport;
use super::{ENGINE, PERFORMANCE, recoded};
use crate::codes::{E_CAPACITY, E_ENGINE, E_LAUNCH_FIELD, E_PERF_CONFIG, E_ROLE, E_TOPOLOGY};
use crate::config::{ForwardPassPerfModelConfig, document, range};
use crate::error::{Error, Result, present};
use crate::speculation::{AcceptanceRates, Backend, Draft};

/// A launch as authored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Authored {
    engine: EngineConfig,
    #[serde(deserialize_with = "present")]
    dp_size: Option<u32>,
    #[serde(deserialize_with = "present")]
    tensor_parallel_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_time: Option<f64>,
    #[serde(deserialize_with = "present")]
    num_gpu_blocks_is_explicit: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_memory_utilization: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mem_fraction_static: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_gpu_memory_fraction: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cuda_graph_reserved_bytes: Option<u64>,
}

/// The launch of an engine: checked, in its normal form, and with its depth resolved.
///
/// There is no other way to one than through the checks, so that a launch whose engine drafts
/// tokens without a depth does not exist. The options of the engine are reached directly. Written
/// and read again, a launch is the same.
///
/// | Name | Default | Range |
/// |---|---|---|
/// | `engine` | its own | see [`EngineConfig`] |
/// | `dp_size` | that of the performance model, or 1 | ≥ 1 |
/// | `tensor_parallel_size` | that of the performance model, or 1 | ≥ 1, within 32 bits |
/// | `startup_time` | null | seconds, finite, ≥ 0 |
/// | `num_gpu_blocks_is_explicit` | whether `engine.num_gpu_blocks` is authored | |
/// | `gpu_memory_utilization`, `mem_fraction_static`, `free_gpu_memory_fraction` | null | 0 to 1 |
/// | `cuda_graph_reserved_bytes` | null | |
///
/// ```
/// use forepass::launch::EngineLaunchConfig;
///
/// let launch = EngineLaunchConfig::from_json(br#"{
///     "engine": {
///         "num_gpu_blocks": 4096, "aic_nextn_accept_rates": "0.8,0.6,0.4",
///         "timing_model": {"kind": "external", "provider": "ais", "config": {
///             "model": "m", "system": "h200", "backend": "vllm", "worker_type": "aggregated",
///             "speculation": {"kind": "mtp", "params": {"depth": 3}}
///         }}
///     }
/// }"#)?;
/// assert_eq!((launch.depth(), launch.decode_width()), (3, 4));
/// assert_eq!(launch.max_num_seqs, Some(256));
/// # Ok::<(), forepass::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct EngineLaunchConfig {
    normal: Authored,
    draft: Draft,
    acceptance: AcceptanceRates,
    tensor_parallel_size: u32,
    dp_size: u32,
    capacity: Capacity,
}

/// Reads, checks and normalises a launch in its canonical form; the report tells the way.
pub(super) fn resolve(value: Value, report: &mut LaunchReport) -> Result<EngineLaunchConfig> {
    let mut authored: Authored = document::from_value(value).map_err(|error| {
        let path = error.path();
        let rest = path.strip_prefix(ENGINE);
        let engine = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        recoded(&error, if engine { E_ENGINE } else { E_LAUNCH_FIELD }, "")
    })?;
    let readable = authored.engine.timing_model.read_performance();
    authored.infer_parallelism(report);
    let engine = &authored.engine;
    let drafting = Drafting::of(engine, readable.is_ok(), report);
    engine.check().map_err(|error| recoded(&error, E_ENGINE, ENGINE))?;
    if let Some(drafts) = drafting.drafts(engine) {
        engine.check_drafting(drafts).map_err(|error| recoded(&error, E_ENGINE, ENGINE))?;
    }
    let (tensor_parallel_size, dp_size) = authored.check()?;
    readable.map_err(|error| recoded(&error, E_PERF_CONFIG, PERFORMANCE))?;
    if let Some(performance) = engine.timing_model.performance() {
        check_performance(performance, engine, (tensor_parallel_size, dp_size))?;
    }
    let speculates = drafting.is_canonical();
    let draft = drafting.settle(engine)?;
    let acceptance = acceptance(engine, &draft, speculates, report)?;
    let capacity = authored.capacity(report);
    if speculates && draft.depth > 0 && !capacity.explicit {
        return Err(Error::launch(
            E_CAPACITY,
            format!("{ENGINE}.num_gpu_blocks"),
            "inferred: speculation needs an authored number of blocks, and \
             num_gpu_blocks_is_explicit not to be false",
        ));
    }
    authored.remark(report);
    report.aic_nextn = (draft.depth > 0).then_some(draft.depth);

    let engine = &mut authored.engine;
    engine.num_gpu_blocks = Some(capacity.num_gpu_blocks);
    engine.block_size = Some(engine.tokens_per_block());
    engine.aic_nextn = report.aic_nextn;
    engine.aic_nextn_accept_rates = (draft.depth > 0).then(|| acceptance.to_string());
    authored.num_gpu_blocks_is_explicit = Some(capacity.explicit);
    authored.tensor_parallel_size = Some(tensor_parallel_size.into());
    authored.dp_size = Some(dp_size);
    Ok(EngineLaunchConfig {
        normal: authored,
        draft,
        acceptance,
        tensor_parallel_size,
        dp_size,
        capacity,
    })
}

impl Authored {
    /// The parallelism, absent sizes taken from the performance model; 1 where it has none.
    fn infer_parallelism(&mut self, report: &mut LaunchReport) {
        let performance = self.engine.timing_model.performance();
        let sizes = performance.map(|config| (config.tp, config.attention_dp));
        let source = |authored: bool, name: &str, inferred: &str| match sizes {
            _ if authored => name.to_owned(),
            Some(_) => format!("{PERFORMANCE}.{inferred}"),
            None => "default".to_owned(),
        };
        let (tp, dp) = (self.tensor_parallel_size.is_some(), self.dp_size.is_some());
        report.note("tensor_parallel_size", &source(tp, "tensor_parallel_size", "tp"));
        report.note("dp_size", &source(dp, "dp_size", "attention_dp"));
        // A size of 0 is for the check of the performance model to tell.
        let (tp, dp) = sizes.map_or((1, 1), |(tp, dp)| (tp.max(1), dp.max(1)));
        self.tensor_parallel_size.get_or_insert(tp.into());
        self.dp_size.get_or_insert(dp);
    }

    /// Checks what is around the engine, and gives its tensor and data parallelism.
    fn check(&self) -> Result<(u32, u32)> {
        let refused = |error: Error| recoded(&error, E_LAUNCH_FIELD, "");
        let tp = self.tensor_parallel_size.unwrap_or(1);
        let dp_size = self.dp_size.unwrap_or(1);
        range::positive("dp_size", dp_size).map_err(refused)?;
        let tensor_parallel_size =
            u32::try_from(tp).ok().filter(|tp| *tp > 0).ok_or_else(|| {
                let must_be = format!("an integer from 1 to {}", u32::MAX);
                refused(range::out_of_range("tensor_parallel_size", tp, &must_be))
            })?;
        range::finite_nonnegative("startup_time", self.startup_time.unwrap_or(0.0))
            .map_err(refused)?;
        for (path, _, fraction) in self.fractions() {
            if !(0.0..=1.0).contains(&fraction.unwrap_or(0.0)) {
                let found = fraction.unwrap_or(0.0);
                return Err(refused(range::out_of_range(path, found, "from 0 to 1")));
            }
        }
        Ok((tensor_parallel_size, dp_size))
    }

    /// The parts of memory that an estimate of the capacity uses, each on its backend.
    fn fractions(&self) -> [(&'static str, Backend, Option<f64>); 3] {
        [
            ("gpu_memory_utilization", Backend::Vllm, self.gpu_memory_utilization),
            ("mem_fraction_static", Backend::Sglang, self.mem_fraction_static),
            ("free_gpu_memory_fraction", Backend::Trtllm, self.free_gpu_memory_fraction),
        ]
    }

    /// The KV capacity. A claim that it is explicit counts for nothing without an authored number.
    fn capacity(&self, report: &mut LaunchReport) -> Capacity {
        let authored = self.engine.num_gpu_blocks.is_some();
        let claimed = self.num_gpu_blocks_is_explicit;
        if claimed == Some(true) && !authored {
            report.warnings.push(format!(
                "num_gpu_blocks_is_explicit: true, but {ENGINE}.num_gpu_blocks is absent: the \
                 capacity counts as inferred"
            ));
        }
        let capacity = Capacity::new(self.engine.blocks(), authored && claimed.unwrap_or(true));
        report.capacity = Some(capacity);
        let source = if authored { "engine.num_gpu_blocks" } else { "default" };
        report.note("num_gpu_blocks", source);
        capacity
    }

    /// Notes what is without effect, and what is right and yet suspicious.
    fn remark(&self, report: &mut LaunchReport) {
        let backend = self.engine.backend;
        let explicit = report.capacity.is_some_and(|capacity| capacity.explicit);
        for (path, on, fraction) in self.fractions() {
            if fraction.is_some() && on != backend {
                report.ignored.push(format!("{path}: only for {on}"));
            } else if fraction.is_some() && explicit {
                report.ignored.push(format!("{path}: the capacity is explicit"));
            }
        }
        for (path, on, given) in [
            ("sglang", Backend::Sglang, self.engine.sglang.is_some()),
            ("trtllm", Backend::Trtllm, self.engine.trtllm.is_some()),
        ] {
            if given && on != backend {
                report.ignored.push(format!("{ENGINE}.{path}: only for {on}"));
            }
        }
        if let Some(performance) = self.engine.timing_model.performance() {
            if performance.backend != backend.name() {
                report.warnings.push(format!(
                    "{PERFORMANCE}.backend: {}, but {ENGINE}.backend is {backend}",
                    performance.backend
                ));
            }
        }
    }
}

/// Checks the performance model by itself, and then against the launch.
fn check_performance(
    performance: &ForwardPassPerfModelConfig,
    engine: &EngineConfig,
    (tensor_parallel_size, dp_size): (u32, u32),
) -> Result<()> {
    performance.check_launch().map_err(|error| recoded(&error, E_PERF_CONFIG, PERFORMANCE))?;
    if performance.pp != 1 {
        return Err(Error::launch(
            E_TOPOLOGY,
            format!("{PERFORMANCE}.pp"),
            format!("{}: must be 1, as pipeline stages are not simulated", performance.pp),
        ));
    }
    for (path, launch, name, size) in [
        ("tensor_parallel_size", tensor_parallel_size, "tp", performance.tp),
        ("dp_size", dp_size, "attention_dp", performance.attention_dp),
    ] {
        if launch != size {
            return Err(Error::launch(
                E_TOPOLOGY,
                path,
                format!("{launch}, but {PERFORMANCE}.{name} is {size}: must be equal"),
            ));
        }
    }
    if performance.worker_type != engine.worker_type {
        let roles = (engine.worker_type, performance.worker_type);
        return Err(Error::launch(
            E_ROLE,
            format!("{ENGINE}.worker_type"),
            format!(
                "{}, but {PERFORMANCE}.worker_type is {}: must be equal",
                roles.0.name(),
                roles.1.name()
            ),
        ));
    }
    Ok(())
}

impl EngineLaunchConfig {
    /// Reads a launch in its canonical form from JSON text.
    ///
    /// # Errors
    /// The first of the [`codes`](crate::codes), in their order.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let value =
            document::from_json(text).map_err(|error| recoded(&error, E_LAUNCH_FIELD, ""))?;
        Self::from_value(value)
    }

    /// Reads a launch in its canonical form from a JSON value.
    ///
    /// # Errors
    /// The first of the [`codes`](crate::codes), in their order.
    pub fn from_value(value: Value) -> Result<Self> {
        resolve(value, &mut LaunchReport::default())
    }

    /// The launch in its normal form, as compact JSON.
    pub fn to_json(&self) -> String {
        document::to_json(self)
    }

    /// What the engine drafts; a chain, with sources that are paths of the launch.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Draft tokens of a decode step: 0, or 1 to 5.
    pub fn depth(&self) -> u32 {
        self.draft.depth
    }

    /// Rows of a sequence in a decode step: the depth + 1.
    pub fn decode_width(&self) -> u32 {
        self.draft.verify_width
    }

    /// Acceptance of each level of the draft.
    pub fn acceptance(&self) -> &AcceptanceRates {
        &self.acceptance
    }

    /// Size of the KV cache, and whether it was authored.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Tokens in a KV block.
    pub fn block_size(&self) -> u64 {
        self.normal.engine.tokens_per_block()
    }

    /// Tensor-parallel ranks.
    pub fn tensor_parallel_size(&self) -> u32 {
        self.tensor_parallel_size
    }

    /// Attention data-parallel ranks.
    pub fn dp_size(&self) -> u32 {
        self.dp_size
    }

    /// Time until the engine serves, in seconds.
    pub fn startup_time_s(&self) -> Option<f64> {
        self.normal.startup_time
    }

    /// The configuration of the performance model, of the providers `ais` and `aic`.
    pub fn performance_config(&self) -> Option<&ForwardPassPerfModelConfig> {
        self.normal.engine.timing_model.performance()
    }

    /// What an estimate of the KV capacity needs to know.
    pub fn capacity_estimation_options(&self) -> CapacityEstimationOptions {
        let launch = &self.normal;
        CapacityEstimationOptions {
            block_size: self.block_size(),
            max_num_seqs: launch.engine.max_num_seqs,
            max_num_batched_tokens: launch.engine.max_num_batched_tokens,
            gpu_memory_utilization: launch.gpu_memory_utilization,
            mem_fraction_static: launch.mem_fraction_static,
            free_gpu_memory_fraction: launch.free_gpu_memory_fraction,
            cuda_graph_reserved_bytes: launch.cuda_graph_reserved_bytes,
        }
    }
}

impl Deref for EngineLaunchConfig {
    type Target = EngineConfig;

    fn deref(&self) -> &EngineConfig {
        &self.normal.engine
    }
}

impl Serialize for EngineLaunchConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.normal.serialize(to)
    }
}
