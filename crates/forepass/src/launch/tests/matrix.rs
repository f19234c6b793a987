//! Schemes by backends, roles, authored depths, acceptance and capacity.
//!
//! Expected depths are those of the definitions of the schemes, as in the names of the rows.

use super::*;
use crate::codes::{
    E_ACCEPT_INVALID, E_ACCEPT_MISSING, E_BACKEND, E_CAPACITY, E_DEPTH_CONFLICT, E_ENGINE, E_KIND,
    E_PARAM, E_PERF_CONFIG, E_RANGE, E_ROLE, E_RUNTIME, E_TOPOLOGY, E_TREE,
};

const BACKENDS: [&str; 3] = ["vllm", "sglang", "trtllm"];
const ROLES: [&str; 3] = ["aggregated", "prefill", "decode"];

/// A speculation block, and its outcome on vllm, sglang and trtllm.
type Row = (Value, [Result<u32, &'static str>; 3]);

fn rows() -> Vec<Row> {
    let block = |kind: &str, params: Value| json!({"kind": kind, "params": params});
    let eagle3 = |params: Value| json!({"kind": "eagle3", "params": params, "draft_config": {}});
    let drafted =
        |params: Value| json!({"kind": "draft_model", "params": params, "draft_model_path": "a/b"});
    let tokens = |count: Value| json!({"num_speculative_tokens": count});
    let everywhere = |code| [Err(code); 3];
    let mut rows = vec![
        (json!({"kind": "none"}), [Ok(0); 3]),
        (block("ngram", json!({})), everywhere(E_PARAM)),
        (block("mtp", json!({})), everywhere(E_PARAM)),
        (block("mtp", json!({"depth": 2, "num_speculative_tokens": 3})), everywhere(E_PARAM)),
        (
            block("mtp", json!({"depth": 3, "num_speculative_tokens": 3})),
            [Ok(3), Ok(3), Err(E_BACKEND)],
        ),
        (eagle3(json!({})), [Ok(3), Ok(3), Err(E_BACKEND)]),
        (block("eagle3", tokens(json!(3))), everywhere(E_PARAM)),
        (
            eagle3(json!({"tree_shape": [1, 4, 4], "verify_token_budget": 10})),
            [Err(E_TREE), Err(E_TREE), Err(E_BACKEND)],
        ),
        (
            eagle3(json!({"num_speculative_tokens": 3, "verify_token_budget": 6})),
            [Err(E_TREE), Err(E_TREE), Err(E_BACKEND)],
        ),
        (eagle3(tokens(json!(6))), [Err(E_RANGE), Err(E_RANGE), Err(E_BACKEND)]),
        (block("draft_model", tokens(json!(3))), everywhere(E_PARAM)),
        (drafted(tokens(json!(6))), [Err(E_RANGE), Err(E_BACKEND), Err(E_BACKEND)]),
        (
            json!({"kind": "dflash", "draft_config": {"block_size": 16}}),
            [Err(E_RANGE), Err(E_BACKEND), Err(E_BACKEND)],
        ),
        (
            json!({"kind": "dflash", "draft_model_path": "a/b"}),
            [Err(E_RUNTIME), Err(E_BACKEND), Err(E_BACKEND)],
        ),
        (
            json!({"kind": "dspark", "draft_config": {"block_size": 7}}),
            [Err(E_RANGE), Err(E_RANGE), Err(E_BACKEND)],
        ),
        (json!({"kind": "eagle"}), everywhere(E_KIND)),
        (json!({"kind": "medusa"}), everywhere(E_KIND)),
        (json!({"kind": "nothing"}), everywhere(E_KIND)),
        (json!({"kind": " "}), everywhere(E_PERF_CONFIG)),
    ];
    for depth in 1..=5_u32 {
        let count = tokens(json!(depth));
        let chain = json!({"tree_shape": vec![1; depth as usize]});
        let both = [Ok(depth), Ok(depth), Err(E_BACKEND)];
        let vllm = [Ok(depth), Err(E_BACKEND), Err(E_BACKEND)];
        rows.extend([
            (block("ngram", count.clone()), vllm),
            (block("mtp", count.clone()), both),
            (block("mtp", json!({"depth": depth})), both),
            (eagle3(count.clone()), both),
            (eagle3(chain), both),
            (drafted(count), vllm),
            (block("dflash", json!({"num_draft_tokens": depth})), vllm),
            (block("dspark", json!({"num_draft_tokens": depth})), both),
        ]);
    }
    for beyond in [0, 6, 7] {
        let range = [Err(E_RANGE), Err(E_RANGE), Err(E_BACKEND)];
        rows.push((
            block("ngram", tokens(json!(beyond))),
            [Err(E_RANGE), Err(E_BACKEND), Err(E_BACKEND)],
        ));
        rows.push((block("mtp", tokens(json!(beyond))), range));
    }
    for wrong in [json!(true), json!("3"), json!(2.5), json!(3.0)] {
        rows.push((block("ngram", tokens(wrong.clone())), everywhere(E_PARAM)));
        rows.push((block("mtp", tokens(wrong)), everywhere(E_PARAM)));
    }
    rows
}

#[test]
fn each_scheme_has_its_depth_on_each_backend_in_each_role() {
    for (speculation, outcomes) in rows() {
        for (backend, outcome) in BACKENDS.into_iter().zip(outcomes) {
            for role in ROLES {
                let rates = outcome.map_or_else(|_| "0.5".to_owned(), rates);
                let launch = speculating(backend, role, &speculation, &rates);
                match outcome {
                    Ok(expected) => assert_eq!(depth(&launch), expected, "{launch}"),
                    Err(expected) => assert_eq!(code(&launch), expected, "{launch}"),
                }
            }
        }
    }
}

#[test]
fn the_older_spelling_of_a_depth_works_on_every_backend() {
    for backend in BACKENDS {
        for role in ROLES {
            let mut launch = launch(backend, role);
            assert_eq!(depth(&launch), 0);
            for nextn in 1..=5 {
                launch["engine"]["timing_model"]["config"]["nextn"] = json!(nextn);
                assert_eq!(depth(&launch), nextn);
            }
            launch["engine"]["timing_model"]["config"]["nextn"] = json!(6);
            let path = "engine.timing_model.config.nextn".to_owned();
            assert_eq!(refusal(&launch), (E_PERF_CONFIG, path));
        }
    }
}

#[test]
fn a_performance_model_that_contradicts_itself_is_refused_before_its_scheme() {
    for (backend, outcome) in [("vllm", E_PERF_CONFIG), ("sglang", E_PERF_CONFIG)] {
        for launch in of_depth_3(backend, "decode") {
            for (field, value) in [
                ("nextn", json!(3)),
                ("estimation_mode", json!("fpm_interpolation")),
                ("estimation_mode", json!("fpm_regression")),
                ("fpm_profile", json!({})),
                ("tp", json!(0)),
                ("model", json!("")),
            ] {
                let mut launch = launch.clone();
                launch["engine"]["timing_model"]["config"][field] = value;
                assert_eq!(code(&launch), outcome, "{launch}");
            }
        }
    }
}

#[test]
fn a_block_that_drafts_nothing_excludes_recorded_passes_all_the_same() {
    for mode in ["fpm_interpolation", "fpm_regression"] {
        let mut launch = launch("vllm", "decode");
        launch["engine"]["timing_model"]["config"]["estimation_mode"] = json!(mode);
        assert_eq!(depth(&launch), 0);
        launch["engine"]["timing_model"]["config"]["speculation"] = json!({"kind": "none"});
        let path = "engine.timing_model.config.estimation_mode".to_owned();
        assert_eq!(refusal(&launch), (E_PERF_CONFIG, path));
    }
}

#[test]
fn roles_must_agree() {
    for role in ROLES {
        for other in ROLES {
            for mut launch in of_depth_3("vllm", role) {
                launch["engine"]["worker_type"] = json!(other);
                if role == other {
                    assert_eq!(depth(&launch), 3);
                } else {
                    let path = "engine.worker_type".to_owned();
                    assert_eq!(refusal(&launch), (E_ROLE, path));
                }
            }
        }
    }
}

#[test]
fn an_authored_depth_must_agree_with_what_is_drafted() {
    let with_nextn = |mut launch: Value, nextn: Value| {
        launch["engine"]["aic_nextn"] = nextn;
        launch
    };
    let conflict = (E_DEPTH_CONFLICT, "engine.aic_nextn".to_owned());
    for backend in ["vllm", "sglang"] {
        for role in ROLES {
            for launch in of_depth_3(backend, role) {
                for agreed in [json!(3), Value::Null] {
                    assert_eq!(depth(&with_nextn(launch.clone(), agreed)), 3);
                }
                for other in [1, 2, 4, 5] {
                    assert_eq!(refusal(&with_nextn(launch.clone(), json!(other))), conflict);
                }
                for outside in [0, 6] {
                    assert_eq!(code(&with_nextn(launch.clone(), json!(outside))), E_ENGINE);
                }
            }
        }
        let mut older = launch(backend, "decode");
        assert_eq!(refusal(&with_nextn(older.clone(), json!(3))), conflict);
        older["engine"]["timing_model"]["config"]["nextn"] = json!(2);
        assert_eq!(refusal(&with_nextn(older.clone(), json!(3))), conflict);
        assert_eq!(depth(&with_nextn(older, json!(2))), 2);
    }
    let none = speculating("vllm", "decode", &json!({"kind": "none"}), "0.5");
    assert_eq!(refusal(&with_nextn(none, json!(3))), conflict);
}

#[test]
fn an_engine_without_a_performance_model_drafts_as_deep_as_it_says() {
    for timing in [
        json!({"kind": "polynomial"}),
        json!({"kind": "fixed", "prefill_ms": 1, "decode_ms": 0.5}),
        json!({"kind": "external", "provider": "mine", "config": {"speculation": 3}}),
    ] {
        for backend in BACKENDS {
            let engine = json!({"backend": backend, "aic_nextn": 3, "timing_model": timing});
            let launch = json!({"engine": engine});
            assert_eq!(depth(&launch), 3);
            assert!(accepted(&launch).performance_config().is_none());
        }
    }
}

#[test]
fn acceptance_is_given_for_each_level() {
    for canonical in of_depth_3("sglang", "prefill") {
        let mut older = canonical.clone();
        let config = older["engine"]["timing_model"]["config"].as_object_mut().unwrap();
        config.remove("speculation");
        config.insert("nextn".to_owned(), json!(3));
        let with = |launch: &Value, rates: &str| {
            let mut launch = launch.clone();
            launch["engine"]["aic_nextn_accept_rates"] = json!(rates);
            launch
        };
        let path = || "engine.aic_nextn_accept_rates".to_owned();
        let is = |launch: &Value, expected: [f64; 3]| {
            assert_eq!(accepted(launch).acceptance().rates(), expected);
        };
        for both in [&canonical, &older] {
            is(&with(both, "0.9, 0.80,0.7"), [0.9, 0.8, 0.7]);
            is(&with(both, "0,0,0"), [0.0; 3]);
            is(&with(both, "1,1,1"), [1.0; 3]);
            for wrong in ["0.5,-0.1,0", "1.1,0,0", "NaN,0,0", "inf,0,0", "a,b,c", "0.5,,0.5"] {
                assert_eq!(refusal(&with(both, wrong)), (E_ENGINE, path()), "{wrong}");
            }
        }
        for blank in ["", "  "] {
            assert_eq!(refusal(&with(&canonical, blank)), (E_ACCEPT_MISSING, path()));
            is(&with(&older, blank), [0.85, 0.3, 0.0]);
        }
        for (rates, padded_or_cut) in
            [("0.5,0.4", [0.5, 0.4, 0.0]), ("1,0.9,0.8,0.7", [1.0, 0.9, 0.8])]
        {
            assert_eq!(refusal(&with(&canonical, rates)), (E_ACCEPT_INVALID, path()));
            is(&with(&older, rates), padded_or_cut);
        }
        let mut absent = canonical.clone();
        absent["engine"].as_object_mut().unwrap().remove("aic_nextn_accept_rates");
        assert_eq!(code(&absent), E_ACCEPT_MISSING);
    }
    let mut nothing = launch("vllm", "decode");
    nothing["engine"]["aic_nextn_accept_rates"] = json!("0.5");
    assert_eq!(refusal(&nothing), (E_ENGINE, "engine.aic_nextn_accept_rates".to_owned()));
}

#[test]
fn speculation_needs_an_authored_capacity() {
    let capacity = |launch: &Value, blocks: Option<Value>, flag: Option<bool>| {
        let mut launch = launch.clone();
        let engine = launch["engine"].as_object_mut().unwrap();
        engine.remove("num_gpu_blocks");
        engine.extend(blocks.map(|blocks| ("num_gpu_blocks".to_owned(), blocks)));
        if let Some(flag) = flag {
            launch["num_gpu_blocks_is_explicit"] = json!(flag);
        }
        launch
    };
    let nothing = launch("vllm", "decode");
    let mut older = nothing.clone();
    older["engine"]["timing_model"]["config"]["nextn"] = json!(3);
    for (blocks, flag, explicit) in [
        (Some(json!(100)), None, true),
        (Some(json!(100)), Some(true), true),
        (Some(json!(100)), Some(false), false),
        (None, None, false),
        (None, Some(true), false),
        (None, Some(false), false),
    ] {
        for launch in of_depth_3("vllm", "decode") {
            let launch = capacity(&launch, blocks.clone(), flag);
            if explicit {
                assert_eq!(accepted(&launch).capacity(), Capacity::new(100, true));
            } else {
                let path = "engine.num_gpu_blocks".to_owned();
                assert_eq!(refusal(&launch), (E_CAPACITY, path), "{launch}");
            }
        }
        for launch in [&nothing, &older] {
            let blocks_expected = if blocks.is_some() { 100 } else { 16384 };
            let launch = capacity(launch, blocks.clone(), flag);
            assert_eq!(accepted(&launch).capacity(), Capacity::new(blocks_expected, explicit));
        }
    }
    for launch in [&nothing, &older, &of_depth_3("vllm", "decode")[0]] {
        assert_eq!(code(&capacity(launch, Some(Value::Null), None)), E_ENGINE);
        assert_eq!(code(&capacity(launch, Some(json!(0)), None)), E_ENGINE);
    }
}

#[test]
fn parallelism_must_agree_and_there_are_no_pipeline_stages() {
    for base in of_depth_3("vllm", "aggregated") {
        let with = |outer: &[(&str, u64)], inner: &[(&str, u64)]| {
            let mut launch = base.clone();
            for (name, value) in outer {
                launch[*name] = json!(value);
            }
            for (name, value) in inner {
                launch["engine"]["timing_model"]["config"][*name] = json!(value);
            }
            launch
        };
        let sizes = |launch: &Value| {
            let launch = accepted(launch);
            (launch.tensor_parallel_size(), launch.dp_size())
        };
        assert_eq!(sizes(&with(&[], &[])), (1, 1));
        assert_eq!(sizes(&with(&[], &[("tp", 4), ("attention_dp", 2)])), (4, 2));
        let both = [("tensor_parallel_size", 4), ("dp_size", 2)];
        assert_eq!(sizes(&with(&both, &[("tp_size", 4), ("attention_dp_size", 2)])), (4, 2));
        for (outer, inner, path) in [
            (&[("tensor_parallel_size", 2)][..], &[][..], "tensor_parallel_size"),
            (&[("tensor_parallel_size", 2)], &[("tp", 4)], "tensor_parallel_size"),
            (&[("dp_size", 2)], &[], "dp_size"),
            (&[], &[("pp", 2)], "engine.timing_model.config.pp"),
        ] {
            assert_eq!(refusal(&with(outer, inner)), (E_TOPOLOGY, path.to_owned()));
        }
    }
}

#[test]
fn an_engine_that_drafts_has_neither_offload_nor_groups_nor_a_ratio_of_its_own() {
    let offload = json!({"kv_bytes": 1});
    for (field, value) in [
        ("decode_speedup_ratio", json!(2.0)),
        ("native_host_offload", offload.clone()),
        ("kv_cache_groups", json!([{"layers": 3}])),
    ] {
        let with = |mut launch: Value| {
            launch["engine"][field] = value.clone();
            launch
        };
        accepted(&with(launch("sglang", "decode")));
        for launch in of_depth_3("sglang", "decode") {
            assert_eq!(refusal(&with(launch)), (E_ENGINE, format!("engine.{field}")));
        }
    }
    let mut unit = launch("vllm", "aggregated");
    unit["engine"]["prefix_match_unit"] = json!(16);
    accepted(&unit);
    unit["engine"]["timing_model"]["config"]["nextn"] = json!(1);
    assert_eq!(refusal(&unit), (E_ENGINE, "engine.prefix_match_unit".to_owned()));
}

/// Each launch has the faults of all later ones, so that each code hides the next.
#[test]
fn faults_are_told_in_one_order() {
    let mut launch = speculating(
        "trtllm",
        "decode",
        &json!({"kind": "medusa", "params": {"tree_shape": [2, 1, 1, 1, 1, 1]}}),
        "",
    );
    let engine = launch["engine"].as_object_mut().unwrap();
    engine.remove("num_gpu_blocks");
    engine.insert("aic_nextn".to_owned(), json!(5));
    engine.insert("worker_type".to_owned(), json!("prefill"));
    engine.insert("block_size".to_owned(), json!(0));
    engine["timing_model"]["config"]["pp"] = json!(2);
    engine["timing_model"]["config"]["nextn"] = json!(2);
    launch["dp_size"] = json!(0);
    for (code_expected, pointer, right) in [
        (E_ENGINE, "/engine/block_size", json!(32)),
        ("E_LAUNCH_FIELD", "/dp_size", json!(1)),
        (E_PERF_CONFIG, "/engine/timing_model/config/nextn", json!(0)),
        (E_TOPOLOGY, "/engine/timing_model/config/pp", json!(1)),
        (E_ROLE, "/engine/worker_type", json!("decode")),
        (E_KIND, "/engine/timing_model/config/speculation/kind", json!("eagle3")),
        (E_PARAM, "/engine/timing_model/config/speculation/draft_config", json!({})),
        (E_BACKEND, "/engine/backend", json!("vllm")),
        (E_BACKEND, "/engine/timing_model/config/backend", json!("vllm")),
        (
            E_TREE,
            "/engine/timing_model/config/speculation/params",
            json!({"num_speculative_tokens": 6}),
        ),
        (
            E_RANGE,
            "/engine/timing_model/config/speculation/params",
            json!({"num_speculative_tokens": 3}),
        ),
        (E_DEPTH_CONFLICT, "/engine/aic_nextn", json!(3)),
        (E_ACCEPT_MISSING, "/engine/aic_nextn_accept_rates", json!("0.5")),
        (E_ACCEPT_INVALID, "/engine/aic_nextn_accept_rates", json!("0.5,0.5,0.5")),
        (E_CAPACITY, "/engine/num_gpu_blocks", json!(16)),
    ] {
        assert_eq!(code(&launch), code_expected, "{launch}");
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        launch.pointer_mut(parent).unwrap()[key] = right;
    }
    assert_eq!(depth(&launch), 3);
}
