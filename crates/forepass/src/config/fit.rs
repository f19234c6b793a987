//! How latency is fitted to the features.

use serde::{Deserialize, Serialize};

use super::checked::{CheckedFit, SplineParams};
use super::linear::LinearFitConfig;
use super::spline::SplineFitConfig;
use super::{range, real};
use crate::adaptive::{AdaptiveParams, Weighting};
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
    /// What errors are measured in. This option and the two below make a fit robust: it is then
    /// refitted from the rows, without `rebuild_interval` and a schedule of searches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighting: Option<ErrorWeighting>,
    /// Error, in robust standard deviations, beyond which a row counts only in proportion; finite,
    /// greater than 0.
    #[serde(default, with = "real::optional", skip_serializing_if = "Option::is_none")]
    pub huber: Option<f64>,
    /// Whether forecasts follow the level of the newest latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level_tracking: Option<bool>,
}

/// What errors are measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorWeighting {
    /// Milliseconds.
    Absolute,
    /// Shares of the latency.
    Relative,
}

/// Robust standard deviations up to which the kind `auto` counts errors in full.
const AUTO_HUBER: f64 = 0.7;

/// Knots of its spline along each axis.
const AUTO_KNOTS: usize = 3;

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
    /// A robust line and a robust spline, as they are and at the level of the newest latencies;
    /// the best of late answers, within an interval.
    Auto,
}

impl Default for RegressionFitConfig {
    fn default() -> Self {
        Self {
            kind: RegressionFitKind::default(),
            singular_ridge_scale: 1e-9,
            rebuild_interval: None,
            linear: None,
            spline: None,
            weighting: None,
            huber: None,
            level_tracking: None,
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

    /// The fit that chooses for itself.
    pub fn auto() -> Self {
        Self { kind: RegressionFitKind::Auto, ..Self::default() }
    }

    /// The same fit with errors measured like this.
    #[must_use]
    pub fn with_weighting(mut self, weighting: ErrorWeighting) -> Self {
        self.weighting = Some(weighting);
        self
    }

    /// The same fit with errors beyond this many robust deviations counted in proportion only.
    #[must_use]
    pub fn with_huber(mut self, deviations: f64) -> Self {
        self.huber = Some(deviations);
        self
    }

    /// The same fit, following the level of the newest latencies or not.
    #[must_use]
    pub fn with_level_tracking(mut self, tracking: bool) -> Self {
        self.level_tracking = Some(tracking);
        self
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
        if let Some(huber) = self.huber {
            range::finite_positive("huber", huber)?;
        }
        self.check_blocks()?;
        if self.is_robust() {
            return self.robust(linear).map(CheckedFit::Adaptive);
        }
        match &self.spline {
            Some(spline) => Ok(CheckedFit::Spline(linear, check_spline(spline)?)),
            None if self.kind == RegressionFitKind::Spline => {
                Ok(CheckedFit::Spline(linear, check_spline(&SplineFitConfig::default())?))
            }
            None => Ok(CheckedFit::Linear(linear)),
        }
    }

    /// Refuses the options of another kind.
    fn check_blocks(&self) -> Result<()> {
        let is_of_another_kind = |block: &str, kind: &str| {
            let own = self.kind.name();
            Err(Error::config(
                "conflict",
                block,
                format!("requires fit.kind='{kind}', and the kind is {own}"),
            ))
        };
        if self.spline.is_some() && self.kind != RegressionFitKind::Spline {
            return is_of_another_kind("spline", "spline");
        }
        match &self.linear {
            Some(_) if self.kind != RegressionFitKind::StandardizedNnls => {
                is_of_another_kind("linear", "standardized_nnls")
            }
            Some(variant) => variant.check().map_err(|error| error.within("linear")),
            None => Ok(()),
        }
    }

    /// Whether rows are weighed by their errors, or forecasts by theirs.
    fn is_robust(&self) -> bool {
        self.kind == RegressionFitKind::Auto
            || self.weighting == Some(ErrorWeighting::Relative)
            || self.huber.is_some()
            || self.level_tracking == Some(true)
    }

    fn robust(&self, linear: LinearParams) -> Result<AdaptiveParams> {
        let has_no_effect = |path: &str, instead: &str| {
            Err(Error::config(
                "conflict",
                path,
                format!("a robust fit {instead}: leave out {path}, or the options of robustness"),
            ))
        };
        if self.rebuild_interval.is_some() {
            return has_no_effect("rebuild_interval", "keeps no statistics to rebuild");
        }
        let is_auto = self.kind == RegressionFitKind::Auto;
        let knots_per_axis = match (self.kind, &self.spline) {
            (RegressionFitKind::StandardizedNnls, _) => None,
            (RegressionFitKind::Auto, _) => Some(AUTO_KNOTS),
            (RegressionFitKind::Spline, None) => Some(SplineFitConfig::default().knots_per_axis),
            (RegressionFitKind::Spline, Some(spline)) => {
                if spline.search != SplineFitConfig::default().search {
                    return has_no_effect("spline.search", "searches for knots in its own time");
                }
                Some(check_spline(spline)?.knots_per_axis)
            }
        };
        let weighting = self.weighting.unwrap_or(if is_auto {
            ErrorWeighting::Relative
        } else {
            ErrorWeighting::Absolute
        });
        Ok(AdaptiveParams {
            linear: LinearParams { keep_last_usable: true, ..linear },
            line: self.kind != RegressionFitKind::Spline,
            knots_per_axis,
            weighting: Weighting {
                relative: weighting == ErrorWeighting::Relative,
                huber: self.huber.or(is_auto.then_some(AUTO_HUBER)),
            },
            level_tracking: self.level_tracking.unwrap_or(is_auto),
        })
    }

    /// Fills in the options of the kind, and drops what can only be the default.
    pub(super) fn normalize(&mut self) {
        self.linear = None;
        match self.kind {
            RegressionFitKind::StandardizedNnls => {}
            RegressionFitKind::Spline => {
                self.spline.get_or_insert_default();
            }
            RegressionFitKind::Auto => {
                self.weighting.get_or_insert(ErrorWeighting::Relative);
                self.huber.get_or_insert(AUTO_HUBER);
                self.level_tracking.get_or_insert(true);
            }
        }
    }
}

impl RegressionFitKind {
    fn name(self) -> &'static str {
        match self {
            Self::StandardizedNnls => "standardized_nnls",
            Self::Spline => "spline",
            Self::Auto => "auto",
        }
    }
}

fn check_spline(spline: &SplineFitConfig) -> Result<SplineParams> {
    spline.check().map_err(|error| error.within("spline"))
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
