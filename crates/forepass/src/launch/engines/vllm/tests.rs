//! vLLM's methods and fields, each with what it must come to.

use serde_json::{Value, json};

use crate::launch::engines::tests::{accepts, refused, report, summary};
use crate::speculation::Backend::Vllm;

/// The options of a method with a draft and more fields.
fn config(method: &str, fields: Value) -> Value {
    let mut config = json!({"method": method, "model": "org/draft"});
    let Value::Object(fields) = fields else { panic!("an object") };
    config.as_object_mut().unwrap().extend(fields);
    json!({"model": "org/target", "speculative_config": config})
}

fn tokens(method: &str, tokens: u64) -> Value {
    config(method, json!({"num_speculative_tokens": tokens}))
}

#[test]
fn each_method_with_a_scheme_takes_its_depth_from_num_speculative_tokens() {
    // The verify width is always the number of tokens and one more.
    for (method, expected) in [
        ("mtp", "mtp 3 4 chain ok"),
        ("deepseek_mtp", "mtp 3 4 chain ok"),
        ("qwen3_next_mtp", "mtp 3 4 chain ok"),
        ("longcat_flash_mtp", "mtp 3 4 chain ok"),
        ("glm4_moe_mtp", "mtp 3 4 chain ok"),
        ("ngram", "ngram 3 4 chain ok"),
        ("ngram_gpu", "ngram 3 4 chain ok"),
        ("eagle3", "eagle3 3 4 chain ok"),
        ("draft_model", "draft_model 3 4 chain ok"),
        ("dflash", "dflash 3 4 chain ok"),
        ("dspark", "dspark 3 4 chain ok"),
    ] {
        assert_eq!(summary(Vllm, tokens(method, 3)), expected, "{method}");
    }
}

#[test]
fn each_method_lowers_to_its_block() {
    for (method, block) in [
        ("deepseek_mtp", json!({"kind": "mtp", "params": {"num_speculative_tokens": 3}})),
        ("ngram", json!({"kind": "ngram", "params": {"num_speculative_tokens": 3}})),
        (
            "draft_model",
            json!({"kind": "draft_model", "params": {"num_speculative_tokens": 3},
                "draft_model_path": "org/draft"}),
        ),
        (
            "dflash",
            json!({"kind": "dflash", "params": {"num_draft_tokens": 3},
                "draft_model_path": "org/draft"}),
        ),
        (
            "dspark",
            json!({"kind": "dspark", "params": {"num_draft_tokens": 3},
                "draft_model_path": "org/draft"}),
        ),
    ] {
        let lowered = report(Vllm, tokens(method, 3)).speculation.unwrap();
        assert_eq!(serde_json::to_value(lowered).unwrap(), block, "{method}");
    }
}

#[test]
fn a_method_without_a_scheme_is_refused_with_its_depth_named() {
    for (method, says) in [
        ("eagle", "it is not eagle3"),
        ("medusa", "has no scheme here"),
        ("mlp_speculator", "has no scheme here"),
        ("custom_class", "has no scheme here"),
        ("extract_hidden_states", "does not speed up decoding"),
        ("MTP", "is written \"mtp\""),
        ("none", "is no method of vLLM that is known here"),
    ] {
        assert_eq!(summary(Vllm, tokens(method, 3)), "- 3 4 chain E_KIND", "{method}");
        let path = "speculative_config.method";
        refused(Vllm, tokens(method, 3), "E_KIND", path, &[method, says, "eagle3"]);
    }
}

#[test]
fn suffix_decoding_has_a_greatest_depth_and_no_other() {
    assert_eq!(summary(Vllm, config("suffix", json!({}))), "- 24 25 chain E_KIND");
    let capped = config("suffix", json!({"suffix_decoding_max_tree_depth": 8}));
    assert_eq!(summary(Vllm, capped.clone()), "- 8 9 chain E_KIND");
    assert_eq!(
        report(Vllm, capped).provenance["depth"],
        "at most speculative_config.suffix_decoding_max_tree_depth"
    );
}

#[test]
fn the_method_is_inferred_from_the_name_ngram_alone() {
    for model in ["ngram", "[ngram]"] {
        let options = json!({"speculative_config": {"model": model, "num_speculative_tokens": 2}});
        assert_eq!(summary(Vllm, options), "ngram 2 3 chain ok");
    }
    let eagle = json!({"speculative_config": {"model": "org/eagle3", "num_speculative_tokens": 2}});
    refused(Vllm, eagle, "E_KIND", "speculative_config.method", &["checkpoint", "set it"]);
}

#[test]
fn flags_from_before_the_json_still_speak() {
    let options = json!(
        "vllm serve a/b --speculative-model [ngram] --num-speculative-tokens 4 \
        --ngram-prompt-lookup-max 4 --ngram-prompt-lookup-min 2"
    );
    assert_eq!(summary(Vllm, options.clone()), "ngram 4 5 chain ok");
    assert_eq!(report(Vllm, options).provenance["depth"], "--num-speculative-tokens");
}

#[test]
fn an_absent_depth_is_the_engines_and_must_be_set() {
    for given in [json!({}), json!({"num_speculative_tokens": null})] {
        let options = config("eagle3", given);
        assert_eq!(summary(Vllm, options.clone()), "eagle3 ? ? chain E_PARAM");
        assert_eq!(
            report(Vllm, options.clone()).provenance["depth"],
            "engine default (needs the architecture)"
        );
        let path = "speculative_config.num_speculative_tokens";
        refused(Vllm, options, "E_PARAM", path, &["n_predict", "set it"]);
    }
}

#[test]
fn a_method_with_a_draft_needs_its_checkpoint() {
    for method in ["eagle3", "draft_model", "dflash"] {
        let options =
            json!({"speculative_config": {"method": method, "num_speculative_tokens": 3}});
        let path = "speculative_config.model";
        refused(Vllm, options, "E_PARAM", path, &[method, "needs the draft's checkpoint"]);
    }
    let bundled = json!({"speculative_config": {"method": "dspark", "num_speculative_tokens": 3}});
    assert_eq!(summary(Vllm, bundled), "dspark 3 4 chain ok");
}

#[test]
fn mtp_with_a_checkpoint_of_its_own_is_warned_of() {
    let warnings = report(Vllm, tokens("mtp", 3)).warnings;
    assert!(warnings[0].starts_with("speculative_config.model: mtp is taken to draft"));
    let same = json!({"model": "a/b", "speculative_config":
        {"method": "mtp", "model": "a/b", "num_speculative_tokens": 3}});
    assert_eq!(report(Vllm, same).warnings, [""; 0]);
}

#[test]
fn depths_by_batch_size_must_not_differ() {
    let schedule = |ranges: Value| {
        config(
            "mtp",
            json!({"num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": ranges}),
        )
    };
    assert_eq!(summary(Vllm, schedule(json!([[1, 8, 3], [9, 64, 3]]))), "mtp 3 4 chain ok");
    let path = "speculative_config.num_speculative_tokens_per_batch_size";
    for ranges in [json!([[1, 8, 3], [9, 64, 1]]), json!([[1, 64, 2]])] {
        let options = schedule(ranges.clone());
        let says = ["changes with the batch size", &ranges.to_string(), "give one depth"];
        refused(Vllm, options.clone(), "E_PARAM", path, &says);
        assert!(report(Vllm, options).dynamic.is_some());
    }
    refused(Vllm, schedule(json!([[1, 8]])), "E_PARAM", path, &["[[1,8]]", "must be a list of"]);
    let alone = config("mtp", json!({"num_speculative_tokens_per_batch_size": [[1, 64, 2]]}));
    assert_eq!(summary(Vllm, alone), "mtp 2 3 chain ok");
}

#[test]
fn a_token_tree_is_a_chain_or_refused_with_its_depth_and_width() {
    let tree = |method, tokens: u64, tree: &str| {
        config(method, json!({"num_speculative_tokens": tokens, "speculative_token_tree": tree}))
    };
    let chain = "[(0,), (0, 0), (0, 0, 0)]";
    assert_eq!(summary(Vllm, tree("eagle3", 3, chain)), "eagle3 3 4 chain ok");
    // Four nodes on two levels: depth 2, and with the token before them 5 are verified.
    let branching = "[(0,), (1,), (0, 0), (0, 1)]";
    assert_eq!(summary(Vllm, tree("eagle3", 4, branching)), "eagle3 2 5 tree E_TREE");
    assert_eq!(summary(Vllm, tree("mtp", 4, branching)), "mtp 2 5 tree E_TREE");
    assert_eq!(summary(Vllm, tree("eagle", 4, branching)), "- 4 5 chain E_KIND");
    let path = "speculative_config.speculative_token_tree";
    let says = ["depth 2", "width 5"];
    for method in ["mtp", "eagle3"] {
        refused(Vllm, tree(method, 4, branching), "E_TREE", path, &says);
    }
    refused(Vllm, tree("eagle3", 2, chain), "E_DEPTH_CONFLICT", path, &["3 nodes", "is 2"]);
    for malformed in ["[(0,), (0, 0, 0)]", "[]", "[()]", "x", "[(0.5,)]"] {
        let says = ["must be the path of each node"];
        refused(Vllm, tree("eagle3", 3, malformed), "E_PARAM", path, &says);
    }
}

#[test]
fn draft_parallelism_is_one_or_the_targets() {
    let options = |draft: u64, target: u64| {
        json!({"tensor_parallel_size": target, "speculative_config": {
            "method": "draft_model", "model": "org/draft", "num_speculative_tokens": 3,
            "draft_tensor_parallel_size": draft}})
    };
    for draft in [1, 4] {
        let block = report(Vllm, options(draft, 4)).speculation.unwrap();
        assert_eq!(block.params["draft_tp_size"], draft);
    }
    let path = "speculative_config.draft_tensor_parallel_size";
    refused(Vllm, options(2, 4), "E_PARAM", path, &["is 2", "1 or", "4"]);
    let wrong = config(
        "draft_model",
        json!({"num_speculative_tokens": 3,
        "tensor_parallel_size": 1}),
    );
    let path = "speculative_config.tensor_parallel_size";
    refused(Vllm, wrong, "E_PARAM", path, &["draft_tensor_parallel_size"]);
}

#[test]
fn looked_up_lengths_must_make_sense() {
    let lookup = |max: u64, min: u64| {
        config(
            "ngram",
            json!({"num_speculative_tokens": 3, "prompt_lookup_max": max,
            "prompt_lookup_min": min}),
        )
    };
    assert_eq!(summary(Vllm, lookup(5, 5)), "ngram 3 4 chain ok");
    let path = "speculative_config.prompt_lookup_min";
    refused(Vllm, lookup(2, 3), "E_PARAM", path, &["is 3", "prompt_lookup_max, 2"]);
    refused(Vllm, lookup(2, 0), "E_PARAM", path, &["is 0", "at least 1"]);
}

#[test]
fn synthetic_rates_are_unconditional_and_become_conditional() {
    let rates = |rates: Value| {
        config(
            "mtp",
            json!({"num_speculative_tokens": 3, "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": rates}),
        )
    };
    // 0.5 / 0.9 and 0.2 / 0.5; what follows a 0 is never reached.
    accepts(&report(Vllm, rates(json!([0.9, 0.5, 0.2]))), &[0.9, 0.5 / 0.9, 0.4]);
    accepts(&report(Vllm, rates(json!([1.0, 0.0, 0.0]))), &[1.0, 0.0, 0.0]);
    let report = report(Vllm, rates(json!([0.9, 0.5, 0.2])));
    assert_eq!(
        report.provenance["acceptance_rates"],
        "synthetic: speculative_config.synthetic_acceptance_rates"
    );
    for (wrong, path) in
        [(json!([0.5, 0.9, 0.1]), "[1]"), (json!([1.5, 0.9, 0.1]), "[0]"), (json!([0.5, 0.4]), "")]
    {
        let path = format!("speculative_config.synthetic_acceptance_rates{path}");
        refused(Vllm, rates(wrong), "E_ACCEPT_INVALID", &path, &[]);
    }
    let path = "speculative_config.synthetic_acceptance_rates";
    refused(Vllm, rates(json!("x")), "E_PARAM", path, &["a list of rates"]);
}

#[test]
fn a_synthetic_length_counts_the_token_of_the_target_too() {
    let length = |length: f64| {
        config(
            "mtp",
            json!({"num_speculative_tokens": 3, "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": length}),
        )
    };
    accepts(&report(Vllm, length(2.6)), &[1.0, 0.6, 0.0]);
    accepts(&report(Vllm, length(1.0)), &[0.0, 0.0, 0.0]);
    accepts(&report(Vllm, length(4.0)), &[1.0, 1.0, 1.0]);
    let path = "speculative_config.synthetic_acceptance_length";
    for wrong in [0.9, 4.1] {
        let says = [&wrong.to_string(), "from 1 to"];
        refused(Vllm, length(wrong), "E_ACCEPT_INVALID", path, &says.map(|s| s as &str));
    }
}

#[test]
fn synthetic_acceptance_is_said_in_one_way_and_only_where_it_is_used() {
    let fields = |fields: Value| {
        let mut all = json!({"num_speculative_tokens": 1});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        config("mtp", all)
    };
    let (rates, length) = ("synthetic_acceptance_rates", "synthetic_acceptance_length");
    for (given, code, path, says) in [
        (json!({rates: [0.5]}), "E_ACCEPT_INVALID", rates, "set it"),
        (json!({length: 1.5}), "E_ACCEPT_INVALID", length, "set it"),
        (
            json!({"rejection_sample_method": "synthetic"}),
            "E_ACCEPT_INVALID",
            "rejection_sample_method",
            "needs synthetic_acceptance_rates or",
        ),
        (
            json!({"rejection_sample_method": "synthetic", rates: [0.5], length: 1.5}),
            "E_ACCEPT_INVALID",
            length,
            "give one",
        ),
        (
            json!({"rejection_sample_method": "exact"}),
            "E_PARAM",
            "rejection_sample_method",
            "standard, synthetic or block",
        ),
    ] {
        refused(Vllm, fields(given), code, &format!("speculative_config.{path}"), &[says]);
    }
    for method in ["standard", "block"] {
        let options = fields(json!({"rejection_sample_method": method}));
        assert_eq!(report(Vllm, options).acceptance_rates, None);
    }
}

#[test]
fn a_depth_that_cannot_be_replayed_comes_before_acceptance_that_cannot_be() {
    let options = config(
        "mtp",
        json!({"num_speculative_tokens": 6,
        "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 9}),
    );
    assert_eq!(summary(Vllm, options), "mtp 6 7 chain E_RANGE");
}

#[test]
fn an_unknown_field_is_a_warning() {
    let options = config("mtp", json!({"num_speculative_tokens": 3, "typo": 1}));
    let warnings = report(Vllm, options).warnings;
    assert!(warnings.iter().any(|w| w.starts_with("speculative_config.typo: no option of vllm")));
}

#[test]
fn fields_of_another_method_are_listed() {
    let options = config(
        "mtp",
        json!({"num_speculative_tokens": 3, "prompt_lookup_max": 5,
        "draft_tensor_parallel_size": 1}),
    );
    assert_eq!(
        report(Vllm, options).ignored,
        [
            "model: does not concern speculation",
            "speculative_config.draft_tensor_parallel_size: changes neither depth nor acceptance",
            "speculative_config.prompt_lookup_max: no effect with mtp",
        ]
    );
}
