//! The flat options of older programs, brought into the nested form.

use std::fmt::Debug;

use serde::Deserialize;
use serde_json::Value;

use super::document::from_value;
use super::estimator::EstimatorConfig;
use super::{range, real};
use crate::error::{Error, Result, present};

/// Flat options of older programs; an absent one says nothing.
///
/// Retention and readiness are set for regression and for the correction of native estimators
/// alike, as the flat options knew no difference between the two.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LegacyOptions {
    /// Observations kept.
    #[serde(deserialize_with = "present")]
    pub max_observations: Option<usize>,
    /// Observations from which there is an answer.
    #[serde(deserialize_with = "present")]
    pub min_observations: Option<usize>,
    /// Cells of a square grid: a perfect square. `bucket_shape` overrides it.
    #[serde(deserialize_with = "present")]
    pub bucket_count: Option<usize>,
    /// Cells along each axis.
    #[serde(deserialize_with = "present")]
    pub bucket_shape: Option<Vec<usize>>,
    /// Weight of the KV tokens that attention reads.
    #[serde(deserialize_with = "real::present")]
    pub regression_attention_kv_weight: Option<f64>,
    /// Weight of the query-key pairs that prefill computes.
    #[serde(deserialize_with = "real::present")]
    pub regression_prefill_attention_pair_weight: Option<f64>,
    /// Weight of the tokens that pass the feed-forward layers.
    #[serde(deserialize_with = "real::present", alias = "regression_moe_token_weight")]
    pub regression_ffn_token_weight: Option<f64>,
    /// Ridge on collinear slopes.
    #[serde(deserialize_with = "real::present")]
    pub regression_ridge_scale: Option<f64>,
    /// Upper end of the correction's axis of prefill tokens.
    #[serde(deserialize_with = "present")]
    pub max_num_tokens: Option<u64>,
    /// Upper end of the correction's axis of decode requests.
    #[serde(deserialize_with = "present")]
    pub max_batch_size: Option<u64>,
    /// Upper end of the correction's axis of decode KV tokens.
    #[serde(deserialize_with = "present")]
    pub max_kv_tokens: Option<u64>,
}

impl LegacyOptions {
    /// Reads the options from JSON text.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        super::document::from_json(text)
    }

    /// Reads the options from a JSON object.
    pub fn from_value(value: Value) -> Result<Self> {
        from_value(value)
    }

    /// Cells along each axis, if the options say anything about them, after the option that does.
    fn buckets(&self) -> Result<(&'static str, Option<Vec<usize>>)> {
        if self.bucket_shape.is_some() {
            return Ok(("bucket_shape", self.bucket_shape.clone()));
        }
        let Some(count) = self.bucket_count else {
            return Ok(("bucket_count", None));
        };
        let side = count.isqrt();
        if count == 0 || side * side != count {
            let must_be = "a positive perfect square, unless bucket_shape is given";
            return Err(range::out_of_range("bucket_count", count, must_be));
        }
        Ok(("bucket_count", Some(vec![side, side])))
    }
}

impl EstimatorConfig {
    /// The nested form of flat options, merged with nested options as authored (a JSON object).
    ///
    /// Both count as explicit, so where they meet they must agree; defaults fill in the rest.
    ///
    /// # Errors
    /// A malformed option; a `bucket_count` that is no square; two explicit values that differ.
    pub fn from_legacy(options: &LegacyOptions, explicit: Option<&Value>) -> Result<Self> {
        let mut config = match explicit {
            Some(authored) => Self::from_value(authored.clone())?,
            None => Self::default(),
        };
        let merge = Merge { explicit };
        let weights = &mut config.features;
        let regression = &mut config.fpm_regression;
        let correction = &mut config.correction;
        for (name, legacy, path, field) in [
            (
                "regression_attention_kv_weight",
                options.regression_attention_kv_weight,
                "features.attention_kv_weight",
                &mut weights.attention_kv,
            ),
            (
                "regression_prefill_attention_pair_weight",
                options.regression_prefill_attention_pair_weight,
                "features.prefill_attention_pair_weight",
                &mut weights.prefill_attention_pair,
            ),
            (
                "regression_ffn_token_weight",
                options.regression_ffn_token_weight,
                "features.ffn_token_weight",
                &mut weights.ffn_token,
            ),
            (
                "regression_ridge_scale",
                options.regression_ridge_scale,
                "fpm_regression.fit.singular_ridge_scale",
                &mut regression.fit.singular_ridge_scale,
            ),
        ] {
            merge.set(name, legacy, path, field)?;
        }
        for (name, legacy, path, field) in [
            (
                "max_observations",
                options.max_observations,
                "fpm_regression.sampling.max_observations",
                &mut regression.sampling.max_observations,
            ),
            (
                "max_observations",
                options.max_observations,
                "correction.sampling.max_observations",
                &mut correction.sampling.max_observations,
            ),
            (
                "min_observations",
                options.min_observations,
                "fpm_regression.min_observations",
                &mut regression.min_observations,
            ),
            (
                "min_observations",
                options.min_observations,
                "correction.min_observations",
                &mut correction.min_observations,
            ),
        ] {
            merge.set(name, legacy, path, field)?;
        }
        let (name, buckets) = options.buckets()?;
        for (path, field) in [
            ("fpm_regression.sampling.bins_per_axis", &mut regression.sampling.bins_per_axis),
            ("correction.sampling.bins_per_axis", &mut correction.sampling.bins_per_axis),
        ] {
            merge.set(name, buckets.clone(), path, field)?;
        }
        for (name, legacy, path, field) in [
            (
                "max_num_tokens",
                options.max_num_tokens,
                "correction.max_num_tokens",
                &mut correction.max_num_tokens,
            ),
            (
                "max_batch_size",
                options.max_batch_size,
                "correction.max_batch_size",
                &mut correction.max_batch_size,
            ),
            (
                "max_kv_tokens",
                options.max_kv_tokens,
                "correction.max_kv_tokens",
                &mut correction.max_kv_tokens,
            ),
        ] {
            merge.set(name, legacy, path, field)?;
        }
        Ok(config)
    }
}

/// Sets fields of the nested form, where the authored JSON does not say otherwise.
struct Merge<'a> {
    explicit: Option<&'a Value>,
}

impl Merge<'_> {
    fn set<T: PartialEq + Debug>(
        &self,
        name: &str,
        legacy: Option<T>,
        path: &str,
        field: &mut T,
    ) -> Result<()> {
        let Some(legacy) = legacy else { return Ok(()) };
        if self.is_explicit(path) && *field != legacy {
            return Err(Error::config(
                "conflict",
                path,
                format!("{field:?}, but the flat option {name} is {legacy:?}: give one of them"),
            ));
        }
        *field = legacy;
        Ok(())
    }

    fn is_explicit(&self, path: &str) -> bool {
        let pointer = format!("/{}", path.replace('.', "/"));
        self.explicit.is_some_and(|value| value.pointer(&pointer).is_some())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(json: Value) -> LegacyOptions {
        LegacyOptions::from_value(json).unwrap()
    }

    fn merged(legacy: Value, explicit: &Value) -> Result<EstimatorConfig> {
        EstimatorConfig::from_legacy(&options(legacy), Some(explicit))
    }

    #[test]
    fn no_option_leaves_the_defaults() {
        let config = EstimatorConfig::from_legacy(&LegacyOptions::default(), None).unwrap();
        assert_eq!(config, EstimatorConfig::default());
    }

    #[test]
    fn every_option_has_its_nested_place() {
        let legacy = json!({
            "max_observations": 100, "min_observations": 7, "bucket_count": 25,
            "regression_attention_kv_weight": 2, "regression_prefill_attention_pair_weight": 0.5,
            "regression_ffn_token_weight": 3.0, "regression_ridge_scale": 1e-3,
            "max_num_tokens": 1, "max_batch_size": 2, "max_kv_tokens": 3
        });
        let nested = json!({
            "features": {
                "attention_kv_weight": 2.0,
                "prefill_attention_pair_weight": 0.5,
                "ffn_token_weight": 3.0
            },
            "fpm_regression": {
                "sampling": {"bins_per_axis": [5, 5], "max_observations": 100},
                "min_observations": 7,
                "fit": {"singular_ridge_scale": 1e-3}
            },
            "correction": {
                "sampling": {"bins_per_axis": [5, 5], "max_observations": 100},
                "min_observations": 7,
                "max_num_tokens": 1, "max_batch_size": 2, "max_kv_tokens": 3
            }
        });
        let expected = EstimatorConfig::from_value(nested.clone()).unwrap();
        let config = EstimatorConfig::from_legacy(&options(legacy.clone()), None).unwrap();
        assert_eq!(config, expected);
        assert_eq!(merged(legacy, &nested).unwrap(), expected, "equal values agree");
    }

    #[test]
    fn explicit_values_that_differ_are_a_conflict() {
        for (legacy, explicit, path) in [
            (
                json!({"min_observations": 5}),
                json!({"fpm_regression": {"min_observations": 7}}),
                "fpm_regression.min_observations",
            ),
            (
                // The nested value is the default, and explicit nevertheless.
                json!({"max_observations": 100}),
                json!({"fpm_regression": {"sampling": {"max_observations": 64}}}),
                "fpm_regression.sampling.max_observations",
            ),
            (
                json!({"bucket_count": 16}),
                json!({"correction": {"sampling": {"bins_per_axis": [16]}}}),
                "correction.sampling.bins_per_axis",
            ),
            (
                json!({"regression_moe_token_weight": 2.0}),
                json!({"features": {"ffn_token_weight": 3.0}}),
                "features.ffn_token_weight",
            ),
            (
                json!({"regression_ridge_scale": "NaN"}),
                json!({"fpm_regression": {"fit": {"singular_ridge_scale": 0}}}),
                "fpm_regression.fit.singular_ridge_scale",
            ),
        ] {
            let error = merged(legacy, &explicit).unwrap_err();
            assert_eq!((error.code(), error.path().as_str()), ("conflict", path));
        }
        let error = merged(
            json!({"min_observations": 5}),
            &json!({"fpm_regression": {"min_observations": 7}}),
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "fpm_regression.min_observations: 7, but the flat option min_observations is 5: \
             give one of them"
        );
    }

    #[test]
    fn other_explicit_values_stay() {
        let explicit = json!({"fpm_regression": {"fit": {"kind": "spline"}}});
        let config = merged(json!({"min_observations": 6}), &explicit).unwrap();
        let mut expected = EstimatorConfig::from_value(explicit).unwrap();
        expected.fpm_regression.min_observations = 6;
        expected.correction.min_observations = 6;
        assert_eq!(config, expected);
    }

    #[test]
    fn a_bucket_count_is_a_perfect_square() {
        for count in [0, 2, 15, 17, usize::MAX] {
            let legacy = options(json!({"bucket_count": count}));
            let error = EstimatorConfig::from_legacy(&legacy, None).unwrap_err();
            assert_eq!(error.path(), "bucket_count");
            assert!(error.to_string().contains(&count.to_string()), "{error}");
        }
        let config = |legacy| EstimatorConfig::from_legacy(&options(legacy), None).unwrap();
        let shaped = config(json!({"bucket_count": 15, "bucket_shape": [3, 5]}));
        assert_eq!(shaped.fpm_regression.sampling.bins_per_axis, [3, 5]);
        let single = config(json!({"bucket_count": 1}));
        assert_eq!(single.fpm_regression.sampling.bins_per_axis, [1, 1]);
    }

    #[test]
    fn a_malformed_option_is_refused_by_its_flat_name() {
        for (json, code, path) in [
            (json!({"max_observation": 5}), "unknown_field", "max_observation"),
            (json!({"max_observations": 5.0}), "invalid_type", "max_observations"),
            (json!({"min_observations": null}), "invalid_type", "min_observations"),
            (json!({"bucket_shape": [4, -1]}), "invalid_value", "bucket_shape[1]"),
            (json!({"rebuild_interval": 5}), "unknown_field", "rebuild_interval"),
            (json!({"regression_ridge_scale": "x"}), "invalid_type", "regression_ridge_scale"),
        ] {
            let error = LegacyOptions::from_value(json).unwrap_err();
            assert_eq!((error.code(), error.path().as_str()), (code, path), "{error}");
        }
        let both = json!({"regression_ffn_token_weight": 1, "regression_moe_token_weight": 1});
        let error = LegacyOptions::from_value(both).unwrap_err();
        assert_eq!(error.code(), "duplicate_field");
        assert!(error.to_string().contains("regression_moe_token_weight"), "{error}");
    }

    #[test]
    fn a_fault_of_the_nested_form_keeps_its_path() {
        let error = merged(json!({}), &json!({"fpm_regression": 3})).unwrap_err();
        assert_eq!(error.path(), "fpm_regression");
    }
}
