//! How latency is fitted to the features.

use serde::{Deserialize, Serialize};

use super::checked::CheckedFit;
use super::linear::LinearFitConfig;
use super::spline::SplineFitConfig;
use super::{range, real};
use crate::error::{Error, Result};
use crate::linear::LinearParams;

/// The fit of each store; the default is the linear one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RegressionFitConfig {
    /// Shape of the fit.
    pub kind: RegressionFitKind,
    /// Ridge on the slopes where the features are collinear, relative to their scatter; finite,
    /// at least 0.
    #[serde(with = "real")]
    pub singular_ridge_scale: f64,
    /// Changes of the retained rows (insertions and evictions) from one scheduled rebuild of the
    /// statistics to the next; at least 1, or `None` for no schedule.
    pub rebuild_interval: Option<u64>,
    /// Variant of the linear fit; only its defaults are supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear: Option<LinearFitConfig>,
    /// Options of the spline; only with the kind `spline`, which fills in the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spline: Option<SplineFitConfig>,
}

/// Shape of the fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RegressionFitKind {
    /// Linear with nonnegative slopes on standardized features; `linear` is another name of it.
    #[default]
    #[serde(alias = "linear")]
    StandardizedNnls,
    /// Piecewise linear along each feature, beside the linear fit.
    Spline,
}

impl Default for RegressionFitConfig {
    fn default() -> Self {
        Self {
            kind: RegressionFitKind::default(),
            singular_ridge_scale: 1e-9,
            rebuild_interval: None,
            linear: None,
            spline: None,
        }
    }
}

impl RegressionFitConfig {
    /// The linear fit.
    pub fn linear() -> Self {
        Self::default()
    }

    /// The spline fit with these options.
    pub fn spline(options: SplineFitConfig) -> Self {
        Self { kind: RegressionFitKind::Spline, spline: Some(options), ..Self::default() }
    }

    /// The same fit with this ridge on the slopes.
    #[must_use]
    pub fn with_singular_ridge_scale(mut self, scale: f64) -> Self {
        self.singular_ridge_scale = scale;
        self
    }

    /// The same fit with this schedule of rebuilds.
    #[must_use]
    pub fn with_rebuild_interval(mut self, interval: Option<u64>) -> Self {
        self.rebuild_interval = interval;
        self
    }

    pub(super) fn check(&self, min_observations: usize) -> Result<CheckedFit> {
        range::finite_nonnegative("singular_ridge_scale", self.singular_ridge_scale)?;
        if self.rebuild_interval == Some(0) {
            return Err(range::out_of_range("rebuild_interval", 0, "positive or null"));
        }
        let linear = LinearParams {
            min_observations,
            singular_ridge_scale: self.singular_ridge_scale,
            rebuild_interval: self.rebuild_interval,
            // The line beside a spline is the spline's gate, and must not outlive its evidence.
            keep_last_usable: self.kind == RegressionFitKind::StandardizedNnls,
        };
        match (self.kind, &self.linear, &self.spline) {
            (RegressionFitKind::StandardizedNnls, _, Some(_)) => Err(Error::config(
                "conflict",
                "spline",
                "requires fit.kind='spline', and the kind is standardized_nnls",
            )),
            (RegressionFitKind::Spline, Some(_), _) => Err(Error::config(
                "conflict",
                "linear",
                "requires fit.kind='standardized_nnls', and the kind is spline",
            )),
            (RegressionFitKind::StandardizedNnls, variant, None) => {
                if let Some(variant) = variant {
                    variant.check().map_err(|error| error.within("linear"))?;
                }
                Ok(CheckedFit::Linear(linear))
            }
            (RegressionFitKind::Spline, None, options) => options
                .clone()
                .unwrap_or_default()
                .check()
                .map(|spline| CheckedFit::Spline(linear, spline))
                .map_err(|error| error.within("spline")),
        }
    }

    /// Fills in the options of a spline, and drops what can only be the default.
    pub(super) fn normalize(&mut self) {
        self.linear = None;
        if self.kind == RegressionFitKind::Spline {
            self.spline.get_or_insert_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::from_json;
    use super::*;

    fn read(json: &str) -> Result<RegressionFitConfig> {
        from_json(json.as_bytes())
    }

    fn refusal(json: &str) -> Error {
        read(json).and_then(|fit| fit.check(5)).unwrap_err()
    }

    #[test]
    fn linear_is_the_default_and_an_alias() {
        for json in [
            "{}",
            r#"{"kind": "linear"}"#,
            r#"{"kind": "standardized_nnls", "singular_ridge_scale": 1e-9, "rebuild_interval": null}"#,
            r#"{"linear": {"non_negative": true}}"#,
        ] {
            let mut fit = read(json).unwrap();
            assert!(matches!(fit.check(5).unwrap(), CheckedFit::Linear(_)));
            fit.normalize();
            assert_eq!(
                serde_json::to_string(&fit).unwrap(),
                r#"{"kind":"standardized_nnls","singular_ridge_scale":1e-9,"rebuild_interval":null}"#
            );
        }
    }

    #[test]
    fn options_reach_the_checked_fit() {
        let fit = read(r#"{"singular_ridge_scale": 0.5, "rebuild_interval": 7}"#).unwrap();
        let expected = LinearParams {
            min_observations: 9,
            singular_ridge_scale: 0.5,
            rebuild_interval: Some(7),
            keep_last_usable: true,
        };
        assert_eq!(fit.check(9).unwrap(), CheckedFit::Linear(expected));
        let spline = RegressionFitConfig::spline(SplineFitConfig::default().with_knots_per_axis(3))
            .with_singular_ridge_scale(0.5)
            .with_rebuild_interval(Some(7));
        let CheckedFit::Spline(linear, spline) = spline.check(9).unwrap() else {
            panic!("a spline was asked for");
        };
        let expected = LinearParams { keep_last_usable: false, ..expected };
        assert_eq!((linear, spline.knots_per_axis), (expected, 3));
    }

    #[test]
    fn a_rebuild_interval_is_a_positive_integer_or_null() {
        let error = refusal(r#"{"rebuild_interval": 0}"#);
        assert_eq!(error.to_string(), "rebuild_interval: 0: must be positive or null");
        for value in ["-1", "true", "4096.0", r#""4096""#, "[1]", "{}"] {
            let error = refusal(&format!(r#"{{"rebuild_interval": {value}}}"#));
            assert_eq!(error.path(), "rebuild_interval", "{value}");
            assert!(error.to_string().contains("a nonnegative integer"), "{error}");
        }
    }

    #[test]
    fn the_ridge_is_finite_and_at_least_zero() {
        for value in ["-1e-12", r#""NaN""#, r#""Infinity""#, "null", "true", r#""1""#] {
            let error = refusal(&format!(r#"{{"singular_ridge_scale": {value}}}"#));
            assert_eq!(error.path(), "singular_ridge_scale", "{value}");
        }
        assert!(read(r#"{"singular_ridge_scale": 0}"#).unwrap().check(5).is_ok());
    }

    #[test]
    fn a_block_belongs_to_its_kind() {
        for json in [r#"{"spline": {}}"#, r#"{"kind": "linear", "spline": {}}"#] {
            let error = refusal(json);
            assert_eq!((error.code(), error.path()), ("conflict", "spline".to_owned()));
            assert!(error.to_string().contains("requires fit.kind='spline'"));
        }
        let error = refusal(r#"{"kind": "spline", "linear": {}}"#);
        assert_eq!((error.code(), error.path()), ("conflict", "linear".to_owned()));
    }

    #[test]
    fn faults_inside_a_block_carry_its_path() {
        let error = refusal(r#"{"kind": "spline", "spline": {"search": {"trigger": 17}}}"#);
        assert_eq!(error.path(), "spline.search.trigger");
        let error = refusal(r#"{"linear": {"non_negative": false}}"#);
        assert_eq!(error.path(), "linear.non_negative");
    }

    #[test]
    fn an_unknown_kind_is_refused_with_the_known_ones() {
        let error = refusal(r#"{"kind": "tree"}"#);
        assert_eq!((error.code(), error.path()), ("invalid_value", "kind".to_owned()));
        for name in ["tree", "standardized_nnls", "linear", "spline"] {
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
        let error = refusal(r#"{"kind": 3}"#);
        assert_eq!((error.code(), error.path()), ("invalid_type", "kind".to_owned()));
    }
}
