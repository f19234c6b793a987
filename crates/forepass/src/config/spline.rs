//! Options of the spline fit: how many knots, and when to search for better ones.

use serde::{Deserialize, Deserializer, Serialize, de};

use super::checked::SplineParams;

use super::sampling::MAX_OBSERVATIONS;
use super::{range, real};
use crate::error::{Result, present};

/// Fewest observations that a spline store must be able to keep: knots are searched from there on.
pub const SPLINE_MIN_OBSERVATIONS: usize = 32;

/// The spline fit; the defaults give two knots an axis, searched when predictions turn bad.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SplineFitConfig {
    /// Interior knots along each axis, 2 or 3.
    pub knots_per_axis: usize,
    /// When knots are searched anew.
    pub search: SplineSearchConfig,
}

/// When the knots of a spline are searched anew.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SplineSearchConfig {
    /// When, among the latest predictions, enough were bad.
    Adaptive(AdaptiveSearch),
    /// After every so many observations.
    #[non_exhaustive]
    Periodic {
        /// Observations from one search to the next; at least 1.
        step: u64,
    },
}

/// When predictions have turned bad enough for a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AdaptiveSearch {
    /// Predictions looked back upon, 1 to [`MAX_OBSERVATIONS`].
    pub window: usize,
    /// Bad ones among them that start a search, 1 to `window`.
    pub trigger: usize,
    /// Relative error above which a prediction is bad; finite, greater than 0.
    #[serde(with = "real")]
    pub tolerance: f64,
    /// Error in milliseconds up to which a prediction is never bad; finite, at least 0.
    #[serde(with = "real")]
    pub absolute_tolerance_ms: f64,
    /// Observations from one search to the next at the earliest; at least 1.
    pub cooldown: u64,
}

impl Default for SplineFitConfig {
    fn default() -> Self {
        Self { knots_per_axis: 2, search: SplineSearchConfig::default() }
    }
}

impl Default for SplineSearchConfig {
    fn default() -> Self {
        Self::Adaptive(AdaptiveSearch::default())
    }
}

impl Default for AdaptiveSearch {
    fn default() -> Self {
        Self { window: 16, trigger: 8, tolerance: 0.05, absolute_tolerance_ms: 1.0, cooldown: 64 }
    }
}

const DEFAULT_STEP: u64 = 64;

impl SplineSearchConfig {
    /// A search after every `step` observations.
    pub fn periodic(step: u64) -> Self {
        Self::Periodic { step }
    }

    /// A search when `trigger` of the latest `window` predictions were off by more than
    /// `tolerance` of the observation and by more than `absolute_tolerance_ms`, at the earliest
    /// `cooldown` observations after the last search.
    pub fn adaptive(
        window: usize,
        trigger: usize,
        tolerance: f64,
        absolute_tolerance_ms: f64,
        cooldown: u64,
    ) -> Self {
        Self::Adaptive(AdaptiveSearch {
            window,
            trigger,
            tolerance,
            absolute_tolerance_ms,
            cooldown,
        })
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::Periodic { step } => range::positive("step", *step),
            Self::Adaptive(search) => search.check(),
        }
    }
}

impl AdaptiveSearch {
    fn check(&self) -> Result<()> {
        range::within("window", self.window, MAX_OBSERVATIONS)?;
        if !(1..=self.window).contains(&self.trigger) {
            let must_be = format!("1 to the window, which is {}", self.window);
            return Err(range::out_of_range("trigger", self.trigger, &must_be));
        }
        range::finite_positive("tolerance", self.tolerance)?;
        range::finite_nonnegative("absolute_tolerance_ms", self.absolute_tolerance_ms)?;
        range::positive("cooldown", self.cooldown)
    }
}

impl SplineFitConfig {
    /// The same fit with this many interior knots along each axis.
    #[must_use]
    pub fn with_knots_per_axis(mut self, knots_per_axis: usize) -> Self {
        self.knots_per_axis = knots_per_axis;
        self
    }

    /// The same fit with this schedule of searches.
    #[must_use]
    pub fn with_search(mut self, search: SplineSearchConfig) -> Self {
        self.search = search;
        self
    }

    pub(super) fn check(&self) -> Result<SplineParams> {
        if !(2..=3).contains(&self.knots_per_axis) {
            let found = self.knots_per_axis;
            return Err(range::out_of_range("knots_per_axis", found, "2 or 3"));
        }
        self.search.check().map_err(|error| error.within("search"))?;
        Ok(SplineParams { knots_per_axis: self.knots_per_axis, search: self.search.clone() })
    }
}

/// The fields of both schedules; a tagged enum would read them without their paths.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchFields {
    #[serde(default)]
    kind: SearchKind,
    #[serde(default, deserialize_with = "present")]
    window: Option<usize>,
    #[serde(default, deserialize_with = "present")]
    trigger: Option<usize>,
    #[serde(default, deserialize_with = "real::present")]
    tolerance: Option<f64>,
    #[serde(default, deserialize_with = "real::present")]
    absolute_tolerance_ms: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    cooldown: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    step: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SearchKind {
    #[default]
    Adaptive,
    Periodic,
}

const ADAPTIVE_FIELDS: &[&str] =
    &["kind", "window", "trigger", "tolerance", "absolute_tolerance_ms", "cooldown"];
const PERIODIC_FIELDS: &[&str] = &["kind", "step"];

impl<'de> Deserialize<'de> for SplineSearchConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = SearchFields::deserialize(from)?;
        let given = [
            ("window", fields.window.is_some()),
            ("trigger", fields.trigger.is_some()),
            ("tolerance", fields.tolerance.is_some()),
            ("absolute_tolerance_ms", fields.absolute_tolerance_ms.is_some()),
            ("cooldown", fields.cooldown.is_some()),
            ("step", fields.step.is_some()),
        ];
        let default = AdaptiveSearch::default();
        let (allowed, search) = match fields.kind {
            SearchKind::Periodic => {
                (PERIODIC_FIELDS, Self::periodic(fields.step.unwrap_or(DEFAULT_STEP)))
            }
            SearchKind::Adaptive => (
                ADAPTIVE_FIELDS,
                Self::adaptive(
                    fields.window.unwrap_or(default.window),
                    fields.trigger.unwrap_or(default.trigger),
                    fields.tolerance.unwrap_or(default.tolerance),
                    fields.absolute_tolerance_ms.unwrap_or(default.absolute_tolerance_ms),
                    fields.cooldown.unwrap_or(default.cooldown),
                ),
            ),
        };
        let foreign = given.iter().find(|(name, given)| *given && !allowed.contains(name));
        match foreign {
            Some((name, _)) => Err(de::Error::unknown_field(name, allowed)),
            None => Ok(search),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::from_json;
    use super::*;

    fn read(json: &str) -> Result<SplineFitConfig> {
        from_json(json.as_bytes())
    }

    fn refusal(json: &str) -> (&'static str, String) {
        let error = read(json).and_then(|fit| fit.check()).unwrap_err();
        (error.code(), error.path())
    }

    #[test]
    fn every_option_has_a_default() {
        for json in [
            "{}",
            r#"{"search": {}}"#,
            r#"{"knots_per_axis": 2, "search": {"kind": "adaptive", "window": 16, "trigger": 8,
                "tolerance": 0.05, "absolute_tolerance_ms": 1, "cooldown": 64}}"#,
        ] {
            assert_eq!(read(json).unwrap(), SplineFitConfig::default(), "{json}");
        }
        let periodic = read(r#"{"search": {"kind": "periodic"}}"#).unwrap();
        assert_eq!(periodic.search, SplineSearchConfig::periodic(64));
        let adaptive = read(r#"{"search": {"trigger": 4}}"#).unwrap();
        assert_eq!(adaptive.search, SplineSearchConfig::adaptive(16, 4, 0.05, 1.0, 64));
    }

    #[test]
    fn each_schedule_survives_json() {
        for search in [
            SplineSearchConfig::periodic(u64::MAX),
            SplineSearchConfig::adaptive(1, 1, 1e-300, 0.0, 1),
        ] {
            let fit = SplineFitConfig::default().with_knots_per_axis(3).with_search(search);
            let json = serde_json::to_string(&fit).unwrap();
            assert_eq!(read(&json).unwrap(), fit, "{json}");
            assert!(fit.check().is_ok(), "{json}");
        }
    }

    #[test]
    fn knots_are_two_or_three() {
        for knots in ["0", "1", "4"] {
            let json = format!(r#"{{"knots_per_axis": {knots}}}"#);
            assert_eq!(refusal(&json), ("invalid_value", "knots_per_axis".to_owned()));
        }
        for knots in ["true", "2.0", r#""2""#, "null", "[2]"] {
            let json = format!(r#"{{"knots_per_axis": {knots}}}"#);
            assert_eq!(refusal(&json), ("invalid_type", "knots_per_axis".to_owned()));
        }
    }

    #[test]
    fn a_step_is_a_positive_integer() {
        for step in ["0", "-1", "true", "64.0", r#""64""#, "null"] {
            let json = format!(r#"{{"search": {{"kind": "periodic", "step": {step}}}}}"#);
            assert_eq!(refusal(&json).1, "search.step", "{json}");
        }
    }

    #[test]
    fn each_adaptive_option_has_its_range() {
        for (field, values) in [
            ("window", &["0", "1000001", "-1", "16.0", "null"][..]),
            ("trigger", &["0", "17", "true", "8.5"]),
            ("tolerance", &["0", "-0.1", r#""NaN""#, r#""Infinity""#, "true", "null"]),
            ("absolute_tolerance_ms", &["-1", r#""NaN""#, r#""Infinity""#, r#""1""#]),
            ("cooldown", &["0", "-1", "64.0", r#""64""#]),
        ] {
            for value in values {
                let json = format!(r#"{{"search": {{"kind": "adaptive", "{field}": {value}}}}}"#);
                assert_eq!(refusal(&json).1, format!("search.{field}"), "{json}");
            }
        }
        assert!(read(r#"{"search": {"trigger": 16}}"#).unwrap().check().is_ok());
    }

    #[test]
    fn schedules_cannot_be_mixed() {
        for (json, path) in [
            (r#"{"search": {"kind": "periodic", "window": 16}}"#, "search.window"),
            (r#"{"search": {"kind": "adaptive", "step": 64}}"#, "search.step"),
            (r#"{"search": {"step": 64}}"#, "search.step"),
            (r#"{"search": {"kind": "periodic", "stride": 64}}"#, "search.stride"),
        ] {
            assert_eq!(refusal(json), ("unknown_field", path.to_owned()), "{json}");
        }
    }

    #[test]
    fn an_unknown_schedule_is_refused_with_the_known_ones() {
        let error = read(r#"{"search": {"kind": "lazy"}}"#).unwrap_err();
        assert_eq!((error.code(), error.path()), ("invalid_value", "search.kind".to_owned()));
        assert!(error.to_string().contains("`adaptive` or `periodic`"), "{error}");
    }
}
