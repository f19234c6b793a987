//! The configuration that a model is built from: checked, and in its normal form.

use super::model::{EstimationMode, FallbackPolicy, ForwardPassPerfModelConfig};
use super::spline::SplineSearchConfig;
use crate::adaptive::AdaptiveParams;
use crate::error::{Error, Result};
use crate::linear::LinearParams;
use crate::retention::Freshness;
use crate::workload::{FEATURES, FeatureWeights, WorkerType};

/// A configuration without contradictions, within all ranges, and of a kind that is implemented.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedConfig {
    normalized: ForwardPassPerfModelConfig,
    bins_per_axis: [usize; FEATURES],
    fit: CheckedFit,
}

/// The fit of each store, with all that it needs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CheckedFit {
    /// The linear fit alone.
    Linear(LinearParams),
    /// A spline beside the linear fit.
    Spline(LinearParams, SplineParams),
    /// Robust models and the choice among them.
    Adaptive(AdaptiveParams),
}

/// Parameters of the spline fit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SplineParams {
    /// Interior knots along each axis, 2 or 3.
    pub knots_per_axis: usize,
    /// When knots are searched anew, within its ranges.
    pub search: SplineSearchConfig,
}

impl ForwardPassPerfModelConfig {
    /// Checks the whole configuration and puts it into its normal form.
    ///
    /// # Errors
    /// The first value that is out of its range, contradicts another, or is not supported; what a
    /// value means is checked before what is supported, so `fallback_policy` hides no mistake.
    pub fn check(&self) -> Result<CheckedConfig> {
        self.check_identity()?;
        let (bins_per_axis, fit) =
            self.estimator_config.check().map_err(|error| error.within("estimator_config"))?;
        self.check_support()?;
        let mut normalized = self.clone();
        normalized.estimator_config.normalize();
        Ok(CheckedConfig { normalized, bins_per_axis, fit })
    }

    /// Refuses, by name, what regression cannot stand in for.
    fn check_support(&self) -> Result<()> {
        let unsupported = |path: &str, message: String| {
            Err(Error::config("unsupported", path, format!("not supported: {message}")))
        };
        if let Some(field) = self.drafting() {
            return unsupported(
                field,
                format!("regression does not model speculative decoding; leave {field} out"),
            );
        }
        if let Some(dcp) = self.dcp_size.filter(|dcp| *dcp > 1) {
            return unsupported(
                "dcp_size",
                format!("{dcp}; regression needs it to be 1 or absent"),
            );
        }
        let mode = match self.estimation_mode {
            EstimationMode::Auto | EstimationMode::FpmRegression => return Ok(()),
            EstimationMode::OpLevel => "op_level",
            EstimationMode::FpmInterpolation => "fpm_interpolation",
        };
        match self.fallback_policy {
            FallbackPolicy::Allow => Ok(()),
            FallbackPolicy::Deny => unsupported(
                "estimation_mode",
                format!("{mode}; use auto or fpm_regression, or set fallback_policy to allow"),
            ),
        }
    }
}

impl CheckedConfig {
    /// What the worker serves.
    pub fn worker_type(&self) -> WorkerType {
        self.normalized.worker_type
    }

    /// Weights of the terms of the features; each finite and positive.
    pub fn weights(&self) -> FeatureWeights {
        self.normalized.estimator_config.features
    }

    /// Cells of the retention grid along each axis; each at least 1.
    pub fn bins_per_axis(&self) -> [usize; FEATURES] {
        self.bins_per_axis
    }

    /// Observations that a store keeps; 1 to [`MAX_OBSERVATIONS`](super::MAX_OBSERVATIONS).
    pub fn max_observations(&self) -> usize {
        let regression = &self.normalized.estimator_config.fpm_regression;
        regression.sampling.max_observations
    }

    /// What else than the grid decides whether an observation is kept.
    pub fn freshness(&self) -> Option<Freshness> {
        self.normalized.estimator_config.fpm_regression.sampling.freshness()
    }

    /// Observations from which a store may answer; 1 to `max_observations`.
    pub fn min_observations(&self) -> usize {
        self.normalized.estimator_config.fpm_regression.min_observations
    }

    /// How latency is fitted to the features.
    pub fn fit(&self) -> &CheckedFit {
        &self.fit
    }

    /// The same configuration in its normal form, with all defaults filled in: checking it again
    /// gives the same, and two configurations that mean the same regression differ in nothing
    /// that regression reads.
    pub fn normalized(&self) -> &ForwardPassPerfModelConfig {
        &self.normalized
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{EstimatorConfig, RegressionFitConfig, SplineFitConfig, UNSPECIFIED};
    use super::*;

    fn config(json: &Value) -> ForwardPassPerfModelConfig {
        ForwardPassPerfModelConfig::from_value(json.clone()).unwrap()
    }

    /// A decode configuration with this value at this JSON pointer.
    fn with(pointer: &str, value: Value) -> ForwardPassPerfModelConfig {
        let mut json = json!({
            "model": "m", "system": "s", "backend": "vllm", "worker_type": "decode", "tp": 4,
            "estimator_config": {"fpm_regression": {"sampling": {}, "fit": {}}}
        });
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        json.pointer_mut(parent).unwrap()[key] = value;
        config(&json)
    }

    fn refusal(config: &ForwardPassPerfModelConfig) -> (&'static str, String) {
        let error = config.check().unwrap_err();
        (error.code(), error.path())
    }

    #[test]
    fn what_the_model_needs_is_there() {
        let checked = config(&json!({
            "model": "m", "system": "s", "backend": "b", "worker_type": "prefill",
            "estimator_config": {
                "features": {"ffn_token_weight": 3},
                "fpm_regression": {
                    "sampling": {"bins_per_axis": [2, 8], "max_observations": 40},
                    "min_observations": 6,
                    "fit": {"kind": "spline", "singular_ridge_scale": 0.5, "rebuild_interval": 9}
                }
            }
        }))
        .check()
        .unwrap();
        assert_eq!(checked.worker_type(), WorkerType::Prefill);
        assert_eq!(checked.weights().ffn_token, 3.0);
        assert_eq!(checked.bins_per_axis(), [2, 8]);
        assert_eq!(checked.max_observations(), 40);
        assert_eq!(checked.min_observations(), 6);
        assert_eq!(
            checked.fit(),
            &CheckedFit::Spline(
                LinearParams {
                    min_observations: 6,
                    singular_ridge_scale: 0.5,
                    rebuild_interval: Some(9),
                    keep_last_usable: false,
                },
                SplineParams {
                    knots_per_axis: 2,
                    search: SplineSearchConfig::adaptive(16, 8, 0.05, 1.0, 64),
                }
            )
        );
    }

    #[test]
    fn a_worker_needs_no_deployment() {
        let mut estimator = EstimatorConfig::default();
        estimator.fpm_regression.fit = RegressionFitConfig::spline(SplineFitConfig::default());
        let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Aggregated, estimator);
        let checked = config.check().unwrap();
        assert_eq!(checked.normalized(), &config);
        assert_eq!(checked.normalized().backend, UNSPECIFIED);
    }

    #[test]
    fn what_regression_does_not_model_is_refused_under_any_policy() {
        let ngram = json!({"kind": "ngram", "params": {"num_speculative_tokens": 3}});
        for (field, value) in [("nextn", json!(3)), ("speculation", ngram), ("dcp_size", json!(2))]
        {
            for (policy, mode) in [("deny", "auto"), ("allow", "auto"), ("allow", "op_level")] {
                let mut json = json!({
                    "model": "m", "system": "s", "backend": "vllm", "worker_type": "decode",
                    "tp": 4, "fallback_policy": policy, "estimation_mode": mode
                });
                json[field] = value.clone();
                assert_eq!(refusal(&config(&json)), ("unsupported", field.to_owned()));
            }
        }
        assert!(with("/dcp_size", json!(1)).check().is_ok());
        assert!(with("/speculation", json!({"kind": "none"})).check().is_ok());
    }

    #[test]
    fn other_estimators_are_refused_by_name_unless_fallback_is_allowed() {
        for mode in ["op_level", "fpm_interpolation"] {
            let mut config = with("/estimation_mode", json!(mode));
            let error = config.check().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "estimation_mode: not supported: {mode}; use auto or fpm_regression, or set \
                     fallback_policy to allow"
                )
            );
            config.fallback_policy = FallbackPolicy::Allow;
            let checked = config.check().unwrap();
            assert_eq!(checked.normalized().estimation_mode, config.estimation_mode);
        }
        for mode in ["auto", "fpm_regression"] {
            assert!(with("/estimation_mode", json!(mode)).check().is_ok());
        }
    }

    #[test]
    fn no_policy_hides_a_mistake() {
        for (pointer, value) in [
            ("fpm_regression/fit/rebuild_interval", json!(0)),
            ("fpm_regression/fit/singular_ridge_scale", json!(-1)),
            ("fpm_regression/fit/spline", json!({})),
            ("fpm_regression/fit/linear", json!({"non_negative": false})),
            ("fpm_regression/sampling/axes", json!(["n", "logN"])),
            ("fpm_regression/sampling/bins_per_axis", json!([4])),
            ("fpm_regression/sampling/max_observations", json!(0)),
            ("fpm_regression/min_observations", json!(65)),
            ("features", json!({"ffn_token_weight": "NaN"})),
        ] {
            let mut config = with(&format!("/estimator_config/{pointer}"), value);
            config.estimation_mode = EstimationMode::OpLevel;
            config.fallback_policy = FallbackPolicy::Allow;
            let (_, path) = refusal(&config);
            let expected = format!("estimator_config.{}", pointer.replace('/', "."));
            assert!(path.starts_with(&expected), "{path} is not in {expected}");
        }
    }

    #[test]
    fn kinds_of_one_fit_have_one_normal_form() {
        let normal = |fit: Value| {
            let checked = with("/estimator_config/fpm_regression/fit", fit).check().unwrap();
            serde_json::from_str::<Value>(&checked.normalized().to_json()).unwrap()
        };
        let linear = normal(json!({}));
        assert_eq!(
            linear["estimator_config"]["fpm_regression"]["fit"],
            json!({"kind": "standardized_nnls", "singular_ridge_scale": 1e-9, "rebuild_interval": null})
        );
        assert_eq!(normal(json!({"kind": "linear"})), linear);
        assert_eq!(normal(json!({"kind": "standardized_nnls"})), linear);
        assert_eq!(normal(json!({"linear": {}})), linear);
        let spline = normal(json!({"kind": "spline"}));
        assert_eq!(
            spline["estimator_config"]["fpm_regression"]["fit"]["spline"],
            json!({
                "knots_per_axis": 2,
                "search": {
                    "kind": "adaptive", "window": 16, "trigger": 8, "tolerance": 0.05,
                    "absolute_tolerance_ms": 1.0, "cooldown": 64
                }
            })
        );
        assert_eq!(normal(json!({"kind": "spline", "spline": {"search": {}}})), spline);
    }

    #[test]
    fn default_axes_are_not_written() {
        let axes = json!(["attention", "moe"]);
        let config = with("/estimator_config/fpm_regression/sampling/axes", axes);
        assert!(config.to_json().contains("axes"));
        let checked = config.check().unwrap();
        assert!(!checked.normalized().to_json().contains("\"axes\""));
    }

    #[test]
    fn checking_the_normal_form_changes_nothing() {
        for fit in [json!({}), json!({"kind": "spline"}), json!({"linear": {}})] {
            let first = with("/estimator_config/fpm_regression/fit", fit).check().unwrap();
            assert_eq!(first.normalized().check().unwrap(), first);
        }
    }
}
