//! The older flat form: what it becomes, and what in it contradicts itself.

use super::*;
use crate::codes::{E_DEPTH_CONFLICT, E_ENGINE, E_LAUNCH_FIELD};

fn flat(json: &Value) -> EngineLaunchConfig {
    let report = resolve_launch(&json.to_string());
    assert_eq!(report.provenance["form"], "legacy flat", "{json}");
    report.launch.unwrap_or_else(|| panic!("{:?}\n{json}", report.error))
}

fn flat_refusal(json: &Value) -> crate::Error {
    resolve_launch(&json.to_string()).error.expect("an error")
}

/// A flat launch and the canonical one that it is.
#[test]
fn each_older_spelling_has_a_canonical_one() {
    let config = json!({
        "model": "m", "system": "s", "backend": "vllm", "worker_type": "aggregated"
    });
    let external =
        |config: &Value| json!({"kind": "external", "provider": "ais", "config": config});
    for (older, engine) in [
        (json!({"engine_type": "SGLang"}), json!({"backend": "sglang"})),
        (json!({"engine_type": "trtllm", "backend": "TRTLLM"}), json!({"backend": "trtllm"})),
        (
            json!({"ais_nextn": 2, "ais_nextn_accept_rates": "0.5", "ais_mtp_seed": 7}),
            json!({"aic_nextn": 2, "aic_nextn_accept_rates": "0.5", "aic_mtp_seed": 7}),
        ),
        (json!({"kv_bytes_per_token": 9}), json!({"kv_transfer_bytes_per_token": 9})),
        (json!({"is_prefill": true, "is_decode": false}), json!({"worker_type": "prefill"})),
        (json!({"is_decode": true}), json!({"worker_type": "decode"})),
        (json!({"is_prefill": false}), json!({"worker_type": "aggregated"})),
        (json!({"is_prefill": 3, "worker_type": "Decode"}), json!({"worker_type": "decode"})),
        (json!({"block_size": 0}), json!({})),
        (json!({"num_gpu_blocks": null}), json!({})),
        (json!({"max_num_seqs": null}), json!({"max_num_seqs": null})),
        (json!({"sglang": null, "trtllm": null, "timing_model": null}), json!({})),
        (json!({"preemption_mode": "FIFO"}), json!({"preemption_mode": "fifo"})),
        (
            json!({"kv_transfer_timing_mode": "Full_Prompt"}),
            json!({"kv_transfer_timing_mode": "full_prompt"}),
        ),
        (
            json!({
                "backend": "sglang", "block_size": 4,
                "sglang": {"schedule_policy": "FCFS", "page_size": 4, "clip_max_new_tokens": null}
            }),
            json!({"backend": "sglang", "block_size": 4, "sglang": {"schedule_policy": "fifo"}}),
        ),
        (
            json!({"trtllm": {"capacity_scheduler_policy": "guaranteed_no_evict"}}),
            json!({"trtllm": {"capacity_scheduler_policy": "guaranteed_no_evict"}}),
        ),
        (json!({"timing_model": {"kind": "default"}}), json!({})),
        (
            json!({"timing_model": {"kind": "fixed", "prefill_ms": 3, "decode_ms": 1}}),
            json!({"timing_model": {"kind": "fixed", "prefill_ms": 3.0, "decode_ms": 1.0}}),
        ),
        (json!({"ais_perf_config": config}), json!({"timing_model": external(&config)})),
        (
            json!({
                "ais_perf_config": config,
                "timing_model": {"kind": "external", "provider": "aic", "config": config}
            }),
            json!({"timing_model": external(&config)}),
        ),
    ] {
        let canonical = accepted(&json!({"engine": engine}));
        assert_eq!(flat(&older).to_json(), canonical.to_json(), "{older}");
    }
    let outer = json!({
        "backend": "vllm", "dp_size": 2, "tensor_parallel_size": null, "startup_time": 3,
        "gpu_memory_utilization": 0.5
    });
    let canonical = json!({
        "engine": {}, "dp_size": 2, "startup_time": 3, "gpu_memory_utilization": 0.5
    });
    assert_eq!(flat(&outer).to_json(), accepted(&canonical).to_json());
}

#[test]
fn all_contradictions_are_told_with_both_keys_and_values() {
    let error = flat_refusal(&json!({
        "engine_type": "vllm", "backend": "sglang", "ais_nextn": 2, "aic_nextn": 3,
        "block_size": 4, "sglang": {"page_size": 8}, "is_prefill": true, "is_decode": true
    }));
    for told in [
        r#"backend is "sglang", but engine_type is "vllm""#,
        "aic_nextn is 3, but ais_nextn is 2",
        "sglang.page_size is 8, but block_size is 4",
        "is_decode is true, but is_prefill is true",
    ] {
        assert!(error.message().contains(told), "{error}");
    }
    // The code is that of the first check, whatever the order of the keys.
    assert_eq!((error.code(), error.path().as_str()), (E_LAUNCH_FIELD, "backend"));
    for (older, code, path) in [
        (json!({"engine_type": "vllm", "backend": "sglang"}), E_LAUNCH_FIELD, "backend"),
        (json!({"ais_nextn": 2, "aic_nextn": 3}), E_DEPTH_CONFLICT, "aic_nextn"),
        (
            json!({"kv_bytes_per_token": 2, "kv_transfer_bytes_per_token": 3}),
            E_LAUNCH_FIELD,
            "kv_transfer_bytes_per_token",
        ),
        (json!({"is_prefill": "yes"}), E_ENGINE, "is_prefill"),
        (
            json!({
                "ais_perf_config": {"model": "m"}, "timing_model": {"kind": "polynomial"}
            }),
            E_LAUNCH_FIELD,
            "ais_perf_config",
        ),
    ] {
        let error = flat_refusal(&older);
        assert_eq!((error.code(), error.path().as_str()), (code, path), "{error}");
    }
}

#[test]
fn faults_and_sources_are_told_in_the_spelling_of_the_author() {
    let config = json!({
        "model": "m", "system": "s", "backend": "vllm", "worker_type": "aggregated",
        "speculation": {"kind": "mtp", "params": {"depth": 6}}
    });
    for (older, code, path) in [
        (json!({"ais_nextn": 6}), E_ENGINE, "ais_nextn"),
        (json!({"backend": "sglang", "sglang": {"page_size": 3}}), E_ENGINE, "sglang.page_size"),
        (json!({"sglang": {"max_prefill_tokens": 0}}), E_ENGINE, "sglang.max_prefill_tokens"),
        (json!({"vllm": {}}), E_ENGINE, "vllm"),
        (json!({"num_gpu_block": 3}), E_ENGINE, "num_gpu_block"),
        (json!({"backend": "vllm", "dp_size": 0}), E_LAUNCH_FIELD, "dp_size"),
        (json!({"ais_perf_config": config}), "E_RANGE", "ais_perf_config.speculation.params.depth"),
    ] {
        let error = flat_refusal(&older);
        assert_eq!((error.code(), error.path().as_str()), (code, path), "{error}");
    }
    let report = resolve_launch(&json!({"ais_nextn": 3, "is_prefill": false}).to_string());
    assert_eq!(report.provenance["depth"], "ais_nextn");
    assert_eq!(report.warnings, ["aic_nextn_accept_rates: absent: 0.85,0.3,0 is assumed"]);
    let ignored = resolve_launch(&json!({"is_prefill": true, "worker_type": "decode"}).to_string());
    assert_eq!(ignored.ignored, ["is_prefill: worker_type is given"]);
}

#[test]
fn messages_name_paths_of_the_form_that_was_given() {
    let mut authored = json!({
        "model": "m", "system": "s", "backend": "vllm", "worker_type": "aggregated", "tp": 2,
        "speculation": {"kind": "mtp", "params": {"depth": 2}}
    });
    for (more, says) in [
        (json!({"tensor_parallel_size": 4}), "4, but ais_perf_config.tp is 2: must be equal"),
        (json!({"worker_type": "decode"}), "but ais_perf_config.worker_type is aggregated"),
        (json!({"aic_nextn": 3}), "3, but ais_perf_config.speculation.params.depth gives depth 2"),
    ] {
        let mut older = more;
        older["ais_perf_config"] = authored.clone();
        let message = flat_refusal(&older).message();
        assert!(message.contains(says), "{message}");
    }
    authored["speculation"] = Value::Null;
    authored["backend"] = json!("sglang");
    let foreign = resolve_launch(&json!({"ais_perf_config": authored}).to_string());
    assert_eq!(foreign.warnings, ["ais_perf_config.backend: sglang, but backend is vllm"]);
}

#[test]
fn the_canonical_form_is_not_taken_for_the_flat_one() {
    for canonical in [json!({}), json!({"dp_size": 1}), json!({"engine": {}})] {
        let report = resolve_launch(&canonical.to_string());
        assert_eq!(report.provenance["form"], "canonical");
    }
    // The canonical form knows none of the older spellings.
    for older in ["engine_type", "ais_nextn", "is_prefill", "ais_perf_config"] {
        let mut engine = json!({});
        engine[older] = json!("vllm");
        let error = flat_refusal(&json!({"engine": engine}));
        assert_eq!((error.code(), error.path()), (E_ENGINE, format!("engine.{older}")));
    }
    let error = canonical_launch(json!([])).unwrap_err();
    assert_eq!(error.code(), E_LAUNCH_FIELD);
}
