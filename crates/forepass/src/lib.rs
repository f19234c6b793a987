//! Forecasts how long an LLM engine's next forward pass will take, learning online from the
//! forward-pass metrics (FPM) that engines publish, and resolves how deep an engine speculates.

pub mod adaptive;
pub mod batch;
pub mod codes;
pub mod config;
pub mod error;
pub mod forecast;
pub mod inspect;
pub mod launch;
pub mod linear;
pub mod metrics;
pub mod model;
pub mod moments;
pub mod nnls;
pub mod progress;
mod quantile;
pub mod replay;
pub mod retention;
pub mod speculation;
pub mod spline;
pub mod store;
pub mod trace;
pub mod workload;

pub use batch::Columns;
pub use config::{CheckedConfig, EstimatorConfig, ForwardPassPerfModelConfig};
pub use error::{Error, Result};
pub use forecast::{Forecast, Reason, Source};
pub use launch::{EngineLaunchConfig, LaunchReport, resolve_launch};
pub use metrics::{ForwardPassMetrics, QueuedRequests, ScheduledRequests};
pub use model::{Diagnostics, ForwardPassModel, Observed};
pub use progress::Progress;
pub use speculation::resolve_speculation;
pub use trace::{Iteration, ReadOptions, ReadSummary, TraceFormat, TraceReader};
pub use workload::{FeatureWeights, Rejection, WorkerType, Workload, WorkloadKind};
