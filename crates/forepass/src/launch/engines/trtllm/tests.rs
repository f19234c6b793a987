//! TensorRT-LLM's decoding types and fields, each with what it must come to.

use serde_json::{Value, json};

use crate::launch::engines::tests::{accepts, refused, report, summary};
use crate::speculation::Backend::Trtllm;

/// The options of a decoding type with a draft and more fields.
fn config(decoding_type: &str, fields: Value) -> Value {
    let mut config = json!({"decoding_type": decoding_type, "speculative_model": "org/draft"});
    let Value::Object(fields) = fields else { panic!("an object") };
    config.as_object_mut().unwrap().extend(fields);
    json!({"speculative_config": config})
}

fn length(decoding_type: &str) -> Value {
    config(decoding_type, json!({"max_draft_len": 3}))
}

#[test]
fn each_decoding_type_names_its_depth_and_is_refused_by_the_backend() {
    for (decoding_type, expected) in [
        ("MTP", "mtp 3 4 chain E_BACKEND"),
        ("Eagle3", "eagle3 3 4 chain E_BACKEND"),
        ("Eagle", "eagle3 3 4 chain E_BACKEND"),
        ("NGram", "ngram 3 4 chain E_BACKEND"),
        ("Draft_Target", "draft_model 3 4 chain E_BACKEND"),
        ("DraftTarget", "draft_model 3 4 chain E_BACKEND"),
        ("DFlash", "dflash 3 4 chain E_BACKEND"),
        ("DSpark", "dspark 3 4 chain E_BACKEND"),
    ] {
        assert_eq!(summary(Trtllm, length(decoding_type)), expected, "{decoding_type}");
        refused(
            Trtllm,
            length(decoding_type),
            "E_BACKEND",
            "speculative_config.decoding_type",
            &[decoding_type, "depth 3", "decode width 4", "vllm"],
        );
    }
}

#[test]
fn mtp_is_told_how_a_launch_can_state_it() {
    let path = "speculative_config.decoding_type";
    refused(Trtllm, length("MTP"), "E_BACKEND", path, &["engine.aic_nextn"]);
}

#[test]
fn a_decoding_type_without_a_scheme_is_refused() {
    for (decoding_type, expected, says) in [
        // Parallel drafting verifies twice its length.
        ("PARD", "- 3 6 chain E_KIND", "has no scheme here"),
        ("SA", "- 3 4 chain E_KIND", "has no scheme here"),
        ("Medusa", "- 3 4 chain E_KIND", "TensorRT engines only"),
        ("Lookahead", "- 3 4 chain E_KIND", "TensorRT engines only"),
        ("AUTO", "- 3 4 chain E_KIND", "leaves the choice to the engine"),
        ("User_Provided", "- 3 4 chain E_KIND", "a program of the user"),
        ("SaveState", "- 3 4 chain E_KIND", "does not speed up decoding"),
        ("mtp", "- 3 4 chain E_KIND", "is written \"MTP\""),
        ("Other", "- 3 4 chain E_KIND", "is no decoding type that is known here"),
    ] {
        assert_eq!(summary(Trtllm, length(decoding_type)), expected, "{decoding_type}");
        let path = "speculative_config.decoding_type";
        refused(Trtllm, length(decoding_type), "E_KIND", path, &[decoding_type, says, "Eagle3"]);
    }
    let absent = json!({"speculative_config": {"max_draft_len": 3}});
    refused(Trtllm, absent, "E_KIND", "speculative_config.decoding_type", &["absent", "set it"]);
}

#[test]
fn the_older_spellings_of_the_depth_are_the_depth() {
    for (decoding_type, spelling) in [
        ("MTP", "num_nextn_predict_layers"),
        ("MTP", "num_speculative_tokens"),
        ("NGram", "prompt_lookup_num_tokens"),
    ] {
        let options = config(decoding_type, json!({spelling: 3}));
        let report = report(Trtllm, options);
        assert_eq!(report.depth, Some(3), "{spelling}");
        assert_eq!(report.provenance["depth"], format!("speculative_config.{spelling}"));
    }
}

#[test]
fn an_absent_depth_is_the_engines_and_must_be_set() {
    for (decoding_type, says) in [("MTP", "number of MTP layers"), ("NGram", "absent")] {
        let options = config(decoding_type, json!({}));
        assert_eq!(
            report(Trtllm, options.clone()).provenance["depth"],
            "engine default (needs the architecture)"
        );
        let path = "speculative_config.max_draft_len";
        refused(Trtllm, options, "E_PARAM", path, &[says, "set it"]);
    }
}

#[test]
fn a_draft_is_named_in_either_spelling_and_needed_by_some() {
    for spelling in ["speculative_model", "speculative_model_dir"] {
        let options = json!({"speculative_config":
            {"decoding_type": "Eagle3", "max_draft_len": 3, spelling: "org/draft"}});
        let block = report(Trtllm, options).speculation.unwrap();
        assert_eq!(block.draft_model_path.as_deref(), Some("org/draft"), "{spelling}");
    }
    for decoding_type in ["Eagle3", "Eagle", "Draft_Target"] {
        let options =
            json!({"speculative_config": {"decoding_type": decoding_type, "max_draft_len": 3}});
        let path = "speculative_config.speculative_model";
        refused(Trtllm, options, "E_PARAM", path, &["needs the draft's checkpoint"]);
    }
}

#[test]
fn a_static_tree_sets_depth_and_width_itself() {
    // Five nodes, the deepest on the third level: the length that is given does not count.
    let choices = json!([[0], [1], [0, 0], [0, 1], [0, 0, 0]]);
    let options = config("Eagle3", json!({"max_draft_len": 9, "eagle_choices": choices}));
    assert_eq!(summary(Trtllm, options.clone()), "eagle3 3 6 tree E_BACKEND");
    let report = report(Trtllm, options);
    assert_eq!(
        report.warnings,
        ["speculative_config.max_draft_len: the levels of speculative_config.eagle_choices, 3, \
          are the depth in its place"]
    );
    let block = report.speculation.unwrap();
    assert_eq!(
        serde_json::to_value(&block.params).unwrap(),
        json!({"tree_shape": [2, 2, 1], "verify_token_budget": 6})
    );
    assert_eq!(block.replay_depth().unwrap_err().code(), "E_TREE");
    let chain = config("Eagle3", json!({"eagle_choices": [[0], [0, 0]]}));
    assert_eq!(summary(Trtllm, chain), "eagle3 2 3 chain E_BACKEND");
    let path = "speculative_config.eagle_choices";
    let hole = config("Eagle3", json!({"eagle_choices": [[0, 0]]}));
    refused(Trtllm, hole, "E_PARAM", path, &["must be the path of each node"]);
    let both = config("Eagle3", json!({"eagle_choices": [[0]], "use_dynamic_tree": true}));
    refused(Trtllm, both, "E_PARAM", path, &["use_dynamic_tree", "either static or dynamic"]);
}

#[test]
fn a_dynamic_tree_has_from_its_depth_to_topk_times_it_tokens() {
    let dynamic = |total: Value| {
        config(
            "Eagle3",
            json!({"max_draft_len": 3, "dynamic_tree_max_topK": 4,
            "max_total_draft_tokens": total}),
        )
    };
    assert_eq!(summary(Trtllm, dynamic(Value::Null)), "eagle3 3 13 tree E_BACKEND");
    assert_eq!(summary(Trtllm, dynamic(json!(8))), "eagle3 3 9 tree E_BACKEND");
    let path = "speculative_config.max_total_draft_tokens";
    for total in [2, 13] {
        let says = [&format!("is {total}"), "from 3 to 12"];
        refused(Trtllm, dynamic(json!(total)), "E_PARAM", path, &says.map(|s| s as &str));
    }
    let open = config("Eagle3", json!({"max_draft_len": 3, "use_dynamic_tree": true}));
    assert_eq!(summary(Trtllm, open), "eagle3 3 ? tree E_BACKEND");
    let mtp = config("MTP", json!({"max_draft_len": 3, "dynamic_tree_max_topK": 2}));
    assert_eq!(summary(Trtllm, mtp), "mtp 3 7 tree E_BACKEND");
    let off = config(
        "Eagle3",
        json!({"max_draft_len": 3, "use_dynamic_tree": false,
        "dynamic_tree_max_topK": 0}),
    );
    assert_eq!(summary(Trtllm, off), "eagle3 3 4 chain E_BACKEND");
}

#[test]
fn a_draft_is_linear_where_it_has_as_many_tokens_as_levels() {
    let total =
        |total: u64| config("Eagle3", json!({"max_draft_len": 3, "max_total_draft_tokens": total}));
    assert_eq!(summary(Trtllm, total(3)), "eagle3 3 4 chain E_BACKEND");
    assert_eq!(summary(Trtllm, total(8)), "eagle3 3 9 tree E_BACKEND");
}

#[test]
fn lengths_by_batch_size_must_not_differ_up_to_the_greatest_batch() {
    let schedule = |schedule: Value, batch: Value| {
        let mut options =
            config("MTP", json!({"max_draft_len": 3, "draft_len_schedule": schedule}));
        options["max_batch_size"] = batch;
        options
    };
    let path = "speculative_config.draft_len_schedule";
    for (lengths, batch) in [
        (json!({"4": 3, "8": 1}), json!(8)),
        (json!({"8": 3}), json!(16)),
        (json!({"8": 3}), Value::Null),
    ] {
        let options = schedule(lengths, batch);
        let says = ["changes with the batch size", "0 above 8", "give one depth"];
        refused(Trtllm, options.clone(), "E_PARAM", path, &says);
        assert!(report(Trtllm, options).dynamic.is_some());
    }
    let constant = schedule(json!({"4": 3, "8": 3}), json!(8));
    assert_eq!(summary(Trtllm, constant), "mtp 3 4 chain E_BACKEND");
    for malformed in [json!({}), json!({"x": 3}), json!({"1": 2.5}), json!([3])] {
        let says = ["must be an object of batch size to draft length"];
        refused(Trtllm, schedule(malformed, Value::Null), "E_PARAM", path, &says);
    }
    // The smallest batch drafts the full length.
    let other = schedule(json!({"4": 2, "8": 2}), json!(8));
    assert_eq!(summary(Trtllm, other), "mtp 3 4 chain E_BACKEND");
}

#[test]
fn a_bound_on_concurrency_turns_drafting_off() {
    let bounded = |bound: u64, batch: Value| {
        let mut options = config("MTP", json!({"max_draft_len": 3, "max_concurrency": bound}));
        options["max_batch_size"] = batch;
        options
    };
    let path = "speculative_config.max_concurrency";
    for batch in [Value::Null, json!(9)] {
        let says = ["above 8 requests", "max_batch_size to 8"];
        refused(Trtllm, bounded(8, batch), "E_PARAM", path, &says);
    }
    assert_eq!(summary(Trtllm, bounded(8, json!(8))), "mtp 3 4 chain E_BACKEND");
    let both = config(
        "MTP",
        json!({"max_draft_len": 3, "max_concurrency": 8,
        "draft_len_schedule": {"8": 3}}),
    );
    let path = "speculative_config.draft_len_schedule";
    refused(Trtllm, both, "E_PARAM", path, &["max_concurrency", "give one"]);
}

#[test]
fn an_unknown_field_is_refused_as_the_engine_refuses_it() {
    let path = "speculative_config.max_draft_length";
    let options = config("MTP", json!({"max_draft_length": 3}));
    refused(Trtllm, options, "E_PARAM", path, &["no field of speculative_config"]);
}

#[test]
fn a_forced_number_of_accepted_tokens_does_not_count_the_targets_own() {
    let forced = |accepted: f64| {
        let mut options = length("MTP");
        options["TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"] = json!(accepted);
        options
    };
    accepts(&report(Trtllm, forced(2.5)), &[1.0, 1.0, 0.5]);
    accepts(&report(Trtllm, forced(3.0)), &[1.0, 1.0, 1.0]);
}

#[test]
fn a_type_without_trees_has_no_fields_of_them() {
    for (decoding_type, field, value) in [
        ("NGram", "dynamic_tree_max_topK", json!(2)),
        ("Draft_Target", "use_dynamic_tree", json!(true)),
        ("MTP", "eagle_choices", json!([[0]])),
    ] {
        let options = config(decoding_type, json!({"max_draft_len": 3, field: value}));
        let path = format!("speculative_config.{field}");
        let says = [decoding_type, "no such field", "leave it out"];
        refused(Trtllm, options, "E_PARAM", &path, &says);
    }
}

#[test]
fn a_draft_that_the_type_does_not_use_is_listed() {
    assert_eq!(
        report(Trtllm, length("NGram")).ignored,
        ["speculative_config.speculative_model: no effect with NGram"]
    );
}
