//! Forecasts how long an LLM engine's next forward pass will take, learning online from the
//! forward-pass metrics (FPM) that engines publish.

pub mod error;
pub mod metrics;
pub mod trace;
pub mod workload;

pub use error::{Error, Result};
pub use metrics::{ForwardPassMetrics, QueuedRequests, ScheduledRequests};
pub use trace::{Iteration, ReadOptions, ReadSummary, TraceFormat, TraceReader};
pub use workload::{FeatureWeights, Rejection, WorkerType, Workload, WorkloadKind};
