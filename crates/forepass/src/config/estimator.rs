//! What the estimator learns and how: the options of regression, and those of the estimators
//! that it stands in for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::checked::CheckedFit;
use super::correction::CorrectionConfig;
use super::features::{self, Features};
use super::fit::{RegressionFitConfig, RegressionFitKind};
use super::sampling::{RegressionSamplingConfig, check_readiness};
use super::spline::SPLINE_MIN_OBSERVATIONS;
use super::{document, range};
use crate::error::Result;
use crate::workload::{FEATURES, FeatureWeights};

/// Options of the estimator; every one has a default.
///
/// | Name | Default | Purpose | Range |
/// |---|---|---|---|
/// | `features.attention_kv_weight` | 1.0 | weight of the KV tokens that attention reads | finite, > 0 |
/// | `features.prefill_attention_pair_weight` | 1.0 | weight of the query-key pairs that prefill computes | finite, > 0 |
/// | `features.ffn_token_weight` | 1.0 | weight of the tokens that pass the feed-forward layers | finite, > 0 |
/// | `fpm_regression.sampling.axes` | attention, ffn | axes of the grid of kept observations | the default |
/// | `fpm_regression.sampling.bins_per_axis` | 4, 4 | cells along each axis | ≥ 1 each, product ≤ `isize::MAX` |
/// | `fpm_regression.sampling.max_observations` | 64 | observations that a store keeps | 1 to 1,000,000; spline: ≥ 32 |
/// | `fpm_regression.min_observations` | 5 | observations from which a store may answer | 1 to `max_observations` |
/// | `fpm_regression.sampling.recent` | 0; auto: half of `max_observations` | newest observations, kept wherever they lie | 0 to `max_observations` - 1 |
/// | `fpm_regression.sampling.max_age` | none; auto: 4096 | observations of a store after which one goes | ≥ 1 |
/// | `fpm_regression.fit.kind` | `standardized_nnls` | shape of the fit | `standardized_nnls` (or `linear`), `spline`, `auto` |
/// | `fpm_regression.fit.weighting` | `absolute`; auto: `relative` | what errors are measured in: milliseconds, or shares of the latency | `absolute`, `relative` |
/// | `fpm_regression.fit.huber` | none; auto: 0.7 | robust deviations beyond which an error counts only in proportion | finite, > 0 |
/// | `fpm_regression.fit.level_tracking` | false; auto: true | whether forecasts follow the level of the newest latencies | true, false |
/// | `fpm_regression.fit.singular_ridge_scale` | 1e-9 | ridge on collinear slopes, relative to their scatter | finite, ≥ 0 |
/// | `fpm_regression.fit.rebuild_interval` | null | insertions and evictions between scheduled rebuilds | ≥ 1, or null |
/// | `fpm_regression.fit.linear` | absent | variant of the linear fit | its defaults; with the linear kind |
/// | `fpm_regression.fit.spline.knots_per_axis` | 2 | interior knots along each axis | 2 or 3; with the kind `spline` |
/// | `fpm_regression.fit.spline.search.kind` | `adaptive` | when knots are searched | `adaptive`, `periodic` |
/// | `fpm_regression.fit.spline.search.window` | 16 | adaptive: predictions looked back upon | 1 to 1,000,000 |
/// | `fpm_regression.fit.spline.search.trigger` | 8 | adaptive: bad ones that start a search | 1 to `window` |
/// | `fpm_regression.fit.spline.search.tolerance` | 0.05 | adaptive: relative error of a bad one | finite, > 0 |
/// | `fpm_regression.fit.spline.search.absolute_tolerance_ms` | 1.0 | adaptive: error never bad, in milliseconds | finite, ≥ 0 |
/// | `fpm_regression.fit.spline.search.cooldown` | 64 | adaptive: observations between searches | ≥ 1 |
/// | `fpm_regression.fit.spline.search.step` | 64 | periodic: observations between searches | ≥ 1 |
/// | `correction` | see [`CorrectionConfig`] | correction of native estimators; no effect here | its own |
/// | `op_level`, `fpm_interpolation` | absent | other estimators; kept, no effect here | an object |
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EstimatorConfig {
    /// Weights of the terms of the two features.
    #[serde(with = "Features")]
    pub features: FeatureWeights,
    /// Options of regression.
    pub fpm_regression: FpmRegressionConfig,
    /// Options of the correction of native estimators; checked, without effect on regression.
    pub correction: CorrectionConfig,
    /// Options of the operator-level estimator; kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op_level: Option<Map<String, Value>>,
    /// Options of the interpolating estimator; kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fpm_interpolation: Option<Map<String, Value>>,
}

/// Options of regression, for each of its stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FpmRegressionConfig {
    /// Which observations a store keeps.
    pub sampling: RegressionSamplingConfig,
    /// Observations from which a store may answer, 1 to `sampling.max_observations`.
    pub min_observations: usize,
    /// How latency is fitted to the features.
    pub fit: RegressionFitConfig,
}

impl Default for FpmRegressionConfig {
    fn default() -> Self {
        Self {
            sampling: RegressionSamplingConfig::default(),
            min_observations: 5,
            fit: RegressionFitConfig::default(),
        }
    }
}

impl EstimatorConfig {
    /// Reads the options from JSON text; ranges are left to the check.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        document::from_json(text)
    }

    /// The options as compact JSON.
    pub fn to_json(&self) -> String {
        document::to_json(self)
    }

    /// Reads the options from a JSON value; ranges are left to the check.
    pub fn from_value(value: Value) -> Result<Self> {
        document::from_value(value)
    }

    /// The same options with these feature weights.
    #[must_use]
    pub fn with_features(mut self, weights: FeatureWeights) -> Self {
        self.features = weights;
        self
    }

    /// The same options with this regression.
    #[must_use]
    pub fn with_fpm_regression(mut self, regression: FpmRegressionConfig) -> Self {
        self.fpm_regression = regression;
        self
    }

    /// Checks all options and gives what regression needs to be told apart from them.
    pub(super) fn check(&self) -> Result<([usize; FEATURES], CheckedFit)> {
        features::check(&self.features).map_err(|error| error.within("features"))?;
        self.correction.check().map_err(|error| error.within("correction"))?;
        self.fpm_regression.check().map_err(|error| error.within("fpm_regression"))
    }

    pub(super) fn normalize(&mut self) {
        self.fpm_regression.sampling.axes = None;
        self.fpm_regression.fit.normalize();
        if self.fpm_regression.fit.kind == RegressionFitKind::Auto {
            self.fpm_regression.sampling.fill_in_freshness();
        }
    }
}

impl FpmRegressionConfig {
    /// The same regression with this retention of observations.
    #[must_use]
    pub fn with_sampling(mut self, sampling: RegressionSamplingConfig) -> Self {
        self.sampling = sampling;
        self
    }

    /// The same regression, answering from this many observations on.
    #[must_use]
    pub fn with_min_observations(mut self, min_observations: usize) -> Self {
        self.min_observations = min_observations;
        self
    }

    /// The same regression with this fit.
    #[must_use]
    pub fn with_fit(mut self, fit: RegressionFitConfig) -> Self {
        self.fit = fit;
        self
    }

    fn check(&self) -> Result<([usize; FEATURES], CheckedFit)> {
        let bins_per_axis = self.sampling.check().map_err(|error| error.within("sampling"))?;
        let max_observations = self.sampling.max_observations;
        check_readiness(self.min_observations, max_observations)?;
        let fit = self.fit.check(self.min_observations).map_err(|error| error.within("fit"))?;
        let has_spline = match &fit {
            CheckedFit::Linear(_) => false,
            CheckedFit::Spline(..) => true,
            CheckedFit::Adaptive(params) => params.knots_per_axis.is_some(),
        };
        if has_spline && max_observations < SPLINE_MIN_OBSERVATIONS {
            return Err(range::out_of_range(
                "sampling.max_observations",
                max_observations,
                &format!("at least {SPLINE_MIN_OBSERVATIONS} for a spline"),
            ));
        }
        Ok((bins_per_axis, fit))
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::from_json;
    use super::*;
    use crate::error::Error;

    fn read(json: &str) -> Result<EstimatorConfig> {
        from_json(json.as_bytes())
    }

    fn refusal(json: &str) -> Error {
        read(json).and_then(|options| options.check()).unwrap_err()
    }

    #[test]
    fn every_option_has_a_default() {
        let options = read("{}").unwrap();
        assert_eq!(options, EstimatorConfig::default());
        assert_eq!(
            serde_json::to_string(&options).unwrap(),
            concat!(
                r#"{"features":{"attention_kv_weight":1.0,"prefill_attention_pair_weight":1.0,"#,
                r#""ffn_token_weight":1.0},"fpm_regression":{"sampling":{"bins_per_axis":[4,4],"#,
                r#""max_observations":64},"min_observations":5,"fit":{"kind":"standardized_nnls","#,
                r#""singular_ridge_scale":1e-9,"rebuild_interval":null}},"correction":"#,
                r#"{"enabled":true,"feature_space":"legacy_workload","sampling":"#,
                r#"{"bins_per_axis":[4,4],"max_observations":64},"min_observations":5,"#,
                r#""factor_bounds":{"min":0.5,"max":2.0},"max_num_tokens":8192,"#,
                r#""max_batch_size":512,"max_kv_tokens":2000000}}"#
            )
        );
    }

    #[test]
    fn weights_are_finite_and_positive() {
        for field in ["attention_kv_weight", "prefill_attention_pair_weight", "ffn_token_weight"] {
            for value in ["0", "-1", r#""NaN""#, r#""Infinity""#, r#""-Infinity""#] {
                let error = refusal(&format!(r#"{{"features": {{"{field}": {value}}}}}"#));
                assert_eq!(error.path(), format!("features.{field}"));
                let found = value.trim_matches('"').replace("Infinity", "inf");
                assert!(error.to_string().contains(&found), "{error}");
            }
            for value in ["null", "true", r#""1""#, r#""nan""#, "[1]"] {
                let error = refusal(&format!(r#"{{"features": {{"{field}": {value}}}}}"#));
                assert_eq!(error.path(), format!("features.{field}"));
                assert_eq!(error.code(), "invalid_type");
            }
        }
        let options = read(r#"{"features": {"attention_kv_weight": 2}}"#).unwrap();
        assert_eq!(options.features.attention_kv, 2.0);
        assert!(options.check().is_ok());
    }

    #[test]
    fn readiness_must_be_within_capacity() {
        let readiness = |min, max| {
            EstimatorConfig::default().with_fpm_regression(
                FpmRegressionConfig::default()
                    .with_min_observations(min)
                    .with_sampling(RegressionSamplingConfig::default().with_max_observations(max)),
            )
        };
        for (min, max) in [(100, 64), (0, 64), (2, 1)] {
            let error = readiness(min, max).check().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "fpm_regression.min_observations: {min}: must be 1 to \
                     sampling.max_observations, which is {max}"
                )
            );
        }
        assert!(readiness(64, 64).check().is_ok());
        assert!(readiness(1, 1).check().is_ok());
    }

    #[test]
    fn a_spline_needs_room_for_its_search() {
        let spline = |max| {
            format!(
                r#"{{"fpm_regression": {{"sampling": {{"max_observations": {max}}},
                    "fit": {{"kind": "spline"}}}}}}"#
            )
        };
        let error = refusal(&spline(31));
        assert_eq!(
            error.to_string(),
            "fpm_regression.sampling.max_observations: 31: must be at least 32 for a spline"
        );
        assert!(read(&spline(32)).unwrap().check().is_ok());
    }

    #[test]
    fn faults_carry_their_nested_path() {
        for (json, path) in [
            (r#"{"fpm_regresion": {}}"#, "fpm_regresion"),
            (r#"{"features": {"weight": 1}}"#, "features.weight"),
            (r#"{"fpm_regression": {"min_observation": 1}}"#, "fpm_regression.min_observation"),
            (r#"{"fpm_regression": {"fit": {"knots": 1}}}"#, "fpm_regression.fit.knots"),
            (
                r#"{"fpm_regression": {"sampling": {"bins_per_axis": [4, "4"]}}}"#,
                "fpm_regression.sampling.bins_per_axis[1]",
            ),
            (
                r#"{"fpm_regression": {"sampling": {"max_observations": 64.0}}}"#,
                "fpm_regression.sampling.max_observations",
            ),
            (
                r#"{"fpm_regression": {"fit": {"rebuild_interval": 0}}}"#,
                "fpm_regression.fit.rebuild_interval",
            ),
            (r#"{"fpm_regression": null}"#, "fpm_regression"),
            (r#"{"correction": {"min_observations": 0}}"#, "correction.min_observations"),
            (r#"{"op_level": 3}"#, "op_level"),
        ] {
            let error = refusal(json);
            assert_eq!(error.path(), path, "{error}");
        }
    }

    #[test]
    fn blocks_of_other_estimators_are_kept_as_they_are() {
        let json = r#"{"op_level": {"a": [1, {"b": null}]}, "fpm_interpolation": {}}"#;
        let written = serde_json::to_value(read(json).unwrap()).unwrap();
        assert_eq!(written["op_level"], serde_json::json!({"a": [1, {"b": null}]}));
        assert_eq!(written["fpm_interpolation"], serde_json::json!({}));
    }
}
