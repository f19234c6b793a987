//! The wire form of what an engine drafts; what it means is the scheme's to say.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{document, range};
use crate::codes::E_PARAM;
use crate::error::{Error, Result};
use crate::speculation::NONE;

/// Speculative decoding of the deployment: what is drafted, not how well it is accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SpeculationConfig {
    /// Name of the scheme, such as `ngram`, `mtp` or `eagle3`; not blank.
    pub kind: String,
    /// Parameters of the scheme, kept as authored; each scheme knows its own.
    #[serde(default)]
    pub params: Map<String, Value>,
    /// Checkpoint of the draft model, for the schemes that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_model_path: Option<String>,
    /// Configuration of the draft model, where it does not come from the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_config: Option<Map<String, Value>>,
}

impl SpeculationConfig {
    /// The scheme of this name, with these parameters.
    pub fn new(kind: impl Into<String>, params: Map<String, Value>) -> Self {
        Self { kind: kind.into(), params, draft_model_path: None, draft_config: None }
    }

    /// Reads a speculation block from JSON text; what it says is left to its scheme.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        document::from_json(text)
    }

    /// Reads a speculation block from a JSON value; what it says is left to its scheme.
    pub fn from_value(value: Value) -> Result<Self> {
        document::from_value(value)
    }

    /// The block as compact JSON, with its parameters as authored.
    pub fn to_json(&self) -> String {
        document::to_json(self)
    }

    /// Whether anything is drafted at all.
    pub(crate) fn drafts(&self) -> bool {
        self.kind != NONE
    }

    /// Checks what holds whatever the scheme.
    pub(super) fn check_alone(&self) -> Result<()> {
        range::not_blank("kind", &self.kind)
    }

    /// Checks what regression can tell of the scheme.
    pub(super) fn check(&self, backend: &str) -> Result<()> {
        match self.kind.as_str() {
            "ngram" if backend != "vllm" => Err(Error::config(
                "conflict",
                "kind",
                format!("ngram requires backend \"vllm\", and it is {backend:?}"),
            )),
            "ngram" | "mtp" => self.replay_depth().map(|_| ()).map_err(|error| {
                let path = error.path();
                let absent = path
                    .strip_prefix("params.")
                    .is_some_and(|name| !self.params.contains_key(name));
                let code = match error.code() {
                    E_PARAM if absent => "missing_field",
                    _ => "invalid_value",
                };
                Error::config(code, "", error.message()).within(&path)
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<SpeculationConfig> {
        SpeculationConfig::from_json(json.as_bytes())
    }

    fn refusal(json: &str) -> (&'static str, String) {
        let error = read(json)
            .and_then(|speculation| {
                speculation.check_alone()?;
                speculation.check("vllm")
            })
            .unwrap_err();
        (error.code(), error.path())
    }

    #[test]
    fn parameters_survive_as_authored() {
        for json in [
            r#"{"kind":"mtp","params":{"depth":3,"num_speculative_tokens":3}}"#,
            r#"{"kind":"eagle3","params":{"tree_shape":[1,4]},"draft_config":{"layers":1}}"#,
            r#"{"kind":"draft_model","params":{},"draft_model_path":"a/b"}"#,
        ] {
            let speculation = read(json).unwrap();
            assert!(speculation.check("vllm").is_ok(), "{json}");
            assert_eq!(serde_json::to_string(&speculation).unwrap(), json);
        }
        let bare = read(r#"{"kind": "dflash", "draft_model_path": null}"#).unwrap();
        assert_eq!(bare, SpeculationConfig::new("dflash", Map::new()));
    }

    #[test]
    fn ngram_needs_its_depth_and_vllm() {
        assert_eq!(
            refusal(r#"{"kind": "ngram"}"#),
            ("missing_field", "params.num_speculative_tokens".to_owned())
        );
        for depth in ["0", "6", "-1", "3.0", "true", r#""3""#, "null"] {
            let json =
                format!(r#"{{"kind": "ngram", "params": {{"num_speculative_tokens": {depth}}}}}"#);
            assert_eq!(
                refusal(&json),
                ("invalid_value", "params.num_speculative_tokens".to_owned())
            );
        }
        let ngram = read(r#"{"kind": "ngram", "params": {"num_speculative_tokens": 5}}"#).unwrap();
        assert!(ngram.check("vllm").is_ok());
        let error = ngram.check("trtllm").unwrap_err();
        assert_eq!((error.code(), error.path()), ("conflict", "kind".to_owned()));
    }

    #[test]
    fn mtp_has_one_depth_under_two_spellings() {
        assert_eq!(
            refusal(r#"{"kind": "mtp", "params": {"depth": 2, "num_speculative_tokens": 3}}"#),
            ("invalid_value", "params.num_speculative_tokens".to_owned())
        );
        assert_eq!(
            refusal(r#"{"kind": "mtp", "params": {"depth": 6}}"#),
            ("invalid_value", "params.depth".to_owned())
        );
    }

    #[test]
    fn malformed_speculation_is_refused_with_its_path() {
        for (json, code, path) in [
            ("{}", "missing_field", "kind"),
            (r#"{"kind": " "}"#, "invalid_value", "kind"),
            (r#"{"kind": 3}"#, "invalid_type", "kind"),
            (r#"{"kind": "mtp", "params": []}"#, "invalid_type", "params"),
            (
                r#"{"kind": "mtp", "num_speculative_tokens": 3}"#,
                "unknown_field",
                "num_speculative_tokens",
            ),
            (
                r#"{"kind": "mtp", "params": {"depth": 1, "depth": 2}}"#,
                "duplicate_field",
                "params.depth",
            ),
            (r#"{"kind": "mtp", "draft_config": "x"}"#, "invalid_type", "draft_config"),
        ] {
            assert_eq!(refusal(json), (code, path.to_owned()), "{json}");
        }
    }
}
