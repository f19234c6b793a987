//! SGLang's algorithms and flags, each with what it must come to.

use serde_json::{Value, json};

use crate::launch::engines::tests::{accepts, refused, report, summary};
use crate::speculation::Backend::Sglang;

/// The options of an algorithm and more flags, their names without the common beginning.
fn flags(algorithm: &str, flags: &str) -> Value {
    let flags = flags.replace("--", "--speculative-");
    json!(format!("--speculative-algorithm {algorithm} {flags}"))
}

const CHAIN: &str = "--num-steps 3 --eagle-topk 1 --num-draft-tokens 4";
const DRAFT: &str = "--draft-model-path org/draft";

fn drafted(algorithm: &str, rest: &str) -> Value {
    flags(algorithm, &format!("{DRAFT} {rest}"))
}

#[test]
fn each_algorithm_has_its_kind_and_verdict() {
    for (options, expected) in [
        (flags("NEXTN", CHAIN), "mtp 3 4 chain ok"),
        (flags("EAGLE", CHAIN), "mtp 3 4 chain ok"),
        (drafted("EAGLE3", CHAIN), "eagle3 3 4 chain ok"),
        (drafted("DSPARK", "--dspark-block-size 3"), "dspark 3 4 chain ok"),
        (drafted("EAGLE", CHAIN), "- 3 4 chain E_KIND"),
        (drafted("STANDALONE", CHAIN), "draft_model 3 4 chain E_BACKEND"),
        (
            flags("NGRAM", "--ngram-max-bfs-breadth 1 --num-draft-tokens 4"),
            "ngram 3 4 chain E_BACKEND",
        ),
        (drafted("DFLASH", "--dflash-block-size 4"), "dflash 3 4 chain E_BACKEND"),
        (drafted("UNO", CHAIN), "- 3 4 chain E_KIND"),
        (drafted("my_plugin", CHAIN), "- 3 4 chain E_KIND"),
    ] {
        assert_eq!(summary(Sglang, options.clone()), expected, "{options}");
    }
}

#[test]
fn algorithms_are_written_in_any_case() {
    for name in ["nextn", "NextN", "eagle"] {
        assert_eq!(summary(Sglang, flags(name, CHAIN)), "mtp 3 4 chain ok", "{name}");
    }
}

#[test]
fn eagle_with_the_target_as_its_draft_is_mtp() {
    let options = json!(
        "python -m sglang.launch_server --model-path a/b \
        --speculative-algorithm EAGLE --speculative-draft-model-path a/b \
        --speculative-num-steps 2 --speculative-eagle-topk 1"
    );
    assert_eq!(summary(Sglang, options.clone()), "mtp 2 3 chain ok");
    assert!(report(Sglang, options).warnings[0].contains("MTP layers"));
}

#[test]
fn eagle_with_a_draft_of_its_own_is_told_which_algorithm_may_be_meant() {
    refused(
        Sglang,
        flags("EAGLE", &format!("--draft-model-path org/kimi-eagle3 {CHAIN}")),
        "E_KIND",
        "--speculative-algorithm",
        &["org/kimi-eagle3", "depth 3", "EAGLE3", "NEXTN"],
    );
}

#[test]
fn an_algorithm_with_a_draft_needs_its_checkpoint() {
    for (algorithm, rest) in
        [("EAGLE3", CHAIN), ("STANDALONE", CHAIN), ("DFLASH", "--dflash-block-size 4")]
    {
        let path = "speculative_draft_model_path";
        let says = [algorithm, "needs the draft's checkpoint"];
        refused(Sglang, flags(algorithm, rest), "E_PARAM", path, &says);
    }
}

#[test]
fn nextn_with_a_draft_is_mtp_and_warned_of() {
    let options = drafted("NEXTN", CHAIN);
    assert_eq!(summary(Sglang, options.clone()), "mtp 3 4 chain ok");
    let report = report(Sglang, options);
    assert!(report.warnings[0].contains("layers of the target model"));
    assert_eq!(report.speculation.unwrap().draft_model_path, None);
}

#[test]
fn a_chain_verifies_its_steps_and_one_more_whatever_is_asked() {
    for tokens in [3, 5, 64] {
        let options =
            flags("NEXTN", &format!("--num-steps 3 --eagle-topk 1 --num-draft-tokens {tokens}"));
        assert_eq!(summary(Sglang, options.clone()), "mtp 3 4 chain ok", "{tokens}");
        assert_eq!(
            report(Sglang, options).warnings,
            [format!(
                "--speculative-num-draft-tokens: is {tokens}, and SGLang sets it to \
                 --speculative-num-steps + 1 for a chain: 4"
            )]
        );
    }
    let options = flags("NEXTN", "--num-steps 1 --eagle-topk 1 --num-draft-tokens 4");
    assert_eq!(summary(Sglang, options), "mtp 1 2 chain ok");
    assert_eq!(report(Sglang, flags("NEXTN", CHAIN)).warnings, [""; 0]);
}

#[test]
fn more_than_one_branch_is_a_tree_of_steps_levels() {
    let tree = "--num-steps 3 --eagle-topk 2 --num-draft-tokens 8";
    assert_eq!(summary(Sglang, drafted("EAGLE3", tree)), "eagle3 3 8 tree E_TREE");
    assert_eq!(summary(Sglang, flags("NEXTN", tree)), "mtp 3 8 tree E_TREE");
    assert_eq!(summary(Sglang, drafted("STANDALONE", tree)), "draft_model 3 8 tree E_BACKEND");
    let says = ["depth 3", "width 8"];
    let path = "--speculative-num-draft-tokens";
    refused(Sglang, drafted("EAGLE3", tree), "E_TREE", path, &says);
    refused(Sglang, flags("NEXTN", tree), "E_TREE", "--speculative-eagle-topk", &says);
    // 2 candidates, then 4 a step; all of them and the root where the engine is told no number.
    let block = report(Sglang, drafted("EAGLE3", tree)).speculation.unwrap();
    assert_eq!(
        serde_json::to_value(block.params).unwrap(),
        json!({"tree_shape": [2, 4, 4], "verify_token_budget": 8})
    );
    let open = drafted("EAGLE3", "--num-steps 3 --eagle-topk 2");
    assert_eq!(summary(Sglang, open.clone()), "eagle3 3 11 tree E_TREE");
    refused(Sglang, open, "E_TREE", "--speculative-eagle-topk", &["depth 3", "width 11"]);
}

#[test]
fn a_tree_has_no_more_tokens_than_candidates() {
    // 2 + 2 x 4 = 10 candidates, and the root: 11 tokens at most.
    let tree = |tokens: u64| {
        let rest = format!("--num-steps 3 --eagle-topk 2 --num-draft-tokens {tokens}");
        drafted("EAGLE3", &rest)
    };
    assert_eq!(summary(Sglang, tree(11)), "eagle3 3 11 tree E_TREE");
    let path = "--speculative-num-draft-tokens";
    refused(Sglang, tree(12), "E_PARAM", path, &["is 12", "10 candidates", "at most 11"]);
}

#[test]
fn the_deepest_trees_are_refused_too() {
    for steps in [1024, 1025, 4_294_967_295_u64] {
        let options = drafted("EAGLE3", &format!("--num-steps {steps} --eagle-topk 4294967295"));
        assert!(report(Sglang, options).error.is_some());
    }
}

#[test]
fn all_three_numbers_absent_are_the_engines_choice() {
    for algorithm in ["NEXTN", "EAGLE", "EAGLE3"] {
        let options =
            if algorithm == "EAGLE3" { drafted(algorithm, "") } else { flags(algorithm, "") };
        let report = report(Sglang, options.clone());
        // The scheme's own default is not the engine's.
        assert_eq!(report.speculation, None);
        for number in ["depth", "decode_width"] {
            assert_eq!(report.provenance[number], "engine default (needs the architecture)");
        }
        let says = ["steps 5, topk 4, draft tokens 8 for Llama", "else 3, 1, 4", "set"];
        refused(Sglang, options, "E_PARAM", "speculative_num_steps", &says);
    }
    // A draft model is a chain of 3 on every architecture.
    let standalone = report(Sglang, drafted("STANDALONE", ""));
    assert_eq!((standalone.depth, standalone.decode_width), (Some(3), Some(4)));
    assert_eq!(standalone.provenance["depth"], "engine default");
    assert_eq!(standalone.error.unwrap().code(), "E_BACKEND");
}

#[test]
fn some_of_the_three_numbers_are_not_enough() {
    for (rest, path, says) in [
        ("--eagle-topk 1", "--speculative-eagle-topk", "all three or none"),
        ("--num-draft-tokens 4", "--speculative-num-draft-tokens", "all three or none"),
        ("--num-steps 3", "speculative_eagle_topk", "set it to 1 for a chain"),
    ] {
        refused(Sglang, flags("NEXTN", rest), "E_PARAM", path, &[says]);
    }
    let none = flags("NEXTN", "--num-steps 3 --eagle-topk 0");
    refused(Sglang, none, "E_PARAM", "--speculative-eagle-topk", &["is 0", "at least 1"]);
}

#[test]
fn adaptive_steps_are_refused() {
    let options = flags("NEXTN", &format!("{CHAIN} --adaptive"));
    let says = ["follows what is accepted", "leave it out"];
    refused(Sglang, options.clone(), "E_PARAM", "--speculative-adaptive", &says);
    assert!(report(Sglang, options).dynamic.is_some());
    let off = json!({"speculative_algorithm": "NEXTN", "speculative_num_steps": 3,
        "speculative_eagle_topk": 1, "speculative_adaptive": false});
    assert_eq!(summary(Sglang, off), "mtp 3 4 chain ok");
}

#[test]
fn looked_up_drafts_are_a_tree_unless_their_breadth_is_one() {
    // 12 tokens in 10 branches: one step.
    assert_eq!(summary(Sglang, flags("NGRAM", "")), "ngram 1 12 tree E_BACKEND");
    let broad = flags("NGRAM", "--ngram-max-bfs-breadth 3 --num-draft-tokens 16");
    assert_eq!(summary(Sglang, broad), "ngram 5 16 tree E_BACKEND");
    // One of the tokens is the root.
    let linear = flags("NGRAM", "--ngram-max-bfs-breadth 1");
    assert_eq!(summary(Sglang, linear), "ngram 11 12 chain E_BACKEND");
    let zero = flags("NGRAM", "--ngram-max-bfs-breadth 0");
    refused(Sglang, zero, "E_PARAM", "--speculative-ngram-max-bfs-breadth", &["is 0"]);
    let warned = report(Sglang, flags("NGRAM", "--num-steps 3")).warnings;
    assert_eq!(warned, ["--speculative-num-steps: NGRAM sets it itself"]);
}

#[test]
fn a_dflash_block_begins_with_the_token_that_is_there() {
    for rest in ["--dflash-block-size 16", "--num-draft-tokens 16"] {
        assert_eq!(summary(Sglang, drafted("DFLASH", rest)), "dflash 15 16 chain E_BACKEND");
    }
    let options = drafted("DFLASH", "--dflash-block-size 16 --num-draft-tokens 8");
    // Not on this backend at all, which comes before two numbers that disagree.
    assert_eq!(summary(Sglang, options), "dflash 15 16 chain E_BACKEND");
    // 1 + 3 x 2.
    let tree = drafted("DFLASH", "--dflash-block-size 4 --dflash-tree-width 2");
    assert_eq!(summary(Sglang, tree), "dflash 3 7 tree E_BACKEND");
    let tiny = drafted("DFLASH", "--dflash-block-size 1");
    refused(Sglang, tiny, "E_PARAM", "--speculative-dflash-block-size", &["is 1", "at least 2"]);
    let path = "speculative_dflash_block_size";
    refused(Sglang, drafted("DFLASH", ""), "E_PARAM", path, &["checkpoint", "16", "set it"]);
}

#[test]
fn a_dspark_block_is_all_new() {
    for (rest, expected) in [
        ("--dspark-block-size 3", "dspark 3 4 chain ok"),
        ("--dspark-block-size 3 --num-draft-tokens 4", "dspark 3 4 chain ok"),
        ("--num-draft-tokens 4", "dspark 3 4 chain ok"),
        ("--dspark-block-size 7", "dspark 7 8 chain E_RANGE"),
        ("--dspark-block-size 3 --num-draft-tokens 3", "dspark 3 4 chain E_DEPTH_CONFLICT"),
        ("--num-draft-tokens 1", "- ? ? chain E_PARAM"),
        ("", "dspark ? ? chain E_PARAM"),
    ] {
        assert_eq!(summary(Sglang, drafted("DSPARK", rest)), expected, "{rest}");
    }
    refused(
        Sglang,
        drafted("DSPARK", "--dspark-block-size 3 --num-draft-tokens 3"),
        "E_DEPTH_CONFLICT",
        "--speculative-num-draft-tokens",
        &["is 3", "--speculative-dspark-block-size is 3", "must be 4"],
    );
    // Nine verified tokens are a depth of eight, and the option that says so is the one to correct.
    let tokens = "--speculative-num-draft-tokens";
    let deep = drafted("DSPARK", "--num-draft-tokens 9");
    refused(Sglang, deep, "E_RANGE", tokens, &["depth 8", "1 to 5"]);
    let path = "speculative_dspark_block_size";
    refused(Sglang, drafted("DSPARK", ""), "E_PARAM", path, &["checkpoint", "7", "set it"]);
}

#[test]
fn steps_are_not_the_depth_of_a_block() {
    for (algorithm, block) in
        [("DFLASH", "--dflash-block-size 4"), ("DSPARK", "--dspark-block-size 3")]
    {
        let report = report(Sglang, drafted(algorithm, &format!("{block} --num-steps 1")));
        assert_eq!(report.depth, Some(3), "{algorithm}");
        assert!(report.warnings[0].starts_with("--speculative-num-steps: 1 for"), "{algorithm}");
    }
}

#[test]
fn parallelism_that_an_algorithm_does_not_run_with_is_refused() {
    let with = |algorithm, rest: &str, more: &str| {
        let Value::String(command) = drafted(algorithm, rest) else { panic!("a command") };
        json!(format!("{command} {more}"))
    };
    let attention = "--enable-dp-attention";
    for (algorithm, rest) in
        [("STANDALONE", CHAIN), ("NGRAM", ""), ("DFLASH", "--dflash-block-size 4")]
    {
        let says = [algorithm, "leave one out"];
        refused(Sglang, with(algorithm, rest, attention), "E_PARAM", attention, &says);
    }
    assert_eq!(summary(Sglang, with("EAGLE3", CHAIN, attention)), "eagle3 3 4 chain ok");
    let stages = with("DSPARK", "--dspark-block-size 3", "--pp-size 2");
    refused(Sglang, stages, "E_PARAM", "--pp-size", &["is 2", "1 pipeline stage"]);
    assert_eq!(summary(Sglang, with("EAGLE3", CHAIN, "--pp-size 2")), "eagle3 3 4 chain ok");
}

#[test]
fn flags_without_an_algorithm_are_warned_of() {
    let options = json!("--speculative-num-steps 3");
    assert_eq!(summary(Sglang, options.clone()), "none 0 1 chain ok");
    assert_eq!(
        report(Sglang, options).warnings,
        ["--speculative-num-steps: no effect without speculative_algorithm"]
    );
}

#[test]
fn a_simulated_length_counts_the_token_of_the_target_too() {
    let simulated = |length: &str| {
        json!(format!(
            "SGLANG_SIMULATE_ACC_LEN={length} python -m sglang.launch_server --model a/b \
             --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1"
        ))
    };
    accepts(&report(Sglang, simulated("2.5")), &[1.0, 0.5, 0.0]);
    accepts(&report(Sglang, simulated("4")), &[1.0, 1.0, 1.0]);
    let said = &report(Sglang, simulated("2.5")).provenance["acceptance_rates"];
    assert_eq!(said, "synthetic: SGLANG_SIMULATE_ACC_LEN");
    assert_eq!(report(Sglang, simulated("0")).acceptance_rates, None);
    // The engine keeps it within 1 and the steps + 1.
    for (length, kept) in [("9", [1.0; 3]), ("0.5", [0.0; 3])] {
        let report = report(Sglang, simulated(length));
        accepts(&report, &kept);
        assert!(report.warnings[0].contains("from 1 to the depth + 1"));
    }
    let mapping = json!({"SGLANG_SIMULATE_ACC_LEN": 2.5, "speculative_algorithm": "NEXTN",
        "speculative_num_steps": 3, "speculative_eagle_topk": 1});
    accepts(&report(Sglang, mapping), &[1.0, 0.5, 0.0]);
    let path = "SGLANG_SIMULATE_ACC_LEN";
    refused(Sglang, simulated("x"), "E_PARAM", path, &["\"x\"", "must be a number"]);
}

#[test]
fn a_depth_that_no_engine_reaches_is_refused_before_its_acceptance_is_written_out() {
    let options = json!({"SGLANG_SIMULATE_ACC_LEN": 2.5, "speculative_algorithm": "NEXTN",
        "speculative_num_steps": u32::MAX, "speculative_eagle_topk": 1});
    let report = report(Sglang, options);
    assert_eq!(report.error.unwrap().code(), "E_RANGE");
    assert_eq!(report.acceptance_rates, None);
}

#[test]
fn flags_of_another_algorithm_are_listed() {
    let options = flags("NEXTN", &format!("{CHAIN} --dspark-block-size 7"));
    assert_eq!(
        report(Sglang, options).ignored,
        ["--speculative-dspark-block-size: no effect with NEXTN"]
    );
}
