//! Variants of the linear fit that the schema knows, of which only the default one is implemented.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use super::sampling::check_axes;
use crate::error::{Error, Result};

/// Variant of the linear fit: each option must keep its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LinearFitConfig {
    /// Names of the features to fit; only the default, attention and ffn, is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature_axes: Option<Vec<String>>,
    /// Whether coefficients are kept from being negative; only `true` is supported.
    pub non_negative: bool,
    /// When new coefficients are published; only `always` is supported.
    pub update_policy: RegressionUpdatePolicy,
}

/// When a fit publishes new coefficients.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RegressionUpdatePolicy {
    /// After every observation.
    Always {},
    /// After enough bad predictions, under these options; not supported.
    ErrorThreshold(Map<String, Value>),
}

impl Default for RegressionUpdatePolicy {
    fn default() -> Self {
        Self::Always {}
    }
}

impl<'de> Deserialize<'de> for RegressionUpdatePolicy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(from)?;
        let Some(kind) = fields.remove("kind") else {
            return Err(de::Error::missing_field("kind"));
        };
        match (kind.as_str(), fields.keys().next()) {
            (Some("always"), None) => Ok(Self::Always {}),
            (Some("always"), Some(field)) => Err(de::Error::unknown_field(field, &["kind"])),
            (Some("error_threshold"), _) => Ok(Self::ErrorThreshold(fields)),
            _ => Err(de::Error::unknown_variant(&kind.to_string(), &["always"])),
        }
    }
}

impl Default for LinearFitConfig {
    fn default() -> Self {
        Self {
            feature_axes: None,
            non_negative: true,
            update_policy: RegressionUpdatePolicy::default(),
        }
    }
}

impl LinearFitConfig {
    /// Refuses, by name, whatever is not the default.
    pub(super) fn check(&self) -> Result<()> {
        let unsupported = |path: &str, message: &str| {
            Err(Error::config("unsupported", path, format!("not supported: {message}")))
        };
        check_axes("feature_axes", self.feature_axes.as_deref())?;
        if !self.non_negative {
            return unsupported("non_negative", "false; the fit has no signed coefficients");
        }
        match self.update_policy {
            RegressionUpdatePolicy::Always {} => Ok(()),
            RegressionUpdatePolicy::ErrorThreshold(_) => {
                unsupported("update_policy", "error_threshold; the kind must be always")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::from_json;
    use super::*;

    fn refusal(json: &str) -> (&'static str, String, String) {
        let read: Result<LinearFitConfig> = from_json(json.as_bytes());
        let error = read.and_then(|linear| linear.check()).unwrap_err();
        (error.code(), error.path(), error.to_string())
    }

    #[test]
    fn defaults_are_accepted_absent_or_spelt_out() {
        for json in [
            "{}",
            r#"{"feature_axes": ["attention", "moe"], "non_negative": true, "update_policy": {"kind": "always"}}"#,
        ] {
            let linear: LinearFitConfig = from_json(json.as_bytes()).unwrap();
            assert!(linear.check().is_ok(), "{json}");
        }
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        let (code, path, message) = refusal(r#"{"feature_axes": ["logN", "moe"]}"#);
        assert_eq!((code, path.as_str()), ("unsupported", "feature_axes"));
        assert!(message.contains("logN"), "{message}");
        let (code, path, message) = refusal(r#"{"non_negative": false}"#);
        assert_eq!((code, path.as_str()), ("unsupported", "non_negative"));
        assert!(message.contains("not supported: false"), "{message}");
        let (code, path, message) =
            refusal(r#"{"update_policy": {"kind": "error_threshold", "window": 16}}"#);
        assert_eq!((code, path.as_str()), ("unsupported", "update_policy"));
        assert!(message.contains("error_threshold"), "{message}");
    }

    #[test]
    fn a_malformed_update_policy_is_refused_with_its_path() {
        for (json, code, path) in [
            (
                r#"{"update_policy": {"kind": "always", "window": 1}}"#,
                "unknown_field",
                "update_policy.window",
            ),
            (r#"{"update_policy": {"kind": "never"}}"#, "invalid_value", "update_policy"),
            (r#"{"update_policy": {}}"#, "missing_field", "update_policy.kind"),
            (r#"{"update_policy": "always"}"#, "invalid_type", "update_policy"),
            (r#"{"non_negative": 1}"#, "invalid_type", "non_negative"),
            (r#"{"signed": true}"#, "unknown_field", "signed"),
        ] {
            let (found_code, found_path, message) = refusal(json);
            assert_eq!((found_code, found_path.as_str()), (code, path), "{message}");
        }
    }
}
