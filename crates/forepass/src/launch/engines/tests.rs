//! What the options of every engine come to, and what the tests of each engine share.

use serde_json::{Value, json};

use super::*;

/// What options come to: kind, depth, decode width, shape and verdict in one line.
pub(super) fn summary(engine: Backend, options: Value) -> String {
    let report = report(engine, options);
    let number = |number: Option<u32>| number.map_or_else(|| "?".to_owned(), |n| n.to_string());
    format!(
        "{} {} {} {} {}",
        report.kind.as_deref().unwrap_or("-"),
        number(report.depth),
        number(report.decode_width),
        if report.tree == Some(true) { "tree" } else { "chain" },
        report.error.as_ref().map_or("ok", |error| error.code()),
    )
}

pub(super) fn report(engine: Backend, options: Value) -> LaunchReport {
    resolve_engine_options(engine, &EngineOptions::from_value(options).unwrap(), false)
}

/// Code, path and message of a refusal.
pub(super) fn refusal(engine: Backend, options: Value) -> (&'static str, String, String) {
    let error = report(engine, options).error.expect("refused");
    (error.code(), error.path(), error.message())
}

/// Asserts the code and the path of a refusal, and what its message must say.
#[track_caller]
pub(super) fn refused(engine: Backend, options: Value, code: &str, path: &str, says: &[&str]) {
    let (found, at, message) = refusal(engine, options);
    assert_eq!((found, at.as_str()), (code, path), "{message}");
    for part in says {
        assert!(message.contains(part), "{part:?} in {message:?}");
    }
}

/// Asserts the rates to within rounding.
#[track_caller]
pub(super) fn accepts(report: &LaunchReport, expected: &[f64]) {
    let rates = report.acceptance_rates.as_ref().expect("rates").rates();
    assert_eq!(rates.len(), expected.len());
    for (rate, expected) in rates.iter().zip(expected) {
        assert!((rate - expected).abs() < 1e-12, "{rates:?}");
    }
}

const CONFIG: &str = r#"{"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 3}"#;

#[test]
fn every_spelling_of_the_same_options_means_the_same() {
    let object: Value = serde_json::from_str(CONFIG).unwrap();
    for options in [
        json!(["--speculative-config", CONFIG]),
        json!([format!("--speculative-config={CONFIG}")]),
        json!(["--speculative_config", CONFIG]),
        json!(["-sc", CONFIG]),
        json!([
            "--speculative-config.method",
            "eagle3",
            "--speculative-config.model=org/draft",
            "-sc.num_speculative_tokens",
            "3",
        ]),
        json!([
            "--speculative-config.num-speculative-tokens",
            "3",
            "-sc.method",
            "eagle3",
            "--spec-model",
            "org/draft"
        ]),
        json!(["--spec-method", "eagle3", "--spec-model", "org/draft", "--spec-tokens", "3"]),
        json!(format!("--speculative-config '{CONFIG}'")),
        json!({"speculative_config": object.clone()}),
        json!({"speculative-config": CONFIG}),
        json!({"--speculative-config": object.clone()}),
        json!({"speculative_config": {"method": "eagle3", "model": "org/draft",
            "num-speculative-tokens": 3}}),
        json!({"config": {"speculative-config": object}}),
    ] {
        assert_eq!(summary(Backend::Vllm, options.clone()), "eagle3 3 4 chain ok", "{options}");
        assert_eq!(report(Backend::Vllm, options.clone()).warnings, [""; 0], "{options}");
    }
}

#[test]
fn flags_with_dashes_underscores_and_keys_mean_the_same() {
    for options in [
        json!([
            "--speculative-algorithm",
            "NEXTN",
            "--speculative-num-steps",
            "3",
            "--speculative-eagle-topk",
            "1"
        ]),
        json!([
            "--speculative-algorithm=NEXTN",
            "--speculative-num-steps=3",
            "--speculative-eagle-topk=1"
        ]),
        json!({"speculative_algorithm": "NEXTN", "speculative_num_steps": 3,
            "speculative_eagle_topk": 1}),
        json!({"speculative_config": {"speculative_algorithm": "NEXTN",
            "speculative-num-steps": 3, "speculative-eagle-topk": 1}}),
        json!("--speculative-algorithm NEXTN --speculative_num_steps 3 --speculative-eagle-topk 1"),
    ] {
        assert_eq!(summary(Backend::Sglang, options.clone()), "mtp 3 4 chain ok", "{options}");
        assert_eq!(report(Backend::Sglang, options.clone()).warnings, [""; 0], "{options}");
    }
}

#[test]
fn whole_command_lines_of_the_engines_give_no_warning() {
    for (engine, command, expected) in [
        (
            Backend::Vllm,
            "CUDA_VISIBLE_DEVICES=0,1 vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size 8 \
             --enable-expert-parallel --trust-remote-code --max-model-len 32768 -O3 -dp 2 \
             --gpu-memory-utilization 0.92 --no-enable-prefix-caching --served-model-name a b \
             --host 0.0.0.0 --port 8000 --compilation-config.mode 3 --seed -1 \
             --speculative-config '{\"method\": \"deepseek_mtp\", \"num_speculative_tokens\": 2}'",
            "mtp 2 3 chain ok",
        ),
        (
            Backend::Vllm,
            "python3 -m vllm.entrypoints.openai.api_server --model a/b -tp 4 --dtype bfloat16",
            "none 0 1 chain ok",
        ),
        (
            Backend::Vllm,
            "docker run --gpus all -p 8000:8000 vllm/vllm-openai:latest --model a/b \
             --max-num-seqs 64 --spec-method ngram --spec-tokens 4",
            "ngram 4 5 chain ok",
        ),
        (
            Backend::Sglang,
            "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --tp 2 \
             --mem-fraction-static 0.8 --cuda-graph-bs 1 2 4 8 --enable-metrics --host 0.0.0.0 \
             --speculative-algorithm EAGLE3 --speculative-draft-model-path org/eagle3 \
             --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
            "eagle3 3 4 chain ok",
        ),
        (
            Backend::Sglang,
            "sglang serve --model-path a/b --attention-backend fa3 --disable-radix-cache",
            "none 0 1 chain ok",
        ),
        (
            Backend::Trtllm,
            "mpirun -n 8 --allow-run-as-root trtllm-llmapi-launch trtllm-serve a/b --tp_size 8 \
             --ep_size 8 --max_batch_size 128 --max_num_tokens 8192 --backend pytorch \
             --kv_cache_free_gpu_memory_fraction 0.85 --trust_remote_code",
            "none 0 1 chain ok",
        ),
        (
            Backend::Trtllm,
            "/usr/bin/trtllm-serve serve a/b --host 0.0.0.0 --port 8000",
            "none 0 1 chain ok",
        ),
    ] {
        let report = report(engine, json!(command));
        assert_eq!(report.warnings, [""; 0], "{command}");
        assert_eq!(summary(engine, json!(command)), expected, "{command}");
    }
}

#[test]
fn known_options_without_effect_are_listed_once_each() {
    let options = json!(["vllm", "serve", "a/b", "--port", "1", "--enforce-eager", "-tp", "4"]);
    let names = ["a/b", "--port", "--enforce-eager", "-tp"];
    let ignored = names.map(|name| format!("{name}: does not concern speculation"));
    assert_eq!(report(Backend::Vllm, options).ignored, ignored);
    let options = json!({"speculative_config":
        {"method": "ngram", "num_speculative_tokens": 1, "quantization": "fp8"}});
    assert_eq!(
        report(Backend::Vllm, options).ignored,
        ["speculative_config.quantization: changes neither depth nor acceptance"]
    );
}

#[test]
fn an_unknown_option_is_a_warning_and_an_error_where_asked_for() {
    for engine in Backend::ALL {
        let options = EngineOptions::from_value(json!(["--no-such", "3", "--port=1"])).unwrap();
        let lenient = resolve_engine_options(engine, &options, false);
        let said = format!("--no-such: no option of {engine} that is known here");
        assert_eq!(lenient.warnings, [said]);
        assert!(lenient.is_ok());
        let error = resolve_engine_options(engine, &options, true).error.unwrap();
        assert_eq!((error.code(), error.path()), ("E_PARAM", "--no-such".to_owned()));
        assert!(error.to_string().contains("correct it or leave it out"));
    }
}

#[test]
fn a_second_argument_that_is_no_flag_is_not_known() {
    let options = json!(["vllm", "serve", "a/b", "--enforce-eager", "true"]);
    assert_eq!(
        report(Backend::Vllm, options).warnings,
        ["true: no option of vllm that is known here"]
    );
}

#[test]
fn the_command_of_another_engine_is_refused() {
    let command = json!("python -m sglang.launch_server --model a/b");
    refused(Backend::Vllm, command, "E_ENGINE", "", &["starts sglang", "said to be vllm"]);
}

#[test]
fn what_is_no_json_is_shown_with_what_would_be() {
    for (text, says) in [
        (r#"'{"method":"mtp"}'"#, "the outer quotes belong to the shell"),
        ("{method: mtp}", "double quotes"),
        ("{'method': 'mtp'}", "double quotes"),
        (r#"{"method": "mtp", "method": "ngram"}"#, "method"),
    ] {
        let options = json!(["--speculative-config", text]);
        refused(Backend::Vllm, options, "E_PARAM", "--speculative-config", &[text, says]);
    }
    let options = json!(["--speculative-config", "3"]);
    refused(
        Backend::Vllm,
        options,
        "E_PARAM",
        "--speculative-config",
        &["is 3", "must be a JSON object"],
    );
}

#[test]
fn a_flag_of_speculation_without_its_value_is_refused() {
    for options in [json!(["--speculative-num-steps"]), json!("--speculative-num-steps --port 1")] {
        refused(
            Backend::Sglang,
            options,
            "E_PARAM",
            "--speculative-num-steps",
            &["has no value", "write one"],
        );
    }
    refused(Backend::Vllm, json!("-sc"), "E_PARAM", "-sc", &["has no value"]);
}

#[test]
fn options_that_are_neither_list_nor_text_nor_object_are_refused() {
    let error = EngineOptions::from_value(json!(3)).unwrap_err();
    assert!(error.to_string().contains("a list of arguments, a command line or an object"));
    let error = EngineOptions::from_value(json!(["--port", 3])).unwrap_err();
    assert_eq!((error.code(), error.path()), ("E_PARAM", "[1]".to_owned()));
}

#[test]
fn null_and_empty_speculation_is_none() {
    for options in [
        json!({"speculative_config": null}),
        json!({"speculative_config": {}}),
        json!(["--speculative-config", "null"]),
        json!({"speculative_algorithm": null}),
        json!({}),
        json!([]),
        json!(""),
    ] {
        for engine in Backend::ALL {
            assert_eq!(summary(engine, options.clone()), "none 0 1 chain ok", "{options}");
        }
    }
}

#[test]
fn two_spellings_of_the_depth_that_disagree_are_a_conflict_of_both() {
    for (engine, options, path, says) in [
        (
            Backend::Vllm,
            json!({"speculative_config": {"method": "mtp", "num_speculative_tokens": 3,
                "max_draft_len": 2}}),
            "speculative_config.num_speculative_tokens",
            ["is 3", "speculative_config.max_draft_len", "is 2"],
        ),
        (
            Backend::Vllm,
            json!("--spec-method mtp --spec-tokens 3 --num-speculative-tokens 4"),
            "--num-speculative-tokens",
            ["is 4", "--spec-tokens", "is 3"],
        ),
        (
            Backend::Vllm,
            json!("--spec-method mtp --spec-tokens 3 --spec-tokens 4"),
            "--spec-tokens",
            ["is 4", "--spec-tokens", "is 3"],
        ),
        (
            Backend::Sglang,
            json!(
                "--speculative-algorithm NEXTN --speculative-num-steps 3 \
                --speculative-token-num 4"
            ),
            "--speculative-token-num",
            ["is 4", "--speculative-num-steps", "is 3"],
        ),
        (
            Backend::Trtllm,
            json!({"speculative_config": {"decoding_type": "MTP", "max_draft_len": 3,
                "num_nextn_predict_layers": 1}}),
            "speculative_config.num_nextn_predict_layers",
            ["is 1", "speculative_config.max_draft_len", "is 3"],
        ),
        (
            Backend::Trtllm,
            json!({"speculative_config": {"decoding_type": "MTP", "max_draft_len": 3},
                "depth": 2}),
            "speculative_config.max_draft_len",
            ["is 3", "depth", "is 2"],
        ),
    ] {
        refused(engine, options, "E_DEPTH_CONFLICT", path, &says);
    }
}

#[test]
fn spellings_of_the_depth_that_agree_are_one() {
    let options = json!({"speculative_config": {"decoding_type": "MTP", "max_draft_len": 3,
        "num_nextn_predict_layers": 3, "num_speculative_tokens": 3}});
    assert_eq!(summary(Backend::Trtllm, options.clone()), "mtp 3 4 chain E_BACKEND");
    assert_eq!(report(Backend::Trtllm, options).warnings, [""; 0]);
}

#[test]
fn each_spelling_of_the_depth_is_read_and_a_foreign_one_warned_of() {
    for spelling in [
        "num_speculative_tokens",
        "speculative-num-steps",
        "speculative-token-num",
        "max_draft_len",
        "num_nextn_predict_layers",
        "num_draft_tokens",
        "depth",
    ] {
        let method = json!({"speculative_config": {"method": "mtp"}, spelling: 3});
        assert_eq!(summary(Backend::Vllm, method.clone()), "mtp 3 4 chain ok", "{spelling}");
        let foreign = spelling != "num_speculative_tokens";
        let warnings = report(Backend::Vllm, method).warnings;
        assert_eq!(warnings.iter().any(|w| w.contains("does not spell")), foreign, "{spelling}");

        let config = json!({"speculative_config": {"decoding_type": "MTP", spelling: 3}});
        assert_eq!(summary(Backend::Trtllm, config), "mtp 3 4 chain E_BACKEND", "{spelling}");

        let flags = json!([
            "--speculative-algorithm",
            "NEXTN",
            "--speculative-eagle-topk",
            "1",
            format!("--{spelling}"),
            "3"
        ]);
        assert_eq!(summary(Backend::Sglang, flags), "mtp 3 4 chain ok", "{spelling}");
    }
}

#[test]
fn a_depth_that_is_no_whole_number_is_shown_and_refused() {
    for depth in [json!(1.9), json!(3.0), json!(true), json!("3"), json!(-1), json!([3])] {
        refused(
            Backend::Vllm,
            json!({"speculative_config": {"method": "mtp", "num_speculative_tokens": depth}}),
            "E_PARAM",
            "speculative_config.num_speculative_tokens",
            &["must be a whole number", &depth.to_string().replace('"', "")],
        );
    }
    for depth in ["1.9", "3.0", "true", "-1", "+3", "three", "4294967296", ""] {
        let flag = format!("--speculative-num-steps={depth}");
        let options = json!(["--speculative-algorithm", "NEXTN", flag]);
        let source = "--speculative-num-steps";
        refused(Backend::Sglang, options, "E_PARAM", source, &["must be a whole number", depth]);
    }
}

#[test]
fn a_depth_beyond_what_can_be_replayed_is_refused_with_both_numbers() {
    for depth in [6, 1_000_000_000] {
        refused(
            Backend::Vllm,
            json!({"speculative_config": {"method": "mtp", "num_speculative_tokens": depth}}),
            "E_RANGE",
            "speculative_config.num_speculative_tokens",
            &[&format!("depth {depth}"), "1 to 5"],
        );
    }
    let command = "--speculative-algorithm NEXTN --speculative-num-steps 7 \
        --speculative-eagle-topk 1";
    refused(
        Backend::Sglang,
        json!(command),
        "E_RANGE",
        "--speculative-num-steps",
        &["depth 7", "decode width 8", "1 to 5"],
    );
    refused(
        Backend::Vllm,
        json!("--spec-method mtp --spec-tokens 0"),
        "E_RANGE",
        "--spec-tokens",
        &["depth 0", "1 to 5"],
    );
}

#[test]
fn a_file_of_options_is_said_not_to_be_read_and_its_content_is_taken_in_its_place() {
    let named = report(Backend::Trtllm, json!("trtllm-serve a/b --extra_llm_api_options x.yml"));
    assert_eq!(
        named.warnings,
        ["--extra_llm_api_options: the file is not read here: give its content as an object in \
          place of its name"]
    );
    let content = json!({"extra_llm_api_options":
        {"speculative_config": {"decoding_type": "MTP", "max_draft_len": 2}}});
    assert_eq!(summary(Backend::Trtllm, content), "mtp 2 3 chain E_BACKEND");
}

#[test]
fn a_field_of_speculation_outside_of_its_object_is_refused() {
    for (engine, options, path) in [
        (Backend::Vllm, json!({"method": "mtp"}), "method"),
        (Backend::Trtllm, json!({"decoding_type": "MTP"}), "decoding_type"),
    ] {
        refused(engine, options, "E_PARAM", path, &["belongs within speculative_config"]);
    }
}

#[test]
fn the_numbers_say_which_option_gave_them() {
    let report = report(
        Backend::Sglang,
        json!(
            "--speculative-algorithm eagle3 --speculative-draft-model org/d \
            --speculative-num-steps 3 --speculative-eagle-topk 1"
        ),
    );
    let provenance: Vec<_> =
        report.provenance.iter().map(|(name, from)| (name.as_str(), from.as_str())).collect();
    assert_eq!(
        provenance,
        [
            ("backend", "sglang"),
            ("decode_width", "--speculative-num-steps + 1"),
            ("depth", "--speculative-num-steps"),
            ("draft_model_path", "--speculative-draft-model"),
            ("kind", "--speculative-algorithm eagle3"),
        ]
    );
    let block = report.speculation.unwrap();
    assert_eq!(
        serde_json::to_value(&block).unwrap(),
        json!({"kind": "eagle3", "params": {"num_speculative_tokens": 3},
            "draft_model_path": "org/d"})
    );
    assert_eq!(block.replay_depth(), Ok(3));
}

#[test]
fn the_document_holds_the_block_and_no_launch() {
    let report = report(Backend::Vllm, json!("--spec-method mtp --spec-tokens 2"));
    let document: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(
        document,
        json!({
            "schema": "forepass.launch.v1", "ok": true, "kind": "mtp", "depth": 2,
            "decode_width": 3, "tree": false, "dynamic": null, "aic_nextn": 2,
            "acceptance_rates": null,
            "speculation": {"kind": "mtp", "params": {"num_speculative_tokens": 2}},
            "capacity": null,
            "provenance": {"backend": "vllm", "kind": "--spec-method mtp",
                "depth": "--spec-tokens", "decode_width": "--spec-tokens + 1"},
            "ignored": [], "warnings": [], "error": null, "launch": null,
        })
    );
}
