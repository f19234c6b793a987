//! What of each engine's methods can be resolved and replayed, found by resolving an example of each.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{EngineOptions, resolve};
use crate::error::Result;
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
    pub kind: Option<&'static str>,
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
pub fn engine_methods() -> Result<Vec<EngineMethod>> {
    METHODS
        .iter()
        .map(|&(engine, method, case, depth_from)| {
            let example = EngineOptions::Mapping(example(engine, method, case));
            let resolved = resolve(engine, &example, true)?;
            let kind = resolved.reading.kind;
            let verdict = resolved.depth.as_ref().map_or_else(|refusal| refusal.code(), |_| "ok");
            Ok(EngineMethod { engine, method, case, kind, depth_from, verdict })
        })
        .collect()
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
