use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::codes::{E_RANGE, E_RUNTIME, E_TREE};

fn config(json: Value) -> SpeculationConfig {
    SpeculationConfig::from_value(json).unwrap()
}

fn draft(json: Value) -> Draft {
    resolve_speculation(&config(json)).unwrap()
}

fn sizes(json: Value) -> (u32, u32) {
    let draft = draft(json);
    (draft.depth, draft.verify_width)
}

fn refusal(json: Value) -> (&'static str, String) {
    let error = config(json).replay_depth().unwrap_err();
    (error.code(), error.path())
}

/// A configuration of this kind that drafts a chain of this depth.
fn chain(kind: &str, depth: u64) -> Value {
    match kind {
        "mtp" => json!({"kind": kind, "params": {"depth": depth}}),
        "ngram" => json!({"kind": kind, "params": {"num_speculative_tokens": depth}}),
        "dflash" | "dspark" => json!({"kind": kind, "params": {"num_draft_tokens": depth}}),
        _ => json!({
            "kind": kind, "params": {"num_speculative_tokens": depth}, "draft_model_path": "a/b"
        }),
    }
}

const CHAINS: [&str; 6] = ["mtp", "ngram", "eagle3", "draft_model", "dflash", "dspark"];

/// Depth and width follow from the definition of each scheme: a chain of n drafts is verified with
/// the token before it; a tree with the sum of its levels; a denoised block of 16 holds 15 drafts.
#[test]
fn each_scheme_has_its_depth_and_width() {
    let eagle3 = |params: Value| json!({"kind": "eagle3", "params": params, "draft_config": {}});
    let block = |kind, size| json!({"kind": kind, "draft_config": {"block_size": size}});
    for (json, expected) in [
        (json!({"kind": "none"}), (0, 1)),
        (chain("mtp", 3), (3, 4)),
        (json!({"kind": "mtp", "params": {"num_speculative_tokens": 3}}), (3, 4)),
        (json!({"kind": "mtp", "params": {"num_speculative_tokens": 3, "depth": 3}}), (3, 4)),
        (chain("ngram", 7), (7, 8)),
        (eagle3(json!({})), (3, 4)),
        (eagle3(json!({"num_speculative_tokens": 2})), (2, 3)),
        (eagle3(json!({"tree_shape": [1, 1, 1]})), (3, 4)),
        (eagle3(json!({"tree_shape": [1, 1], "num_speculative_tokens": 2})), (2, 3)),
        (eagle3(json!({"tree_shape": [1, 4, 4]})), (3, 10)),
        (eagle3(json!({"tree_shape": [1, 4, 4], "verify_token_budget": 8})), (3, 8)),
        (block("dflash", 16), (15, 16)),
        (block("dspark", 7), (7, 8)),
        (json!({"kind": "dflash", "draft_config": {"dflash_config": {"block_size": 4}}}), (3, 4)),
        (json!({"kind": "dspark", "draft_config": {"dspark_block_size": 4}}), (4, 5)),
        (chain("draft_model", 3), (3, 4)),
    ] {
        assert_eq!(sizes(json.clone()), expected, "{json}");
    }
}

#[test]
fn each_number_says_where_it_comes_from() {
    let sources = |json| {
        let draft = draft(json);
        (draft.depth_source.to_string(), draft.verify_width_source.to_string())
    };
    for (json, depth, width) in [
        (json!({"kind": "none"}), "kind", "depth + 1"),
        (chain("mtp", 3), "params.depth", "depth + 1"),
        (chain("draft_model", 3), "params.num_speculative_tokens", "depth + 1"),
        (json!({"kind": "eagle3", "draft_config": {}}), "default", "depth + 1"),
        (
            json!({
                "kind": "eagle3", "draft_config": {},
                "params": {"tree_shape": [1, 1], "verify_token_budget": 3}
            }),
            "params.tree_shape",
            "params.verify_token_budget",
        ),
        (
            json!({"kind": "dspark", "draft_config": {"block_size": 4}}),
            "draft_config.block_size",
            "depth + 1",
        ),
        (
            json!({"kind": "dflash", "draft_config": {"dflash_config": {"block_size": 4}}}),
            "draft_config.dflash_config.block_size",
            "depth + 1",
        ),
    ] {
        assert_eq!(sizes(json.clone()).0 + 1, draft(json.clone()).verify_width, "{json}");
        assert_eq!(sources(json), (depth.to_owned(), width.to_owned()));
    }
}

#[test]
fn an_explicit_depth_comes_before_the_checkpoint() {
    let json = json!({
        "kind": "dflash", "params": {"num_draft_tokens": 4}, "draft_config": {"block_size": 16}
    });
    assert_eq!(sizes(json), (4, 5));
}

#[test]
fn chains_of_depth_1_to_5_can_be_replayed() {
    for kind in CHAINS {
        for depth in 1..=5_u32 {
            assert_eq!(config(chain(kind, depth.into())).replay_depth(), Ok(depth), "{kind}");
        }
        for depth in [0, 6, 7, u64::from(u32::MAX), u64::MAX] {
            let error = config(chain(kind, depth)).replay_depth().unwrap_err();
            assert_eq!(error.code(), E_RANGE, "{kind} {depth}");
            assert!(error.path().starts_with("params."), "{error}");
            let numbers = [depth.to_string(), "1 to 5".to_owned()];
            assert!(numbers.iter().all(|number| error.message().contains(number)), "{error}");
        }
    }
    assert_eq!(config(json!({"kind": "none"})).replay_depth(), Ok(0));
    let negative = json!({"kind": "ngram", "params": {"num_speculative_tokens": -1}});
    assert_eq!(refusal(negative), (E_RANGE, "params.num_speculative_tokens".to_owned()));
    // Defaults of the checkpoints in use.
    let dflash = json!({"kind": "dflash", "draft_config": {"block_size": 16}});
    assert_eq!(refusal(dflash), (E_RANGE, "draft_config.block_size".to_owned()));
    let dspark = json!({"kind": "dspark", "draft_config": {"block_size": 7}});
    assert_eq!(refusal(dspark), (E_RANGE, "draft_config.block_size".to_owned()));
}

#[test]
fn a_tree_can_not_be_replayed() {
    for (params, path) in [
        (json!({"tree_shape": [1, 4, 4], "verify_token_budget": 10}), "verify_token_budget"),
        (json!({"tree_shape": [2]}), "tree_shape"),
        // As wide as a chain of its depth, yet it branches.
        (json!({"tree_shape": [2], "verify_token_budget": 2}), "verify_token_budget"),
        (json!({"num_speculative_tokens": 3, "verify_token_budget": 9}), "verify_token_budget"),
        (json!({"tree_shape": [2, 2, 2, 2, 2, 2]}), "tree_shape"),
    ] {
        let json = json!({"kind": "eagle3", "params": params, "draft_model_path": "a/b"});
        assert_eq!(refusal(json), (E_TREE, format!("params.{path}")));
    }
    let budget = json!({"num_speculative_tokens": 3, "verify_token_budget": 4});
    let json = json!({"kind": "eagle3", "params": budget, "draft_model_path": "a/b"});
    assert_eq!(config(json).replay_depth(), Ok(3));
}

#[test]
fn integers_are_strict() {
    for kind in CHAINS {
        let right = chain(kind, 3);
        let (name, _) = right["params"].as_object().unwrap().iter().next().unwrap();
        for value in [json!(3.0), json!(1.9), json!(true), json!("3"), Value::Null, json!([3])] {
            let mut wrong = right.clone();
            wrong["params"][name] = value.clone();
            let error = config(wrong).replay_depth().unwrap_err();
            assert_eq!((error.code(), error.path()), (E_PARAM, format!("params.{name}")));
            assert!(error.message().starts_with(&value.to_string()), "{error}");
        }
    }
}

#[test]
fn parameters_that_mean_nothing_are_refused_where_they_stand() {
    let eagle3 = |params: Value| json!({"kind": "eagle3", "params": params, "draft_config": {}});
    for (json, path) in [
        (json!({"kind": "none", "params": {"depth": 1}}), "params.depth"),
        (json!({"kind": "none", "draft_config": {}}), "draft_config"),
        (json!({"kind": "mtp"}), "params.depth"),
        (
            json!({"kind": "mtp", "params": {"depth": 2, "num_speculative_tokens": 3}}),
            "params.num_speculative_tokens",
        ),
        (json!({"kind": "mtp", "params": {"dept": 2}}), "params.dept"),
        (
            json!({"kind": "mtp", "params": {"depth": 2}, "draft_model_path": "a"}),
            "draft_model_path",
        ),
        (json!({"kind": "ngram"}), "params.num_speculative_tokens"),
        (
            json!({"kind": "ngram", "params": {"num_speculative_tokens": 2, "trigger_rate": 0.5}}),
            "params.trigger_rate",
        ),
        (json!({"kind": "eagle3"}), "draft_config"),
        (json!({"kind": "eagle3", "draft_model_path": " "}), "draft_model_path"),
        (eagle3(json!({"tree_shape": []})), "params.tree_shape"),
        (eagle3(json!({"tree_shape": 3})), "params.tree_shape"),
        (eagle3(json!({"tree_shape": [1, 0]})), "params.tree_shape[1]"),
        (eagle3(json!({"tree_shape": [u32::MAX, 2]})), "params.tree_shape"),
        (
            eagle3(json!({"tree_shape": [1, 1], "num_speculative_tokens": 3})),
            "params.num_speculative_tokens",
        ),
        (eagle3(json!({"verify_token_budget": 1})), "params.verify_token_budget"),
        (
            json!({"kind": "draft_model", "params": {"num_speculative_tokens": 3}}),
            "draft_model_path",
        ),
        (json!({"kind": "draft_model", "draft_model_path": "a"}), "params.num_speculative_tokens"),
        (
            json!({
                "kind": "draft_model", "draft_model_path": "a",
                "params": {"num_speculative_tokens": 2, "draft_tp_size": 0}
            }),
            "params.draft_tp_size",
        ),
        (json!({"kind": "dflash"}), "params.num_draft_tokens"),
        (json!({"kind": "dspark", "draft_config": {}}), "params.num_draft_tokens"),
        (json!({"kind": "dflash", "draft_config": {"block_size": 1}}), "draft_config.block_size"),
        (
            json!({
                "kind": "dflash",
                "draft_config": {"block_size": 4, "dflash_config": {"block_size": 5}}
            }),
            "draft_config.dflash_config.block_size",
        ),
        (
            json!({"kind": "dspark", "params": {"num_draft_tokens": 2, "num_draft_layers": "1"}}),
            "params.num_draft_layers",
        ),
    ] {
        assert_eq!(refusal(json.clone()), (E_PARAM, path.to_owned()), "{json}");
    }
}

#[test]
fn a_depth_that_only_a_checkpoint_tells_is_not_guessed() {
    for kind in ["dflash", "dspark"] {
        let checkpoint = json!({"kind": kind, "draft_model_path": "a/b"});
        assert_eq!(refusal(checkpoint.clone()), (E_RUNTIME, "draft_model_path".to_owned()));
        let elsewhere = resolve_replay(&config(checkpoint), &[Backend::Trtllm]);
        assert_eq!(elsewhere.1.unwrap_err().code(), E_BACKEND);
    }
}

#[test]
fn a_scheme_that_is_not_known_is_refused_by_name() {
    for kind in ["eagle", "medusa", "lookahead", "suffix", "tree", "MTP", " mtp", ""] {
        let error = config(json!({"kind": kind})).replay_depth().unwrap_err();
        assert_eq!((error.code(), error.path().as_str()), (E_KIND, "kind"));
        assert!(error.message().contains("ngram"), "names those that are known: {error}");
    }
}

#[test]
fn backends_have_their_schemes() {
    let depth = |json, backend| resolve_replay(&config(json), &[backend]).1;
    let code = |json, backend| depth(json, backend).unwrap_err().code();
    for (kind, sglang) in [
        ("mtp", true),
        ("ngram", false),
        ("eagle3", true),
        ("draft_model", false),
        ("dflash", false),
        ("dspark", true),
    ] {
        assert_eq!(depth(chain(kind, 3), Backend::Vllm), Ok(3));
        assert_eq!(depth(chain(kind, 3), Backend::Sglang).is_ok(), sglang);
        assert_eq!(code(chain(kind, 3), Backend::Trtllm), E_BACKEND);
        // The backend comes before a depth that is out of range, and after a wrong type.
        assert_eq!(code(chain(kind, 6), Backend::Trtllm), E_BACKEND);
        assert_eq!(code(chain(kind, 0), Backend::Trtllm), E_BACKEND);
    }
    for backend in Backend::ALL {
        assert_eq!(depth(json!({"kind": "none"}), backend), Ok(0));
        assert_eq!(code(json!({"kind": "ngram"}), backend), E_PARAM);
        assert_eq!(code(json!({"kind": "medusa"}), backend), E_KIND);
        assert_eq!(backend.name().parse(), Ok(backend));
    }
    let both = resolve_replay(&config(chain("ngram", 3)), &[Backend::Vllm, Backend::Sglang]);
    assert_eq!(both.1.unwrap_err().code(), E_BACKEND);
    assert_eq!(both.0.unwrap().depth, 3);
    assert_eq!("VLLM".parse::<Backend>().unwrap_err().code(), E_BACKEND);
}

struct Registered(&'static str, fn() -> Result<Draft>);

impl SpeculationScheme for Registered {
    fn kind(&self) -> &str {
        self.0
    }

    fn resolve(&self, _: &SpeculationConfig) -> Result<Draft> {
        (self.1)()
    }
}

#[test]
fn a_registered_scheme_is_found_by_its_name() {
    let fixed = || Ok(Draft::chain("fixed", 2, Source::Scheme));
    register_scheme(Arc::new(Registered("fixed", fixed))).unwrap();
    assert_eq!(config(json!({"kind": "fixed"})).replay_depth(), Ok(2));
    assert!(scheme_names().contains(&"fixed".to_owned()));
    let backend = resolve_replay(&config(json!({"kind": "fixed"})), &[Backend::Trtllm]);
    assert_eq!(backend.1.unwrap_err().code(), E_BACKEND);
    for name in ["fixed", "mtp", " "] {
        let error = register_scheme(Arc::new(Registered(name, fixed))).unwrap_err();
        assert_eq!(error.code(), E_KIND, "{name:?}");
    }
    assert!(unregister_scheme("fixed"));
    assert!(!unregister_scheme("fixed"));
    assert_eq!(refusal(json!({"kind": "fixed"})), (E_KIND, "kind".to_owned()));
}

#[test]
fn a_registered_scheme_that_cannot_run_or_answers_wrongly_is_an_error() {
    let absent = || Err(Error::speculation(E_RUNTIME, "kind", "no interpreter runs"));
    register_scheme(Arc::new(Registered("absent", absent))).unwrap();
    assert_eq!(refusal(json!({"kind": "absent"})), (E_RUNTIME, "kind".to_owned()));
    let elsewhere = resolve_replay(&config(json!({"kind": "absent"})), &[Backend::Trtllm]);
    assert_eq!(elsewhere.1.unwrap_err().code(), E_BACKEND);
    let narrow =
        || Ok(Draft::chain("narrow", 2, Source::Scheme).with_verify_width(2, Source::Scheme));
    register_scheme(Arc::new(Registered("narrow", narrow))).unwrap();
    assert_eq!(refusal(json!({"kind": "narrow"})), (E_RUNTIME, "kind".to_owned()));
    let foreign = || Err(Error::config("invalid_value", "params.x", "3: must be 4"));
    register_scheme(Arc::new(Registered("foreign", foreign))).unwrap();
    assert_eq!(refusal(json!({"kind": "foreign"})), (E_PARAM, "params.x".to_owned()));
}

/// The older wire forms are objects of a kind and of `num_speculative_tokens` alone.
#[test]
fn older_generations_of_the_wire_form_read_the_same() {
    for kind in ["ngram", "mtp"] {
        let text = format!(r#"{{"kind":"{kind}","params":{{"num_speculative_tokens":3}}}}"#);
        let speculation = SpeculationConfig::from_json(text.as_bytes()).unwrap();
        assert_eq!(speculation.replay_depth(), Ok(3));
        assert_eq!(speculation.to_json(), text);
    }
}

proptest! {
    /// Against a count of the levels by hand.
    #[test]
    fn a_tree_verifies_all_its_nodes_and_the_root(widths in proptest::collection::vec(1_u32..9, 1..9)) {
        let nodes = widths.iter().fold(1, |nodes, width| nodes + width);
        let json = json!({"kind": "eagle3", "params": {"tree_shape": widths}, "draft_config": {}});
        let draft = draft(json);
        prop_assert_eq!((draft.depth as usize, draft.verify_width), (widths.len(), nodes));
        prop_assert_eq!(draft.is_chain(), widths.iter().all(|width| *width == 1));
    }

    #[test]
    fn any_parameters_are_answered(kind in "[a-z0-9_]{0,12}", pick in 0..8_usize, name in "[a-z_]{0,24}",
        number in any::<i64>()) {
        let kind = scheme_names().get(pick).cloned().unwrap_or(kind);
        let mut params = Map::new();
        params.insert(name, number.into());
        params.insert("num_speculative_tokens".into(), number.into());
        let _ = resolve_speculation(&SpeculationConfig::new(kind, params));
    }
}
