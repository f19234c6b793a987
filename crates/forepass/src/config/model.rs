//! The configuration of a model as authored: the identity of a deployment and its estimator.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document;
use super::estimator::EstimatorConfig;
use super::speculation::SpeculationConfig;
use crate::error::Result;
use crate::workload::WorkerType;

/// Name of the model, the system and the backend of a model that serves no deployment in
/// particular; see [`ForwardPassPerfModelConfig::for_worker`].
pub const UNSPECIFIED: &str = "unspecified";

/// The whole configuration of a model.
///
/// Regression learns from what the engine reports, so most of the deployment's identity is kept
/// for other readers of the same file, checked for contradictions and written back as it came.
/// An absent optional field is not written; `null` counts as absent. Read with
/// [`from_json`](Self::from_json), which knows the other spellings (`tp_size` for `tp`, ...).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ForwardPassPerfModelConfig {
    /// Name of the model; not blank.
    pub model: String,
    /// Name of the system it runs on; not blank.
    pub system: String,
    /// Name of the engine, such as `vllm`; not blank.
    pub backend: String,
    /// What the worker serves.
    pub worker_type: WorkerType,
    /// Version of the engine; not blank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_version: Option<String>,
    /// Profile of recorded passes, for an interpolating estimator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fpm_profile: Option<Value>,
    /// Tensor-parallel ranks; at least 1.
    #[serde(default = "one", alias = "tp_size")]
    pub tp: u32,
    /// Pipeline stages; at least 1.
    #[serde(default = "one", alias = "pp_size")]
    pub pp: u32,
    /// Attention data-parallel ranks; at least 1.
    #[serde(default = "one", alias = "attention_dp_size")]
    pub attention_dp: u32,
    /// Context-parallel ranks of prefill; at least 1.
    #[serde(skip_serializing_if = "Option::is_none", alias = "cp")]
    pub cp_size: Option<u32>,
    /// Context-parallel ranks of decode; divides `tp`, and regression supports only 1.
    #[serde(skip_serializing_if = "Option::is_none", alias = "dcp")]
    pub dcp_size: Option<u32>,
    /// Tensor-parallel ranks of the experts; given together with `moe_ep_size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_tp_size: Option<u32>,
    /// Expert-parallel ranks; given together with `moe_tp_size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_ep_size: Option<u32>,
    /// Number format of the matrix products.
    #[serde(skip_serializing_if = "Option::is_none", alias = "gemm_dtype")]
    pub gemm_quant_mode: Option<String>,
    /// Number format of the experts.
    #[serde(skip_serializing_if = "Option::is_none", alias = "moe_dtype")]
    pub moe_quant_mode: Option<String>,
    /// Number format of attention.
    #[serde(skip_serializing_if = "Option::is_none", alias = "fmha_dtype")]
    pub fmha_quant_mode: Option<String>,
    /// Number format of the KV cache.
    #[serde(skip_serializing_if = "Option::is_none", alias = "kv_cache_dtype")]
    pub kvcache_quant_mode: Option<String>,
    /// Number format of communication.
    #[serde(skip_serializing_if = "Option::is_none", alias = "comm_dtype")]
    pub comm_quant_mode: Option<String>,
    /// Draft depth in the older spelling, 0 to 5; regression supports only 0.
    #[serde(default)]
    pub nextn: u32,
    /// Speculative decoding; excludes `nextn`, and regression supports only the kind `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculation: Option<SpeculationConfig>,
    /// Tokens in a block of the KV cache; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_block_size: Option<u32>,
    /// Options of decoder replay, kept as authored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder_replay: Option<Value>,
    /// Estimator to build; only regression is implemented.
    #[serde(default, alias = "forward_model")]
    pub estimation_mode: EstimationMode,
    /// Kind of performance data, for an operator-level estimator.
    #[serde(default = "silicon")]
    pub database_mode: String,
    /// How performance data is transferred between systems, kept as authored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_policy: Option<Value>,
    /// Where performance data is found, kept as authored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub systems_paths: Option<Value>,
    /// What to do where the estimator asked for cannot be built.
    #[serde(default)]
    pub fallback_policy: FallbackPolicy,
    /// Options of the estimator.
    #[serde(default)]
    pub estimator_config: EstimatorConfig,
    /// Attention kernels of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention_backend: Option<String>,
    /// Origin of the expert kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_kernel_source: Option<String>,
    /// Expert kernels of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_backend: Option<String>,
    /// Whether experts are balanced over ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_eplb: Option<bool>,
    /// Expert slots of wide expert parallelism; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wideep_num_slots: Option<u32>,
    /// Whether shared layers are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_shared_layer: Option<bool>,
    /// Whether the origin of each number must be known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_provenance: Option<bool>,
}

/// The estimator to build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EstimationMode {
    /// The best that is implemented: regression.
    #[default]
    Auto,
    /// From operator times; not implemented.
    OpLevel,
    /// Between recorded passes (`fpm` is another name of it); not implemented.
    #[serde(alias = "fpm")]
    FpmInterpolation,
    /// Regression, learning online.
    FpmRegression,
}

/// What to do where the estimator asked for cannot be built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FallbackPolicy {
    /// Refuse the configuration; `error` is another name of it.
    #[default]
    #[serde(alias = "error")]
    Deny,
    /// Build regression instead; `regression` is another name of it.
    #[serde(alias = "regression")]
    Allow,
}

fn one() -> u32 {
    1
}

fn silicon() -> String {
    "SILICON".to_owned()
}

impl ForwardPassPerfModelConfig {
    /// The defaults for one worker of a deployment.
    pub fn new(
        model: impl Into<String>,
        system: impl Into<String>,
        backend: impl Into<String>,
        worker_type: WorkerType,
    ) -> Self {
        Self {
            model: model.into(),
            system: system.into(),
            backend: backend.into(),
            worker_type,
            backend_version: None,
            fpm_profile: None,
            tp: one(),
            pp: one(),
            attention_dp: one(),
            cp_size: None,
            dcp_size: None,
            moe_tp_size: None,
            moe_ep_size: None,
            gemm_quant_mode: None,
            moe_quant_mode: None,
            fmha_quant_mode: None,
            kvcache_quant_mode: None,
            comm_quant_mode: None,
            nextn: 0,
            speculation: None,
            kv_block_size: None,
            decoder_replay: None,
            estimation_mode: EstimationMode::default(),
            database_mode: silicon(),
            transfer_policy: None,
            systems_paths: None,
            fallback_policy: FallbackPolicy::default(),
            estimator_config: EstimatorConfig::default(),
            attention_backend: None,
            moe_kernel_source: None,
            moe_backend: None,
            enable_eplb: None,
            wideep_num_slots: None,
            enable_shared_layer: None,
            strict_provenance: None,
        }
    }

    /// A configuration without a deployment, which regression does not need: model, system and
    /// backend are [`UNSPECIFIED`].
    pub fn for_worker(worker_type: WorkerType, estimator: EstimatorConfig) -> Self {
        Self::new(UNSPECIFIED, UNSPECIFIED, UNSPECIFIED, worker_type)
            .with_estimator_config(estimator)
    }

    /// The same configuration with these options of the estimator.
    #[must_use]
    pub fn with_estimator_config(mut self, estimator: EstimatorConfig) -> Self {
        self.estimator_config = estimator;
        self
    }

    /// Reads a configuration from JSON text; ranges are left to [`check`](Self::check).
    pub fn from_json(text: &[u8]) -> Result<Self> {
        document::from_json(text)
    }

    /// Reads a configuration from a JSON value; ranges are left to [`check`](Self::check).
    pub fn from_value(value: Value) -> Result<Self> {
        document::from_value(value)
    }

    /// The configuration as compact JSON in the canonical spelling and order.
    pub fn to_json(&self) -> String {
        document::to_json(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::SPELLINGS;
    use super::*;

    fn required() -> Value {
        json!({"model": "m", "system": "s", "backend": "vllm", "worker_type": "decode"})
    }

    fn with(field: &str, value: Value) -> Result<ForwardPassPerfModelConfig> {
        let mut json = required();
        json[field] = value;
        ForwardPassPerfModelConfig::from_value(json)
    }

    #[test]
    fn four_fields_are_required() {
        let config = ForwardPassPerfModelConfig::from_value(required()).unwrap();
        let new = ForwardPassPerfModelConfig::new("m", "s", "vllm", WorkerType::Decode);
        assert_eq!(config, new);
        for field in ["model", "system", "backend", "worker_type"] {
            let mut json = required();
            json.as_object_mut().unwrap().remove(field);
            let error = ForwardPassPerfModelConfig::from_value(json).unwrap_err();
            assert_eq!((error.code(), error.path().as_str()), ("missing_field", field));
            assert_eq!(with(field, Value::Null).unwrap_err().path(), field);
        }
    }

    #[test]
    fn absent_options_are_not_written() {
        let json =
            ForwardPassPerfModelConfig::for_worker(WorkerType::Prefill, EstimatorConfig::default())
                .to_json();
        let identity = json.split(r#""estimator_config""#).next().unwrap();
        assert_eq!(
            identity,
            concat!(
                r#"{"model":"unspecified","system":"unspecified","backend":"unspecified","#,
                r#""worker_type":"prefill","tp":1,"pp":1,"attention_dp":1,"nextn":0,"#,
                r#""estimation_mode":"auto","database_mode":"SILICON","fallback_policy":"deny","#
            )
        );
    }

    #[test]
    fn every_field_survives_json() {
        let json = json!({
            "model": "m", "system": "s", "backend": "b", "worker_type": "aggregated",
            "backend_version": "1", "fpm_profile": {"a": [1]}, "tp": 2, "pp": 3, "attention_dp": 4,
            "cp_size": 5, "dcp_size": 6, "moe_tp_size": 7, "moe_ep_size": 8,
            "gemm_quant_mode": "fp8", "moe_quant_mode": "fp4", "fmha_quant_mode": "bf16",
            "kvcache_quant_mode": "fp8", "comm_quant_mode": "half", "nextn": 1,
            "speculation": {"kind": "mtp", "params": {"depth": 1}}, "kv_block_size": 16,
            "decoder_replay": true, "estimation_mode": "fpm_regression", "database_mode": "HYBRID",
            "transfer_policy": "x", "systems_paths": ["p"], "fallback_policy": "allow",
            "estimator_config": serde_json::to_value(EstimatorConfig::default()).unwrap(),
            "attention_backend": "a", "moe_kernel_source": "k", "moe_backend": "b",
            "enable_eplb": true, "wideep_num_slots": 9, "enable_shared_layer": false,
            "strict_provenance": true
        });
        let config = ForwardPassPerfModelConfig::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&config.to_json()).unwrap(), json);
        let again = ForwardPassPerfModelConfig::from_json(config.to_json().as_bytes()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn both_spellings_of_a_field_are_read_and_not_both_at_once() {
        let spellings = SPELLINGS.iter();
        for (canonical, other) in spellings.filter(|(name, _)| !name.starts_with("regression")) {
            let value = match *canonical {
                "estimation_mode" => json!("fpm"),
                text if text.ends_with("quant_mode") => json!("fp8"),
                _ => json!(2),
            };
            let config = with(other, value.clone()).unwrap();
            assert_eq!(config, with(canonical, value.clone()).unwrap(), "{other}");
            let mut both = required();
            both[canonical] = value.clone();
            both[other] = value;
            let error = ForwardPassPerfModelConfig::from_value(both).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{canonical}: given both as `{canonical}` and as `{other}`: give one")
            );
            assert_eq!(error.code(), "duplicate_field");
        }
    }

    #[test]
    fn names_of_modes_and_policies_have_aliases() {
        let mode = |name| with("estimation_mode", json!(name)).unwrap().estimation_mode;
        assert_eq!(mode("fpm"), EstimationMode::FpmInterpolation);
        assert_eq!(mode("fpm_interpolation"), EstimationMode::FpmInterpolation);
        assert_eq!(mode("fpm_regression"), EstimationMode::FpmRegression);
        let policy = |name| with("fallback_policy", json!(name)).unwrap().fallback_policy;
        assert_eq!(policy("error"), FallbackPolicy::Deny);
        assert_eq!(policy("regression"), FallbackPolicy::Allow);
        assert_eq!(policy("allow"), FallbackPolicy::Allow);
    }

    #[test]
    fn integers_are_strict() {
        for field in ["tp", "pp", "attention_dp", "cp_size", "nextn", "kv_block_size"] {
            for value in [json!(3.0), json!(true), json!("3"), json!(-1), json!([3])] {
                let error = with(field, value).unwrap_err();
                assert_eq!(error.path(), field);
                assert!(error.to_string().contains("a nonnegative integer"), "{error}");
            }
        }
        let error = with("tp", json!(4_294_967_296_u64)).unwrap_err();
        assert_eq!((error.code(), error.path().as_str()), ("invalid_value", "tp"));
    }

    #[test]
    fn malformed_fields_are_refused_with_their_path() {
        for (field, value, code) in [
            ("modle", json!("m"), "unknown_field"),
            ("worker_type", json!("both"), "invalid_value"),
            ("worker_type", json!(3), "invalid_type"),
            ("estimation_mode", json!("magic"), "invalid_value"),
            ("fallback_policy", json!("maybe"), "invalid_value"),
            ("enable_eplb", json!(1), "invalid_type"),
            ("backend_version", json!(1.2), "invalid_type"),
            ("estimator_config", json!([]), "invalid_type"),
        ] {
            let error = with(field, value).unwrap_err();
            assert_eq!((error.code(), error.path().as_str()), (code, field), "{error}");
        }
        for text in ["[]", "3", "null", r#""x""#] {
            let error = ForwardPassPerfModelConfig::from_json(text.as_bytes()).unwrap_err();
            assert_eq!((error.code(), error.path().as_str()), ("invalid_type", ""));
            assert!(error.to_string().ends_with("expected an object"), "{error}");
        }
    }

    #[test]
    fn a_repeated_key_is_refused_in_text() {
        let text = br#"{"model": "a", "model": "b"}"#;
        let error = ForwardPassPerfModelConfig::from_json(text).unwrap_err();
        assert_eq!((error.code(), error.path().as_str()), ("duplicate_field", "model"));
    }
}
