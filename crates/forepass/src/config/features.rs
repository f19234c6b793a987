//! The weights of the terms of the two features.

use serde::{Deserialize, Serialize};

use super::{range, real};
use crate::error::Result;
use crate::workload::FeatureWeights;

/// How [`FeatureWeights`] stand in JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FeatureWeights", default = "FeatureWeights::default", deny_unknown_fields)]
pub(super) struct Features {
    #[serde(rename = "attention_kv_weight", with = "real")]
    attention_kv: f64,
    #[serde(rename = "prefill_attention_pair_weight", with = "real")]
    prefill_attention_pair: f64,
    #[serde(rename = "ffn_token_weight", with = "real")]
    ffn_token: f64,
}

pub(super) fn check(weights: &FeatureWeights) -> Result<()> {
    range::finite_positive("attention_kv_weight", weights.attention_kv)?;
    range::finite_positive("prefill_attention_pair_weight", weights.prefill_attention_pair)?;
    range::finite_positive("ffn_token_weight", weights.ffn_token)
}
