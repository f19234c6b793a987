//! Every field has an effect, and every value out of its range is refused where it stands.

use super::*;
use crate::codes::{E_ENGINE, E_LAUNCH_FIELD, E_PERF_CONFIG};

/// Fields that an object of a launch has, as the refusal of another one lists them.
fn fields(parent: &str) -> Vec<String> {
    let mut launch = base();
    launch.pointer_mut(parent).unwrap()["unheard_of"] = json!(0);
    let error = read(&launch).unwrap_err().message();
    let (_, listed) = error.split_once("expected ").unwrap();
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn base() -> Value {
    let mut launch = launch("vllm", "aggregated");
    launch["engine"]["timing_model"]["config"]["nextn"] = json!(2);
    launch["engine"]["sglang"] = json!({});
    launch["engine"]["trtllm"] = json!({});
    launch
}

/// A right value of each field that is not its default, with what else it needs to be right.
fn another(field: &str) -> (Value, Value) {
    let alone = |value| (value, json!({}));
    match field {
        "backend" => {
            (json!("sglang"), json!({"timing_model": {"kind": "polynomial"}, "aic_nextn": 2}))
        }
        "num_gpu_blocks" => alone(json!(7)),
        "block_size" => alone(json!(16)),
        "max_model_len" | "max_num_seqs" | "max_num_batched_tokens" => alone(json!(9)),
        "prefill_schedule_interval" => alone(json!(2)),
        "prefill_decode_interval" => (json!(2), json!({"backend": "sglang"})),
        "enable_prefix_caching" | "enable_chunked_prefill" => alone(json!(false)),
        "speedup_ratio" => alone(json!(2.5)),
        "decode_speedup_ratio" => (json!(2.5), without_depth()),
        "aic_nextn" => (json!(3), json!({"timing_model": {"kind": "polynomial"}})),
        "aic_nextn_accept_rates" => alone(json!("0.5,0.25")),
        "aic_mtp_seed" => alone(json!(11)),
        "aic_verify_width" => alone(json!(3)),
        "worker_type" => (json!("decode"), json!({"timing_model": {"kind": "polynomial"}})),
        "preemption_mode" => alone(json!("fifo")),
        "emit_kv_events" => alone(json!(true)),
        "emit_kv_token_ids" => (json!(true), json!({"emit_kv_events": true})),
        "kv_transfer_bytes_per_token"
        | "kv_bytes_per_token"
        | "kv_cache_bytes_per_token"
        | "kv_cache_capacity_bytes" => alone(json!(1024)),
        "kv_cache_groups" => (json!([{"layers": 1}]), without_depth()),
        "native_host_offload" => (json!({"bytes": 1}), without_depth()),
        "g3_offload" => {
            let mut needs = without_depth();
            needs["native_host_offload"] = json!({});
            (json!({"bytes": 1}), needs)
        }
        "state_cache" => alone(json!({"bytes": 1})),
        "prefix_match_unit" => (json!(16), without_depth()),
        "kv_transfer_bandwidth" => alone(json!(1e9)),
        "kv_transfer_timing_mode" => alone(json!("destination_missing")),
        "timing_model" => alone(json!({"kind": "fixed", "prefill_ms": 3, "decode_ms": 1})),
        "sglang" => alone(json!({"schedule_policy": "lpm"})),
        _ => alone(Value::Null),
    }
}

/// What an engine needs to draft nothing.
fn without_depth() -> Value {
    json!({"timing_model": {"kind": "polynomial"}})
}

#[test]
fn every_field_of_an_engine_changes_what_is_resolved() {
    // Without effect: a block of one policy to choose from.
    for field in fields("/engine").into_iter().filter(|field| field != "trtllm") {
        let (value, needs) = another(&field);
        assert!(!value.is_null(), "{field} has no value in this test");
        let mut plain = base();
        let engine = plain["engine"].as_object_mut().unwrap();
        engine.extend(needs.as_object().unwrap().clone());
        let mut set = plain.clone();
        set["engine"][&field] = value;
        assert_ne!(accepted(&set).to_json(), accepted(&plain).to_json(), "{field}");
    }
}

#[test]
fn every_field_of_a_launch_changes_what_is_resolved() {
    for field in fields("") {
        let value = match field.as_str() {
            "engine" => json!({"block_size": 32}),
            "dp_size" | "tensor_parallel_size" => json!(2),
            "startup_time" => json!(1.5),
            "num_gpu_blocks_is_explicit" => json!(false),
            "cuda_graph_reserved_bytes" => json!(4096),
            fraction => {
                assert!(fraction.contains("memory") || fraction.starts_with("mem"), "{fraction}");
                json!(0.5)
            }
        };
        let mut plain = base();
        plain["engine"]["timing_model"] = json!({"kind": "polynomial"});
        let mut set = plain.clone();
        set[&field] = value;
        assert_ne!(accepted(&set).to_json(), accepted(&plain).to_json(), "{field}");
    }
}

#[test]
fn every_field_of_a_backend_changes_what_is_resolved() {
    let plain = base();
    for field in fields("/engine/sglang") {
        let mut set = plain.clone();
        set["engine"]["sglang"][&field] = match field.as_str() {
            "schedule_policy" => json!("lpm"),
            "schedule_conservativeness" => json!(0.5),
            _ => json!(128),
        };
        assert_ne!(accepted(&set).to_json(), accepted(&plain).to_json(), "{field}");
    }
    assert_eq!(fields("/engine/trtllm"), ["capacity_scheduler_policy"]);
}

#[test]
fn what_is_resolved_can_be_read() {
    let json = json!({
        "engine": {
            "backend": "vllm", "max_num_seqs": 7, "max_num_batched_tokens": null,
            "num_gpu_blocks": 5, "timing_model": {"kind": "polynomial"}
        },
        "startup_time": 2, "gpu_memory_utilization": 0.5, "cuda_graph_reserved_bytes": 3,
        "dp_size": 2, "tensor_parallel_size": 4
    });
    let launch = accepted(&json);
    assert_eq!((launch.tensor_parallel_size(), launch.dp_size()), (4, 2));
    assert_eq!((launch.startup_time_s(), launch.block_size()), (Some(2.0), 64));
    assert_eq!(
        serde_json::to_value(launch.capacity_estimation_options()).unwrap(),
        json!({
            "block_size": 64, "max_num_seqs": 7, "gpu_memory_utilization": 0.5,
            "cuda_graph_reserved_bytes": 3
        })
    );
    assert_eq!((launch.max_num_seqs, launch.max_num_batched_tokens), (Some(7), None));
    assert_eq!(launch.timing_model, TimingModel::Polynomial);
    for (backend, block_size) in [("vllm", 64), ("sglang", 1), ("trtllm", 32)] {
        assert_eq!(accepted(&json!({"engine": {"backend": backend}})).block_size(), block_size);
    }
    let defaults = accepted(&json!({}));
    assert_eq!((defaults.depth(), defaults.decode_width()), (0, 1));
    assert_eq!(defaults.capacity(), Capacity::new(16384, false));
    assert_eq!((defaults.max_num_seqs, defaults.max_num_batched_tokens), (Some(256), Some(8192)));
}

#[test]
fn the_spelling_of_speculation_survives() {
    for speculation in [
        json!({"kind": "mtp", "params": {"num_speculative_tokens": 3}}),
        json!({"kind": "mtp", "params": {"depth": 3}}),
        json!({"kind": "mtp", "params": {"depth": 3, "num_speculative_tokens": 3}}),
        json!({
            "kind": "eagle3", "params": {"tree_shape": [1, 1, 1]}, "draft_config": {"a": [null]}
        }),
    ] {
        let launch = accepted(&speculating("vllm", "decode", &speculation, "1,1,1"));
        let written = serde_json::to_value(&launch).unwrap();
        let config = &written["engine"]["timing_model"]["config"];
        assert_eq!(config["speculation"], speculation);
        assert_eq!(config["nextn"], 0, "the depth is not copied into the older spelling");
        assert_eq!(launch.performance_config().unwrap().nextn, 0);
    }
}

/// Where, what, which code, and a part of what would be right.
#[test]
fn a_value_out_of_its_range_is_refused_where_it_stands() {
    for (pointer, value, expected, right) in [
        ("/engine/backend", json!("vLLM"), E_ENGINE, "vllm"),
        ("/engine/num_gpu_blocks", json!(0), E_ENGINE, "positive"),
        ("/engine/num_gpu_blocks", Value::Null, E_ENGINE, "integer"),
        ("/engine/num_gpu_blocks", json!(2.0), E_ENGINE, "integer"),
        ("/engine/block_size", json!(1), E_ENGINE, "at least 2"),
        ("/engine/max_model_len", json!(0), E_ENGINE, "positive"),
        ("/engine/max_num_seqs", json!(0), E_ENGINE, "positive"),
        ("/engine/max_num_batched_tokens", json!(-1), E_ENGINE, "integer"),
        ("/engine/prefill_schedule_interval", json!(0), E_ENGINE, "positive"),
        ("/engine/prefill_decode_interval", json!(3), E_ENGINE, "only sglang"),
        ("/engine/enable_prefix_caching", json!(1), E_ENGINE, "boolean"),
        ("/engine/speedup_ratio", json!(-1), E_ENGINE, "at least 0"),
        ("/engine/speedup_ratio", json!("NaN"), E_ENGINE, "f64"),
        ("/engine/aic_nextn", json!(0), E_ENGINE, "1 to 5"),
        ("/engine/aic_nextn", json!(6), E_ENGINE, "1 to 5"),
        ("/engine/aic_nextn", json!(true), E_ENGINE, "integer"),
        ("/engine/aic_nextn", json!("3"), E_ENGINE, "integer"),
        ("/engine/aic_nextn_accept_rates", json!([0.5]), E_ENGINE, "string"),
        ("/engine/aic_mtp_seed", json!(-1), E_ENGINE, "integer"),
        ("/engine/aic_verify_width", json!(4), "E_TREE", "3"),
        ("/engine/worker_type", json!("both"), E_ENGINE, "decode"),
        ("/engine/preemption_mode", json!("LIFO"), E_ENGINE, "fifo"),
        ("/engine/emit_kv_token_ids", json!(true), E_ENGINE, "emit_kv_events"),
        ("/engine/kv_cache_bytes_per_token", json!(0.5), E_ENGINE, "integer"),
        ("/engine/kv_cache_groups", json!({}), E_ENGINE, "list"),
        ("/engine/native_host_offload", json!(3), E_ENGINE, "object"),
        ("/engine/g3_offload", json!({}), E_ENGINE, "native_host_offload"),
        ("/engine/kv_transfer_bandwidth", json!(-0.5), E_ENGINE, "at least 0"),
        ("/engine/kv_transfer_timing_mode", json!("none"), E_ENGINE, "full_prompt"),
        ("/engine/sglang/schedule_policy", json!("fcfs"), E_ENGINE, "fifo"),
        ("/engine/sglang/max_prefill_tokens", json!(0), E_ENGINE, "positive"),
        ("/engine/sglang/chunked_prefill_size", json!(0), E_ENGINE, "positive"),
        ("/engine/sglang/clip_max_new_tokens", json!(0), E_ENGINE, "positive"),
        ("/engine/sglang/schedule_conservativeness", json!(-1), E_ENGINE, "at least 0"),
        ("/engine/sglang/page_size", json!(1), E_ENGINE, "schedule_policy"),
        ("/engine/trtllm/capacity_scheduler_policy", json!("max"), E_ENGINE, "guaranteed_no_evict"),
        ("/engine/timing_model/kind", json!("magic"), E_ENGINE, "polynomial"),
        ("/engine/timing_model/provider", json!(" "), E_ENGINE, "blank"),
        ("/engine/timing_model/prefill_ms", json!(1), E_ENGINE, "provider"),
        ("/engine/timing_model/config/modle", json!("m"), E_PERF_CONFIG, "model"),
        ("/engine/timing_model/config/tp", json!("4"), E_PERF_CONFIG, "integer"),
        (
            "/engine/timing_model/config/estimator_config/correction/min_observations",
            json!(0),
            E_PERF_CONFIG,
            "max_observations",
        ),
        ("/dp_size", json!(0), E_LAUNCH_FIELD, "positive"),
        ("/dp_size", Value::Null, E_LAUNCH_FIELD, "integer"),
        ("/tensor_parallel_size", json!(0), E_LAUNCH_FIELD, "4294967295"),
        ("/tensor_parallel_size", json!(1_u64 << 32), E_LAUNCH_FIELD, "4294967295"),
        ("/startup_time", json!(-1), E_LAUNCH_FIELD, "at least 0"),
        ("/num_gpu_blocks_is_explicit", json!("yes"), E_LAUNCH_FIELD, "boolean"),
        ("/gpu_memory_utilization", json!(1.1), E_LAUNCH_FIELD, "0 to 1"),
        ("/mem_fraction_static", json!(-0.1), E_LAUNCH_FIELD, "0 to 1"),
        ("/free_gpu_memory_fraction", json!("0.9"), E_LAUNCH_FIELD, "f64"),
        ("/cuda_graph_reserved_bytes", json!(-1), E_LAUNCH_FIELD, "integer"),
        ("/engin", json!({}), E_LAUNCH_FIELD, "engine"),
        ("/engine/num_gpu_block", json!(3), E_ENGINE, "num_gpu_blocks"),
    ] {
        let mut launch = base();
        if pointer.contains("correction") {
            launch["engine"]["timing_model"]["config"]["estimator_config"] =
                json!({"correction": {}});
        }
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        launch.pointer_mut(parent).unwrap()[key] = value.clone();
        let error = read(&launch).expect_err(pointer);
        let path = pointer[1..].replace('/', ".");
        assert_eq!((error.code(), error.path()), (expected, path), "{error}");
        assert!(error.message().contains(right), "{error} does not say {right}");
    }
}

#[test]
fn options_of_one_backend_are_refused_on_another() {
    let polynomial = |backend: &str| json!({"engine": {"backend": backend}});
    for (backend, field, value) in [
        ("sglang", "prefill_schedule_interval", json!(2)),
        ("trtllm", "prefill_schedule_interval", json!(2)),
        ("trtllm", "prefill_decode_interval", json!(2)),
        ("sglang", "enable_chunked_prefill", json!(false)),
        ("sglang", "state_cache", json!({})),
        ("trtllm", "prefix_match_unit", json!(2)),
        ("trtllm", "block_size", json!(1)),
        // 8192 is no multiple of 3.
        ("sglang", "block_size", json!(3)),
    ] {
        let mut launch = polynomial(backend);
        accepted(&launch);
        launch["engine"][field] = value;
        assert_eq!(refusal(&launch), (E_ENGINE, format!("engine.{field}")), "{backend}");
    }
    let mut chunks = polynomial("sglang");
    chunks["engine"]["block_size"] = json!(3);
    chunks["engine"]["sglang"] = json!({"chunked_prefill_size": 9});
    accepted(&chunks);
    chunks["engine"]["sglang"]["chunked_prefill_size"] = json!(10);
    let path = "engine.sglang.chunked_prefill_size".to_owned();
    assert_eq!(refusal(&chunks), (E_ENGINE, path));
    let decode = json!({"engine": {"worker_type": "decode", "state_cache": {}}});
    assert_eq!(refusal(&decode).1, "engine.state_cache");
    let offload = json!({"engine": {"native_host_offload": {}, "state_cache": {}}});
    assert_eq!(refusal(&offload).1, "engine.state_cache");
    let seed = json!({"engine": {"aic_mtp_seed": 7}});
    assert_eq!(refusal(&seed), (E_ENGINE, "engine.aic_mtp_seed".to_owned()));
    let width = json!({"engine": {"aic_verify_width": 2}});
    assert_eq!(refusal(&width), (E_ENGINE, "engine.aic_verify_width".to_owned()));
}

#[test]
fn timing_is_read_with_all_that_its_type_needs_and_nothing_else() {
    let refused = |timing: Value| refusal(&json!({"engine": {"timing_model": timing}}));
    for (timing, path) in [
        (json!({}), "kind"),
        (json!({"kind": "polynomial", "type": "polynomial"}), "kind"),
        (json!({"kind": "fixed", "decode_ms": 1}), "prefill_ms"),
        (json!({"kind": "fixed", "prefill_ms": 1}), "decode_ms"),
        (json!({"kind": "fixed", "prefill_ms": 1, "decode_ms": -1}), "decode_ms"),
        (json!({"kind": "external", "config": {}}), "provider"),
        (json!({"kind": "external", "provider": "x"}), "config"),
        (json!({"kind": "polynomial", "config": {}}), "config"),
    ] {
        let expected = (E_ENGINE, format!("engine.timing_model.{path}"));
        assert_eq!(refused(timing.clone()), expected, "{timing}");
    }
    let other = json!({"engine": {"timing_model": {"type": "polynomial"}}});
    assert_eq!(accepted(&other).to_json(), accepted(&json!({})).to_json());
    let incomplete = json!({"kind": "external", "provider": "aic", "config": {}});
    let path = "engine.timing_model.config.model".to_owned();
    assert_eq!(refused(incomplete), (E_PERF_CONFIG, path));
}

#[test]
fn a_report_tells_where_numbers_come_from_and_what_is_without_effect() {
    let mut launch = of_depth_3("sglang", "decode")[1].clone();
    launch["mem_fraction_static"] = json!(0.8);
    launch["gpu_memory_utilization"] = json!(0.8);
    launch["engine"]["trtllm"] = json!({});
    let report = resolve_launch(&launch.to_string());
    let document: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(document["schema"], "forepass.launch.v1");
    let spec = "engine.timing_model.config.speculation";
    for (field, expected) in [
        ("ok", json!(true)),
        ("kind", json!("eagle3")),
        ("depth", json!(3)),
        ("decode_width", json!(4)),
        ("tree", json!(false)),
        ("aic_nextn", json!(3)),
        ("acceptance_rates", json!([0.8, 0.7, 0.6])),
        ("capacity", json!({"num_gpu_blocks": 4096, "explicit": true})),
        (
            "provenance",
            json!({
                "form": "canonical", "kind": format!("{spec}.kind"),
                "depth": format!("{spec}.params.tree_shape"),
                "decode_width": format!("{spec}.params.tree_shape"),
                "acceptance_rates": "engine.aic_nextn_accept_rates",
                "num_gpu_blocks": "engine.num_gpu_blocks",
                "tensor_parallel_size": "engine.timing_model.config.tp",
                "dp_size": "engine.timing_model.config.attention_dp"
            }),
        ),
        (
            "ignored",
            json!([
                "gpu_memory_utilization: only for vllm",
                "mem_fraction_static: the capacity is explicit",
                "engine.trtllm: only for trtllm"
            ]),
        ),
        ("warnings", json!([])),
        ("error", Value::Null),
    ] {
        assert_eq!(document[field], expected, "{field}");
    }
    let again = resolve_launch(&document["launch"].to_string());
    assert_eq!(again.launch.unwrap().to_json(), report.launch.unwrap().to_json());
}

#[test]
fn a_report_of_a_refusal_names_the_depth_it_found() {
    let tree = json!({"kind": "eagle3", "params": {"tree_shape": [1, 4, 4]}, "draft_config": {}});
    let deep = json!({"kind": "mtp", "params": {"depth": 7}});
    for (speculation, code, depth, width) in [(tree, "E_TREE", 3, 10), (deep, "E_RANGE", 7, 8)] {
        let launch = speculating("vllm", "decode", &speculation, "");
        let report = resolve_launch(&launch.to_string());
        assert!(!report.is_ok());
        assert_eq!((report.depth, report.decode_width), (Some(depth), Some(width)));
        let document: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(document["error"]["code"], code);
        assert!(document["error"]["message"].as_str().unwrap().contains(&depth.to_string()));
        assert_eq!(document["launch"], Value::Null);
    }
    for text in ["", "{", "[]", "3", "null", r#"{"engine": 3}"#, r#"{"engine": {"backend": NaN}}"#]
    {
        let report = resolve_launch(text);
        assert!(["E_LAUNCH_FIELD", E_ENGINE].contains(&report.error.unwrap().code()), "{text}");
    }
    let repeated = resolve_launch(r#"{"engine": {"block_size": 2, "block_size": 4}}"#);
    assert_eq!(repeated.error.unwrap().path(), "engine.block_size");
}

#[test]
fn what_an_author_should_know_is_told() {
    let warnings = |launch: &Value| resolve_launch(&launch.to_string()).warnings;
    let mut older = launch("vllm", "decode");
    assert!(warnings(&older).is_empty());
    older["engine"]["timing_model"]["config"]["nextn"] = json!(3);
    let assumed = "engine.aic_nextn_accept_rates: absent: 0.85,0.3,0 is assumed";
    assert_eq!(warnings(&older), [assumed]);
    older["engine"]["aic_nextn_accept_rates"] = json!("0.5");
    let padded = "engine.aic_nextn_accept_rates: 1 rates for depth 3: 0.5,0,0 is used";
    assert_eq!(warnings(&older), [padded]);
    let mut foreign = launch("vllm", "decode");
    foreign["engine"]["timing_model"]["config"]["backend"] = json!("sglang");
    assert!(warnings(&foreign)[0].contains("sglang"));
    let claimed = json!({"num_gpu_blocks_is_explicit": true});
    assert!(warnings(&claimed)[0].starts_with("num_gpu_blocks_is_explicit: "));
}
