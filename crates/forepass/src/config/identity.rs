//! Contradictions in what a configuration says about the deployment.

use super::model::{EstimationMode, ForwardPassPerfModelConfig};
use super::range;
use crate::error::{Error, Result};

const MAX_NEXTN: u32 = 5;

impl ForwardPassPerfModelConfig {
    /// Checks what holds for a deployment whichever estimator serves it.
    pub(super) fn check_identity(&self) -> Result<()> {
        self.check_deployment()?;
        self.check_drafting(self.drafting())?;
        match &self.speculation {
            Some(speculation) => {
                speculation.check(&self.backend).map_err(|error| error.within("speculation"))
            }
            None => Ok(()),
        }
    }

    /// Checks what holds for a launch, which may have an estimator that this crate does not build,
    /// but for what only its speculation scheme knows. A speculation block excludes what drafting
    /// excludes even where it drafts nothing.
    pub(crate) fn check_launch(&self) -> Result<()> {
        self.check_deployment()?;
        self.check_drafting(self.speculation.as_ref().map(|_| "speculation").or(self.drafting()))?;
        let checked = self.estimator_config.check();
        checked.map(|_| ()).map_err(|error| error.within("estimator_config"))
    }

    fn check_deployment(&self) -> Result<()> {
        range::not_blank("model", &self.model)?;
        range::not_blank("system", &self.system)?;
        range::not_blank("backend", &self.backend)?;
        if let Some(version) = &self.backend_version {
            range::not_blank("backend_version", version)?;
        }
        self.check_topology()?;
        self.check_speculation()
    }

    fn check_topology(&self) -> Result<()> {
        for (path, count) in [
            ("tp", Some(self.tp)),
            ("pp", Some(self.pp)),
            ("attention_dp", Some(self.attention_dp)),
            ("cp_size", self.cp_size),
            ("dcp_size", self.dcp_size),
            ("moe_tp_size", self.moe_tp_size),
            ("moe_ep_size", self.moe_ep_size),
            ("kv_block_size", self.kv_block_size),
            ("wideep_num_slots", self.wideep_num_slots),
        ] {
            range::positive(path, count.unwrap_or(1))?;
        }
        if let Some(dcp) = self.dcp_size.filter(|dcp| self.tp % dcp != 0) {
            let must_be = format!("a divisor of tp, which is {}", self.tp);
            return Err(range::out_of_range("dcp_size", dcp, &must_be));
        }
        let (moe_tp, moe_ep) = match (self.moe_tp_size, self.moe_ep_size) {
            (None, None) => return Ok(()),
            (Some(moe_tp), Some(moe_ep)) => (moe_tp, moe_ep),
            (Some(_), None) => return Err(missing_half("moe_ep_size", "moe_tp_size")),
            (None, Some(_)) => return Err(missing_half("moe_tp_size", "moe_ep_size")),
        };
        let product = |counts: &[u32]| counts.iter().copied().map(u128::from).product::<u128>();
        let attention = [self.tp, self.attention_dp, self.cp_size.unwrap_or(1)];
        if product(&attention) != product(&[moe_tp, moe_ep]) {
            let [tp, dp, cp] = attention;
            return Err(Error::config(
                "conflict",
                "moe_tp_size",
                format!(
                    "moe_tp_size {moe_tp} x moe_ep_size {moe_ep} must equal \
                     tp {tp} x attention_dp {dp} x cp_size {cp}"
                ),
            ));
        }
        Ok(())
    }

    fn check_speculation(&self) -> Result<()> {
        if self.nextn > MAX_NEXTN {
            let must_be = format!("0 to {MAX_NEXTN}");
            return Err(range::out_of_range("nextn", self.nextn, &must_be));
        }
        let conflict = |path: &str, message: String| Err(Error::config("conflict", path, message));
        if let Some(speculation) = &self.speculation {
            if self.nextn != 0 {
                return conflict(
                    "speculation",
                    format!("excludes nextn, which is {}: give one of them", self.nextn),
                );
            }
            speculation.check_alone().map_err(|error| error.within("speculation"))?;
        }
        Ok(())
    }

    /// Checks what excludes drafting, which this field says.
    fn check_drafting(&self, drafting: Option<&'static str>) -> Result<()> {
        let conflict = |path: &str, message: String| Err(Error::config("conflict", path, message));
        let Some(drafting) = drafting else {
            return Ok(());
        };
        if self.fpm_profile.is_some() {
            return conflict("fpm_profile", format!("excludes {drafting}: give one of them"));
        }
        match self.estimation_mode {
            EstimationMode::Auto | EstimationMode::OpLevel => Ok(()),
            EstimationMode::FpmRegression if self.nextn != 0 => Ok(()),
            EstimationMode::FpmInterpolation | EstimationMode::FpmRegression => conflict(
                "estimation_mode",
                format!("excludes {drafting}: remove it, or use auto or op_level"),
            ),
        }
    }

    /// The field that says that the engine drafts tokens, if any does.
    pub(super) fn drafting(&self) -> Option<&'static str> {
        match &self.speculation {
            Some(speculation) if speculation.drafts() => Some("speculation"),
            _ => (self.nextn != 0).then_some("nextn"),
        }
    }
}

fn missing_half(absent: &str, given: &str) -> Error {
    Error::config(
        "missing_field",
        absent,
        format!("absent although {given} is given: give both or neither"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A decode configuration with these fields on top.
    fn with(fields: Value) -> ForwardPassPerfModelConfig {
        let mut config = json!({
            "model": "m", "system": "s", "backend": "vllm", "worker_type": "decode"
        });
        let (Value::Object(config), Value::Object(fields)) = (&mut config, fields) else {
            panic!("fields are an object");
        };
        config.extend(fields);
        ForwardPassPerfModelConfig::from_value(config.clone().into()).unwrap()
    }

    fn refusal(fields: Value) -> (&'static str, String) {
        let error = with(fields).check_identity().unwrap_err();
        (error.code(), error.path())
    }

    #[test]
    fn names_are_not_blank() {
        for field in ["model", "system", "backend", "backend_version"] {
            for blank in ["", " \t\n"] {
                let found = refusal(json!({field: blank}));
                assert_eq!(found, ("invalid_value", field.to_owned()));
            }
        }
    }

    #[test]
    fn sizes_are_positive() {
        for field in [
            "tp",
            "pp",
            "attention_dp",
            "cp_size",
            "dcp_size",
            "moe_tp_size",
            "moe_ep_size",
            "kv_block_size",
            "wideep_num_slots",
        ] {
            let found = refusal(json!({field: 0}));
            assert_eq!(found, ("invalid_value", field.to_owned()));
        }
    }

    #[test]
    fn decode_context_parallelism_divides_tensor_parallelism() {
        assert_eq!(refusal(json!({"dcp": 3, "tp": 4})).1, "dcp_size");
        assert_eq!(refusal(json!({"dcp": 8, "tp": 4})).1, "dcp_size");
        assert!(with(json!({"dcp": 2, "tp": 4})).check_identity().is_ok());
    }

    #[test]
    fn experts_take_as_many_ranks_as_attention() {
        let moe_tp = json!({"moe_tp_size": 2});
        assert_eq!(refusal(moe_tp), ("missing_field", "moe_ep_size".to_owned()));
        let moe_ep = json!({"moe_ep_size": 2});
        assert_eq!(refusal(moe_ep), ("missing_field", "moe_tp_size".to_owned()));
        let topology = |moe_tp: u32, moe_ep: u32| {
            json!({
                "tp": 2, "attention_dp": 3, "cp": 2,
                "moe_tp_size": moe_tp, "moe_ep_size": moe_ep
            })
        };
        assert!(with(topology(4, 3)).check_identity().is_ok());
        assert_eq!(refusal(topology(4, 4)), ("conflict", "moe_tp_size".to_owned()));
        assert_eq!(refusal(topology(u32::MAX, u32::MAX)).1, "moe_tp_size");
    }

    #[test]
    fn drafting_is_said_once_and_only_where_it_is_known() {
        let ngram = json!({"kind": "ngram", "params": {"num_speculative_tokens": 3}});
        for (fields, code, path) in [
            (json!({"nextn": 6}), "invalid_value", "nextn"),
            (json!({"nextn": 1, "speculation": ngram}), "conflict", "speculation"),
            (json!({"nextn": 1, "fpm_profile": "p"}), "conflict", "fpm_profile"),
            (json!({"speculation": ngram, "fpm_profile": {}}), "conflict", "fpm_profile"),
            (json!({"nextn": 1, "estimation_mode": "fpm"}), "conflict", "estimation_mode"),
            (
                json!({"speculation": ngram, "estimation_mode": "fpm_regression"}),
                "conflict",
                "estimation_mode",
            ),
            (json!({"speculation": ngram, "backend": "sglang"}), "conflict", "speculation.kind"),
            (json!({"speculation": {"kind": ""}}), "invalid_value", "speculation.kind"),
        ] {
            assert_eq!(refusal(fields.clone()), (code, path.to_owned()), "{fields}");
        }
        for fields in [
            json!({"nextn": 5}),
            json!({"speculation": ngram}),
            json!({"speculation": ngram, "estimation_mode": "op_level"}),
            json!({"speculation": {"kind": "none"}, "estimation_mode": "fpm"}),
            json!({"fpm_profile": "p"}),
        ] {
            assert!(with(fields.clone()).check_identity().is_ok(), "{fields}");
        }
    }
}
