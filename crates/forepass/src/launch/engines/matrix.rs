//! What of each engine's methods can be resolved and replayed, found by resolving an example of each.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{EngineOptions, resolve_engine_options};
use crate::error::Error;
use crate::launch::LaunchReport;
use crate::speculation::Backend;

/// One method of an engine, and what comes of it here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EngineMethod {
    /// The engine.
    pub engine: Backend,
    /// The engine's name of its method, algorithm or decoding type.
    pub method: &'static str,
    /// The case of the method, where what comes of it depends on more than its name.
    pub case: &'static str,
    /// Our kind of scheme, where there is one.
    pub kind: Option<String>,
    /// Where the depth comes from.
    pub depth_from: &'static str,
    /// `ok`, or the code with which a depth of 3 is refused.
    pub verdict: &'static str,
}

const TOKENS: &str = "num_speculative_tokens";
const STEPS: &str = "speculative-num-steps";
const LENGTH: &str = "max_draft_len";
const OPEN: &str = "not known before it runs";

const CHAIN: &str = "a chain";
const TREE: &str = "a tree";
const OWN_DRAFT: &str = "a draft of its own";

/// The engine, its method, the case and where the depth comes from.
#[rustfmt::skip]
const METHODS: [(Backend, &str, &str, &str); 44] = [
    (Backend::Vllm, "mtp", "", TOKENS),
    (Backend::Vllm, "deepseek_mtp", "as every *_mtp", TOKENS),
    (Backend::Vllm, "ngram", "", TOKENS),
    (Backend::Vllm, "ngram_gpu", "", TOKENS),
    (Backend::Vllm, "eagle", "", TOKENS),
    (Backend::Vllm, "eagle3", CHAIN, TOKENS),
    (Backend::Vllm, "eagle3", TREE, "levels of speculative_token_tree"),
    (Backend::Vllm, "draft_model", "", TOKENS),
    (Backend::Vllm, "dflash", "", TOKENS),
    (Backend::Vllm, "dspark", "", TOKENS),
    (Backend::Vllm, "medusa", "", TOKENS),
    (Backend::Vllm, "mlp_speculator", "", TOKENS),
    (Backend::Vllm, "suffix", "", OPEN),
    (Backend::Vllm, "custom_class", "", TOKENS),
    (Backend::Vllm, "extract_hidden_states", "", "nothing is drafted"),
    (Backend::Sglang, "NEXTN", CHAIN, STEPS),
    (Backend::Sglang, "NEXTN", TREE, STEPS),
    (Backend::Sglang, "EAGLE", "layers of the model", STEPS),
    (Backend::Sglang, "EAGLE", OWN_DRAFT, STEPS),
    (Backend::Sglang, "EAGLE3", CHAIN, STEPS),
    (Backend::Sglang, "EAGLE3", TREE, STEPS),
    (Backend::Sglang, "STANDALONE", "", STEPS),
    (Backend::Sglang, "NGRAM", CHAIN, "speculative-num-draft-tokens - 1"),
    (Backend::Sglang, "NGRAM", TREE, "speculative-num-draft-tokens / breadth"),
    (Backend::Sglang, "DFLASH", "", "speculative-dflash-block-size - 1"),
    (Backend::Sglang, "DSPARK", "", "speculative-dspark-block-size"),
    (Backend::Sglang, "UNO", "", OPEN),
    (Backend::Trtllm, "MTP", CHAIN, LENGTH),
    (Backend::Trtllm, "MTP", TREE, LENGTH),
    (Backend::Trtllm, "Eagle3", CHAIN, LENGTH),
    (Backend::Trtllm, "Eagle3", TREE, LENGTH),
    (Backend::Trtllm, "Eagle", "", LENGTH),
    (Backend::Trtllm, "NGram", "", LENGTH),
    (Backend::Trtllm, "Draft_Target", "", LENGTH),
    (Backend::Trtllm, "DraftTarget", "", LENGTH),
    (Backend::Trtllm, "DFlash", "", LENGTH),
    (Backend::Trtllm, "DSpark", "", LENGTH),
    (Backend::Trtllm, "PARD", "", LENGTH),
    (Backend::Trtllm, "SA", "", LENGTH),
    (Backend::Trtllm, "Medusa", "", LENGTH),
    (Backend::Trtllm, "Lookahead", "", LENGTH),
    (Backend::Trtllm, "AUTO", "", OPEN),
    (Backend::Trtllm, "User_Provided", "", OPEN),
    (Backend::Trtllm, "SaveState", "", "nothing is drafted"),
];

/// All methods of the engines that are known here, and what comes of each.
pub fn engine_methods() -> Vec<EngineMethod> {
    let judge = |&(engine, method, case, depth_from)| {
        let example = EngineOptions::Mapping(example(engine, method, case));
        let LaunchReport { kind, error, .. } = resolve_engine_options(engine, &example, true);
        let verdict = error.as_ref().map_or("ok", Error::code);
        EngineMethod { engine, method, case, kind, depth_from, verdict }
    };
    METHODS.iter().map(judge).collect()
}

/// Options for a draft of depth 3.
fn example(engine: Backend, method: &str, case: &str) -> Map<String, Value> {
    let tree = case == TREE;
    let options = match engine {
        Backend::Vllm => {
            let mut config = json!({"method": method, "model": "draft", TOKENS: 3});
            if tree {
                config = json!({
                    "method": method,
                    "model": "draft",
                    "speculative_token_tree": [[0], [1], [0, 0], [0, 0, 0]],
                });
            }
            json!({"model": "draft", "speculative_config": config})
        }
        Backend::Sglang => json!({
            "speculative-algorithm": method,
            "speculative-draft-model-path":
                (matches!(method, "EAGLE3" | "STANDALONE" | "DFLASH" | "DSPARK")
                    || case == OWN_DRAFT)
                    .then_some("draft"),
            STEPS: 3,
            "speculative-eagle-topk": if tree { 4 } else { 1 },
            "speculative-num-draft-tokens": if tree { 8 } else { 4 },
            "speculative-ngram-max-bfs-breadth": if tree { 2 } else { 1 },
            "speculative-dflash-block-size": 4,
            "speculative-dspark-block-size": 3,
        }),
        Backend::Trtllm => json!({"speculative_config": {
            "decoding_type": method,
            "speculative_model": "draft",
            LENGTH: 3,
            "dynamic_tree_max_topK": tree.then_some(2),
        }}),
    };
    match options {
        Value::Object(options) => options,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{sglang, trtllm, vllm};
    use super::*;

    #[test]
    fn each_method_has_the_kind_and_the_verdict_of_its_engine() {
        let found: Vec<_> = engine_methods()
            .into_iter()
            .map(|row| {
                let kind = row.kind.unwrap_or_else(|| "-".to_owned());
                format!("{} {} {}: {kind} {}", row.engine, row.method, row.case, row.verdict)
            })
            .collect();
        assert_eq!(
            found,
            [
                "vllm mtp : mtp ok",
                "vllm deepseek_mtp as every *_mtp: mtp ok",
                "vllm ngram : ngram ok",
                "vllm ngram_gpu : ngram ok",
                "vllm eagle : - E_KIND",
                "vllm eagle3 a chain: eagle3 ok",
                "vllm eagle3 a tree: eagle3 E_TREE",
                "vllm draft_model : draft_model ok",
                "vllm dflash : dflash ok",
                "vllm dspark : dspark ok",
                "vllm medusa : - E_KIND",
                "vllm mlp_speculator : - E_KIND",
                "vllm suffix : - E_KIND",
                "vllm custom_class : - E_KIND",
                "vllm extract_hidden_states : - E_KIND",
                "sglang NEXTN a chain: mtp ok",
                "sglang NEXTN a tree: mtp E_TREE",
                "sglang EAGLE layers of the model: mtp ok",
                "sglang EAGLE a draft of its own: - E_KIND",
                "sglang EAGLE3 a chain: eagle3 ok",
                "sglang EAGLE3 a tree: eagle3 E_TREE",
                "sglang STANDALONE : draft_model E_BACKEND",
                "sglang NGRAM a chain: ngram E_BACKEND",
                "sglang NGRAM a tree: ngram E_BACKEND",
                "sglang DFLASH : dflash E_BACKEND",
                "sglang DSPARK : dspark ok",
                "sglang UNO : - E_KIND",
                "trtllm MTP a chain: mtp E_BACKEND",
                "trtllm MTP a tree: mtp E_BACKEND",
                "trtllm Eagle3 a chain: eagle3 E_BACKEND",
                "trtllm Eagle3 a tree: eagle3 E_BACKEND",
                "trtllm Eagle : eagle3 E_BACKEND",
                "trtllm NGram : ngram E_BACKEND",
                "trtllm Draft_Target : draft_model E_BACKEND",
                "trtllm DraftTarget : draft_model E_BACKEND",
                "trtllm DFlash : dflash E_BACKEND",
                "trtllm DSpark : dspark E_BACKEND",
                "trtllm PARD : - E_KIND",
                "trtllm SA : - E_KIND",
                "trtllm Medusa : - E_KIND",
                "trtllm Lookahead : - E_KIND",
                "trtllm AUTO : - E_KIND",
                "trtllm User_Provided : - E_KIND",
                "trtllm SaveState : - E_KIND",
            ]
        );
    }

    #[test]
    fn every_method_that_resolves_is_in_the_table() {
        let listed =
            |engine, method: &str| METHODS.iter().any(|row| row.0 == engine && row.1 == method);
        assert!(vllm::METHODS.iter().all(|(name, ..)| listed(Backend::Vllm, name)));
        assert!(sglang::ALGORITHMS.iter().all(|(name, _)| listed(Backend::Sglang, name)));
        assert!(trtllm::TYPES.iter().all(|(name, ..)| listed(Backend::Trtllm, name)));
    }
}
