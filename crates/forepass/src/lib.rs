//! Forecasts how long an LLM engine's next forward pass will take, learning online from the
//! forward-pass metrics (FPM) that engines publish.

pub mod config;
pub mod error;
pub mod metrics;
pub mod workload;

pub use config::{
    CheckedConfig, EstimationMode, EstimatorConfig, FallbackPolicy, ForwardPassPerfModelConfig,
    FpmRegressionConfig, LegacyOptions, RegressionFitConfig, RegressionFitKind,
    RegressionSamplingConfig, SplineFitConfig, SplineSearchConfig,
};
pub use error::{Error, Result};
pub use metrics::{ForwardPassMetrics, QueuedRequests, ScheduledRequests};
pub use workload::{FeatureWeights, Rejection, WorkerType, Workload, WorkloadKind};
