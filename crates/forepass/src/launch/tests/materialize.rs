//! From a role of a deployment to its launch.

use super::*;
use crate::codes::{
    E_ACCEPT_INVALID, E_ACCEPT_MISSING, E_BACKEND, E_DEPTH_CONFLICT, E_ENGINE, E_LAUNCH_FIELD,
    E_PARAM, E_PERF_CONFIG, E_RANGE, E_ROLE, E_TOPOLOGY,
};
use crate::workload::WorkerType;

const ROLES: [WorkerType; 3] = [WorkerType::Aggregated, WorkerType::Prefill, WorkerType::Decode];

/// Options with a performance model, and these besides.
fn options(backend: &str, more: Value) -> Value {
    let mut options = json!({
        "num_gpu_blocks": 4096,
        "timing_model": {"kind": "external", "provider": "ais", "config": {
            "model_path": "m", "system": "s", "backend": backend, "tp_size": 4
        }}
    });
    let Value::Object(more) = more else { panic!("more options") };
    options.as_object_mut().unwrap().extend(more);
    options
}

fn materialize(backend: &str, options: Value, role: WorkerType) -> Result<EngineLaunchConfig> {
    let parallel = json!({"tensor_parallel_size": 4});
    materialize_engine_launch_config(backend, Some("1.2"), &parallel, options, role)
}

fn refused(more: Value) -> (&'static str, String) {
    let error = materialize("vllm", options("vllm", more), WorkerType::Decode).unwrap_err();
    (error.code(), error.path())
}

#[test]
fn each_role_of_each_backend_drafts_as_deep_as_its_block_says() {
    for backend in ["vllm", "sglang"] {
        for role in ROLES {
            for (kind, scheme) in [
                ("mtp", json!({"num_speculative_tokens": 3})),
                ("eagle3", json!({"params": {"num_speculative_tokens": 3}, "draft_config": {}})),
            ] {
                let mut block = scheme;
                block["kind"] = json!(kind);
                block["expected_accepted_tokens"] = json!(1.5);
                block["seed"] = json!(7);
                let more = json!({"engine_type": backend, "speculation": block});
                let launch = materialize(backend, options(backend, more), role).unwrap();
                assert_eq!((launch.depth(), launch.decode_width()), (3, 4));
                assert_eq!(launch.acceptance().rates(), [1.0, 0.5, 0.0]);
                assert_eq!((launch.aic_mtp_seed, launch.worker_type), (7, role));
                assert_eq!((launch.backend.name(), launch.tensor_parallel_size()), (backend, 4));
                assert!(launch.capacity().explicit);
                let config = launch.performance_config().unwrap();
                assert_eq!((config.nextn, config.worker_type), (0, role));
                assert_eq!(config.backend_version.as_deref(), Some("1.2"));
                assert_eq!(config.speculation.as_ref().unwrap().kind, kind);
                let again = EngineLaunchConfig::from_json(launch.to_json().as_bytes()).unwrap();
                assert_eq!(again.to_json(), launch.to_json());
            }
        }
    }
}

#[test]
fn the_older_spelling_of_a_depth_still_works() {
    for (more, rates) in [
        (json!({"aic_nextn": 3, "nextn_accepted": 1.5}), &[1.0, 0.5, 0.0][..]),
        (json!({"ais_nextn": 2, "aic_nextn_accept_rates": [0.5, 0.25]}), &[0.5, 0.25]),
        (json!({"aic_nextn": 2}), &[0.85, 0.3]),
        (json!({"nextn": 2, "aic_nextn": 2, "nextn_accepted": 0}), &[0.0, 0.0]),
        (json!({"nextn": 0}), &[]),
        (json!({"aic_nextn": null}), &[]),
    ] {
        let mut options = options("trtllm", more.clone());
        options["timing_model"]["config"]["nextn"] = json!(rates.len());
        let launch = materialize("trtllm", options, WorkerType::Decode).unwrap();
        assert_eq!(launch.acceptance().rates(), rates, "{more}");
    }
}

#[test]
fn a_block_of_ngram_needs_no_performance_model() {
    let options = json!({
        "num_gpu_blocks": 8,
        "speculation": {
            "kind": "ngram", "num_speculative_tokens": 2, "acceptance_rates": [0.5, 0.25]
        }
    });
    let launch = |options, backend| {
        materialize_engine_launch_config(backend, None, &Value::Null, options, WorkerType::Decode)
    };
    let ngram = launch(options.clone(), "vllm").unwrap();
    assert_eq!((ngram.depth(), ngram.acceptance().rates()), (2, &[0.5, 0.25][..]));
    assert_eq!(launch(options.clone(), "sglang").unwrap_err().code(), E_BACKEND);
    let mut mtp = options;
    mtp["speculation"]["kind"] = json!("mtp");
    let error = launch(mtp, "vllm").unwrap_err();
    assert_eq!((error.code(), error.path().as_str()), (E_PERF_CONFIG, "timing_model"));
}

#[test]
fn options_that_contradict_the_deployment_or_each_other_are_refused() {
    let mtp = |more: Value| {
        let mut block = json!({"kind": "mtp", "num_speculative_tokens": 3});
        block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        block
    };
    let accepted = || mtp(json!({"expected_accepted_tokens": 1}));
    for (more, code, path) in [
        (json!({"engine_type": "sglang"}), E_BACKEND, "engine_type"),
        (json!({"aic_backend": "trtllm"}), E_BACKEND, "aic_backend"),
        (json!({"worker_type": "prefill"}), E_ROLE, "worker_type"),
        (json!({"tensor_parallel_size": 2}), E_TOPOLOGY, "parallel_config.tensor_parallel_size"),
        (json!({"tensor_parallel_size": 4, "aic_tp_size": 2}), E_TOPOLOGY, "aic_tp_size"),
        (json!({"aic_attention_dp_size": 2}), E_TOPOLOGY, "dp_size"),
        (json!({"rank": {}}), E_LAUNCH_FIELD, "num_gpu_blocks"),
        (json!({"ais_mtp_seed": 1, "aic_mtp_seed": 1}), E_LAUNCH_FIELD, "ais_mtp_seed"),
        (
            json!({"cuda_graph_reserved_bytes": (1_u64 << 53) + 1}),
            E_LAUNCH_FIELD,
            "cuda_graph_reserved_bytes",
        ),
        (json!({"speculation": mtp(json!({}))}), E_ACCEPT_MISSING, "speculation.acceptance_rates"),
        (
            json!({"speculation": mtp(json!({
                "expected_accepted_tokens": 1, "acceptance_rates": [0.5, 0.5, 0.5]
            }))}),
            E_ACCEPT_INVALID,
            "speculation.expected_accepted_tokens",
        ),
        (
            json!({"speculation": mtp(json!({"expected_accepted_tokens": 3.1}))}),
            E_ACCEPT_INVALID,
            "speculation.expected_accepted_tokens",
        ),
        (
            json!({"speculation": mtp(json!({"acceptance_rates": [0.5, 0.5]}))}),
            E_ACCEPT_INVALID,
            "speculation.acceptance_rates",
        ),
        (
            json!({"speculation": mtp(json!({"conditional_acceptance_rates": [0.5, 0.5, 1.5]}))}),
            E_ACCEPT_INVALID,
            "speculation.acceptance_rates[2]",
        ),
        (
            json!({"speculation": mtp(json!({"params": {"depth": 3}}))}),
            E_PARAM,
            "speculation.num_speculative_tokens",
        ),
        (json!({"speculation": mtp(json!({"tokens": 3}))}), E_PARAM, "speculation.tokens"),
        (
            json!({"speculation": mtp(json!({"num_speculative_tokens": 6}))}),
            E_RANGE,
            "speculation.num_speculative_tokens",
        ),
        // What a number that is not finite becomes on its way here.
        (
            json!({"speculation": mtp(json!({"expected_accepted_tokens": "NaN"}))}),
            E_ACCEPT_INVALID,
            "speculation.expected_accepted_tokens",
        ),
        (
            json!({"speculation": mtp(json!({"acceptance_rates": [1, "NaN"]}))}),
            E_ACCEPT_INVALID,
            "speculation.acceptance_rates[1]",
        ),
        (json!({"speculation": accepted(), "aic_nextn": 3}), E_DEPTH_CONFLICT, "aic_nextn"),
        (
            json!({"speculation": accepted(), "aic_nextn_accept_rates": "1"}),
            E_ACCEPT_INVALID,
            "aic_nextn_accept_rates",
        ),
        (
            json!({"speculation": accepted(), "nextn_accepted": 1}),
            E_ACCEPT_INVALID,
            "nextn_accepted",
        ),
        (json!({"speculation": accepted(), "aic_mtp_seed": 7}), E_LAUNCH_FIELD, "aic_mtp_seed"),
        (json!({"nextn": 3}), E_ACCEPT_MISSING, "nextn_accepted"),
        (json!({"speculation": {"kind": "none", "seed": 7}}), E_PARAM, "speculation.seed"),
        (json!({"nextn_accepted": 1}), E_ENGINE, "nextn_accepted"),
        (json!({"aic_nextn": 2, "nextn": 3}), E_DEPTH_CONFLICT, "nextn"),
        (
            json!({"aic_nextn": 2, "nextn_accepted": 1, "aic_nextn_accept_rates": "1"}),
            E_ACCEPT_INVALID,
            "nextn_accepted",
        ),
        (json!({"aic_nextn": true}), E_ENGINE, "aic_nextn"),
        (json!({"aic_nextn": 2}), E_DEPTH_CONFLICT, "aic_nextn"),
        (
            json!({"num_gpu_blocks": null, "speculation": accepted()}),
            "E_CAPACITY",
            "num_gpu_blocks",
        ),
    ] {
        assert_eq!(refused(more.clone()), (code, path.to_owned()), "{more}");
    }
    let none = json!({"speculation": {"kind": "none", "seed": 42}});
    assert_eq!(materialize("vllm", options("vllm", none), WorkerType::Decode).unwrap().depth(), 0);
    // A depth of zero says nothing beside a block of mtp.
    let zero = json!({"speculation": accepted(), "aic_nextn": 0});
    assert_eq!(materialize("vllm", options("vllm", zero), WorkerType::Decode).unwrap().depth(), 3);
}

#[test]
fn a_depth_is_refused_in_the_spelling_of_its_author() {
    for (more, code, path) in [
        (json!({"nextn": 6, "nextn_accepted": 2}), E_ENGINE, "nextn"),
        (json!({"nextn": true, "nextn_accepted": 1}), E_ENGINE, "nextn"),
        (json!({"ais_nextn": 6}), E_ENGINE, "ais_nextn"),
        // The performance model drafts nothing.
        (json!({"ais_nextn": 2}), E_DEPTH_CONFLICT, "ais_nextn"),
        (json!({"nextn": 2, "nextn_accepted": 1}), E_DEPTH_CONFLICT, "nextn"),
    ] {
        assert_eq!(refused(more.clone()), (code, path.to_owned()), "{more}");
    }
    let rank = json!({"rank": {"nextn": 7, "nextn_accepted": 1}});
    let error = materialize("vllm", rank, WorkerType::Decode).unwrap_err();
    assert_eq!((error.code(), error.path()), (E_ENGINE, "rank.nextn".to_owned()));
}

#[test]
fn a_block_must_agree_with_the_performance_model() {
    let block = json!({"kind": "mtp", "num_speculative_tokens": 3, "expected_accepted_tokens": 1});
    let with = |field: &str, value: Value| {
        let mut options = options("vllm", json!({"speculation": block}));
        options["timing_model"]["config"][field] = value;
        materialize("vllm", options, WorkerType::Decode)
            .map_err(|error| (error.code(), error.path()))
    };
    let same = json!({"kind": "mtp", "params": {"depth": 3}});
    let launch = with("speculation", same.clone()).unwrap();
    let kept = &launch.performance_config().unwrap().speculation;
    assert_eq!(kept.as_ref().unwrap().to_json(), same.to_string());
    let other = json!({"kind": "mtp", "params": {"depth": 2}});
    let refused = Err((E_DEPTH_CONFLICT, "speculation".to_owned()));
    assert_eq!(with("speculation", other), refused);
    let path = |field: &str| format!("timing_model.config.{field}");
    assert_eq!(with("nextn", json!(3)), Err((E_PERF_CONFIG, path("speculation"))));
    assert_eq!(
        with("backend_version", json!("1.3")),
        Err((E_PERF_CONFIG, path("backend_version")))
    );
    assert_eq!(with("worker_type", json!("prefill")), Err((E_ROLE, "worker_type".to_owned())));
}

#[test]
fn options_may_be_nested_under_a_rank() {
    let parallel = json!({"dp_size": 2, "pipeline_parallel_size": 1});
    let launch = |rank: Value| {
        let options = json!({"rank": rank, "startup_time": 3});
        materialize_engine_launch_config("sglang", None, &parallel, options, WorkerType::Prefill)
    };
    let nested = launch(json!({"block_size": 4, "aic_nextn": 2})).unwrap();
    assert_eq!((nested.block_size(), nested.depth(), nested.dp_size()), (4, 2, 2));
    assert_eq!((nested.worker_type, nested.startup_time_s()), (WorkerType::Prefill, Some(3.0)));
    for (rank, path) in [
        (json!({"block_size": 3}), "rank.block_size"),
        (json!({"worker_type": "decode"}), "rank.worker_type"),
        (json!({"engine_typ": "sglang"}), "rank.engine_typ"),
        (json!(3), "rank"),
    ] {
        assert_eq!(launch(rank).unwrap_err().path(), path);
    }
    for (parallel, path) in [
        (json!({"pp": 2}), "parallel_config.pp"),
        (json!({"experts": 2}), "parallel_config.experts"),
        (json!(2), "parallel_config"),
    ] {
        let launch = materialize_engine_launch_config(
            "vllm",
            None,
            &parallel,
            json!({}),
            WorkerType::Decode,
        );
        let error = launch.unwrap_err();
        assert_eq!((error.code(), error.path().as_str()), (E_TOPOLOGY, path));
    }
    let unknown =
        materialize_engine_launch_config("tgi", None, &Value::Null, json!({}), WorkerType::Decode);
    assert_eq!(unknown.unwrap_err().code(), E_BACKEND);
}

#[test]
fn a_performance_model_is_brought_into_its_normal_form() {
    let config = |json| canonical_performance_config(json, WorkerType::Decode);
    let authored = json!({
        "model_path": "m", "system": "s", "backend": "vllm", "tp_size": 2, "attention_dp_size": 3
    });
    let normal = config(authored.clone()).unwrap();
    assert_eq!((normal.model.as_str(), normal.tp, normal.attention_dp), ("m", 2, 3));
    assert_eq!(normal.worker_type, WorkerType::Decode);
    for (field, value, code, path) in [
        ("worker_type", json!("prefill"), E_ROLE, "worker_type"),
        ("model", json!("n"), E_PERF_CONFIG, "model_path"),
        ("nextn", json!(6), E_PERF_CONFIG, "nextn"),
        ("modle", json!("m"), E_PERF_CONFIG, "modle"),
    ] {
        let mut wrong = authored.clone();
        wrong[field] = value;
        let error = config(wrong).unwrap_err();
        assert_eq!((error.code(), error.path().as_str()), (code, path));
    }
    assert_eq!(config(json!(3)).unwrap_err().code(), E_PERF_CONFIG);
}

#[test]
fn a_report_says_what_is_approximated() {
    let block = json!({
        "kind": "mtp", "num_speculative_tokens": 3, "acceptance_rates": [0.5, 0.5, 0.5]
    });
    let options = options("vllm", json!({"speculation": block}));
    let launch = materialize("vllm", options, WorkerType::Decode).unwrap();
    assert_eq!(
        serde_json::to_value(speculation_report_metadata(&launch)).unwrap(),
        json!({
            "role": "decode", "target_model": "m", "requested_method": "mtp",
            "resolved_method": "mtp", "num_speculative_tokens": 3, "decode_width": 4,
            // 0.5 + 0.25 + 0.125
            "expected_accepted_tokens": 0.875, "acceptance_rates": [0.5, 0.5, 0.5], "seed": 42,
            "cost_approximation": "performance_model", "capacity_source": "explicit_fixed",
            "kv_transfer_approximation": "full_prompt", "qualification": "simulated_acceptance"
        })
    );
    let plain = speculation_report_metadata(&accepted(&json!({})));
    assert_eq!((plain.resolved_method.as_str(), plain.requested_method), ("none", None));
    assert_eq!((plain.cost_approximation, plain.capacity_source), ("polynomial", "inferred"));
    assert_eq!(plain.qualification, "exact");
}
