//! What a model is asked to be: options as authored, and the same options checked.
//!
//! [`ForwardPassPerfModelConfig`] is the configuration as authored, from JSON or from code.
//! Reading it settles spelling (aliases, unknown and repeated keys, types);
//! [`check`](ForwardPassPerfModelConfig::check) settles meaning (ranges, contradictions, what is
//! supported) and gives a [`CheckedConfig`], a type that cannot be had otherwise and the only one
//! a model is built from. Each refusal is an [`Error::Config`](crate::Error::Config) with the JSON
//! path of the value at fault, and one of these codes:
//!
//! | Code | Meaning |
//! |---|---|
//! | `invalid_json` | the text is not JSON |
//! | `unknown_field` | a key that the object does not have, most often a misspelt one |
//! | `missing_field` | a required key is absent |
//! | `duplicate_field` | a key stands twice, or under both of its spellings |
//! | `invalid_type` | a value of the wrong JSON type |
//! | `invalid_value` | a value out of its range |
//! | `conflict` | two values that contradict each other |
//! | `unsupported` | a legal value that this crate does not implement |
//!
//! ```
//! use forepass::ForwardPassPerfModelConfig;
//!
//! let config = ForwardPassPerfModelConfig::from_json(
//!     br#"{
//!         "model": "llama-70b", "system": "h200", "backend": "vllm", "worker_type": "decode",
//!         "estimator_config": {"fpm_regression": {"fit": {"kind": "spline"}}}
//!     }"#,
//! )?;
//! let checked = config.check()?;
//! assert_eq!(checked.max_observations(), 64);
//! # Ok::<(), forepass::Error>(())
//! ```

mod checked;
mod correction;
pub(crate) mod document;
mod estimator;
mod features;
mod fit;
mod identity;
mod legacy;
mod linear;
mod model;
#[cfg(test)]
mod properties;
pub(crate) mod range;
mod real;
mod sampling;
mod speculation;
mod spline;
pub(crate) mod strict;

pub use checked::{CheckedConfig, CheckedFit, SplineParams};
pub use correction::{CorrectionConfig, CorrectionSamplingConfig, FactorBounds, FeatureSpace};
pub use estimator::{EstimatorConfig, FpmRegressionConfig};
pub use fit::{ErrorWeighting, RegressionFitConfig, RegressionFitKind};
pub use legacy::LegacyOptions;
pub use linear::{LinearFitConfig, RegressionUpdatePolicy};
pub use model::{EstimationMode, FallbackPolicy, ForwardPassPerfModelConfig, UNSPECIFIED};
pub use sampling::{MAX_OBSERVATIONS, RegressionSamplingConfig};
pub use speculation::SpeculationConfig;
pub use spline::{AdaptiveSearch, SPLINE_MIN_OBSERVATIONS, SplineFitConfig, SplineSearchConfig};
