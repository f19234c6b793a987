//! Options of the correction of native estimators, which regression carries and does not use.

use serde::{Deserialize, Serialize};

use super::sampling::{check_grid, check_readiness};
use super::{range, real};
use crate::error::Result;

/// Online correction of a native estimate; checked and kept, without effect on regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CorrectionConfig {
    /// Whether estimates are corrected.
    pub enabled: bool,
    /// Coordinates of the grid of corrections.
    pub feature_space: FeatureSpace,
    /// Cells and capacity of the grid.
    pub sampling: CorrectionSamplingConfig,
    /// Observations from which a kind of work is corrected, 1 to `sampling.max_observations`.
    pub min_observations: usize,
    /// Bounds of the correction that one observation suggests.
    pub factor_bounds: FactorBounds,
    /// Upper end of the axis of prefill tokens; at least 1.
    pub max_num_tokens: u64,
    /// Upper end of the axis of decode requests; at least 1.
    pub max_batch_size: u64,
    /// Upper end of the axis of decode KV tokens; at least 1.
    pub max_kv_tokens: u64,
}

/// Coordinates of the grid of corrections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FeatureSpace {
    /// Token and request counts of the heaviest rank.
    #[default]
    LegacyWorkload,
}

/// Cells and capacity of a grid of corrections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CorrectionSamplingConfig {
    /// Cells along each axis; 1 to 6 counts, each at least 1.
    pub bins_per_axis: Vec<usize>,
    /// Observations kept, 1 to [`MAX_OBSERVATIONS`](super::MAX_OBSERVATIONS).
    pub max_observations: usize,
}

/// Bounds of a correction factor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FactorBounds {
    /// Smallest factor; greater than 0, at most 1.
    #[serde(with = "real")]
    pub min: f64,
    /// Largest factor; finite, at least 1.
    #[serde(with = "real")]
    pub max: f64,
}

impl Default for CorrectionConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            feature_space: FeatureSpace::default(),
            sampling: CorrectionSamplingConfig::default(),
            min_observations: 5,
            factor_bounds: FactorBounds::default(),
            max_num_tokens: 8192,
            max_batch_size: 512,
            max_kv_tokens: 2_000_000,
        }
    }
}

impl Default for CorrectionSamplingConfig {
    fn default() -> Self {
        Self { bins_per_axis: vec![4, 4], max_observations: 64 }
    }
}

impl Default for FactorBounds {
    fn default() -> Self {
        Self { min: 0.5, max: 2.0 }
    }
}

impl CorrectionConfig {
    pub(super) fn check(&self) -> Result<()> {
        let CorrectionSamplingConfig { bins_per_axis, max_observations } = &self.sampling;
        check_grid(bins_per_axis, *max_observations).map_err(|error| error.within("sampling"))?;
        check_readiness(self.min_observations, *max_observations)?;
        self.factor_bounds.check().map_err(|error| error.within("factor_bounds"))?;
        range::positive("max_num_tokens", self.max_num_tokens)?;
        range::positive("max_batch_size", self.max_batch_size)?;
        range::positive("max_kv_tokens", self.max_kv_tokens)
    }
}

impl FactorBounds {
    fn check(&self) -> Result<()> {
        range::finite_positive("min", self.min)?;
        range::finite_positive("max", self.max)?;
        if self.min > 1.0 {
            return Err(range::out_of_range("min", self.min, "at most 1"));
        }
        if self.max < 1.0 {
            return Err(range::out_of_range("max", self.max, "at least 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::from_json;
    use super::*;

    fn read(json: &str) -> Result<CorrectionConfig> {
        from_json(json.as_bytes())
    }

    #[test]
    fn every_option_has_a_default() {
        assert_eq!(read("{}").unwrap(), CorrectionConfig::default());
        assert!(CorrectionConfig::default().check().is_ok());
    }

    #[test]
    fn the_block_survives_json() {
        let json = concat!(
            r#"{"enabled":false,"feature_space":"legacy_workload","#,
            r#""sampling":{"bins_per_axis":[8],"max_observations":32},"min_observations":2,"#,
            r#""factor_bounds":{"min":0.25,"max":8.0},"max_num_tokens":1,"max_batch_size":2,"#,
            r#""max_kv_tokens":3}"#
        );
        let correction = read(json).unwrap();
        assert!(correction.check().is_ok());
        assert_eq!(serde_json::to_string(&correction).unwrap(), json);
    }

    #[test]
    fn each_option_has_its_type_and_range() {
        for (json, path) in [
            (r#"{"enabled": 1}"#, "enabled"),
            (r#"{"feature_space": "tokens"}"#, "feature_space"),
            (r#"{"sampling": {"bins_per_axis": []}}"#, "sampling.bins_per_axis"),
            (r#"{"sampling": {"bins_per_axis": [0]}}"#, "sampling.bins_per_axis"),
            (r#"{"sampling": {"max_observations": 0}}"#, "sampling.max_observations"),
            (r#"{"sampling": {"axes": ["attention"]}}"#, "sampling.axes"),
            (r#"{"min_observations": 0}"#, "min_observations"),
            (r#"{"min_observations": 65}"#, "min_observations"),
            (r#"{"factor_bounds": {"min": 0}}"#, "factor_bounds.min"),
            (r#"{"factor_bounds": {"min": 1.5}}"#, "factor_bounds.min"),
            (r#"{"factor_bounds": {"max": 0.5}}"#, "factor_bounds.max"),
            (r#"{"factor_bounds": {"max": "NaN"}}"#, "factor_bounds.max"),
            (r#"{"factor_bounds": {"max": "Infinity"}}"#, "factor_bounds.max"),
            (r#"{"factor_bounds": {"max": null}}"#, "factor_bounds.max"),
            (r#"{"max_num_tokens": 0}"#, "max_num_tokens"),
            (r#"{"max_batch_size": -1}"#, "max_batch_size"),
            (r#"{"max_kv_tokens": 2e6}"#, "max_kv_tokens"),
        ] {
            let error = read(json).and_then(|block| block.check()).unwrap_err();
            assert_eq!(error.path(), path, "{json}: {error}");
        }
        assert!(read(r#"{"factor_bounds": {"min": 1, "max": 1}}"#).unwrap().check().is_ok());
    }
}
