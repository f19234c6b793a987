//! A program that knows a scheme of Python's, and in which no interpreter is ever started.
//!
//! It needs the library of an interpreter to link against; where there is none, this is empty.

#![cfg(interpreter_library)]
#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use std::sync::Arc;

use forepass::codes::{E_KIND, E_PARAM, E_RUNTIME, E_TREE};
use forepass::config::SpeculationConfig;
use forepass::launch::resolve_launch;
use forepass::speculation::{Backend, register_scheme};
use forepass::{Error, resolve_speculation};
use scheme::PythonScheme;
use serde_json::json;

#[path = "../src/scheme.rs"]
#[allow(unreachable_pub)]
mod scheme;

fn resolve(kind: &str, params: &serde_json::Value) -> Result<(u32, u32), (&'static str, String)> {
    let block = json!({"kind": kind, "params": params});
    let block = match kind {
        "eagle3" | "draft_model" | "dflash" | "dspark" => {
            json!({"kind": kind, "params": params, "draft_model_path": "a/b"})
        }
        _ => block,
    };
    let config = SpeculationConfig::from_value(block).unwrap();
    resolve_speculation(&config)
        .map(|draft| (draft.depth, draft.verify_width))
        .map_err(|error: Error| (error.code(), error.path()))
}

#[test]
fn schemes_of_closed_form_resolve_and_those_of_python_are_refused() {
    let registered = Arc::new(PythonScheme::new("lookup".to_owned(), vec![Backend::Vllm]));
    register_scheme(registered).unwrap();
    for (kind, params, expected) in [
        ("none", json!({}), Ok((0, 1))),
        ("ngram", json!({"num_speculative_tokens": 3}), Ok((3, 4))),
        ("mtp", json!({"depth": 3}), Ok((3, 4))),
        ("eagle3", json!({"tree_shape": [1, 4, 4], "verify_token_budget": 10}), Ok((3, 10))),
        ("draft_model", json!({"num_speculative_tokens": 3}), Ok((3, 4))),
        ("dflash", json!({"num_draft_tokens": 3}), Ok((3, 4))),
        ("dspark", json!({"num_draft_tokens": 3}), Ok((3, 4))),
        ("lookup", json!({}), Err((E_RUNTIME, "kind"))),
        ("lookup", json!({"depth": "three"}), Err((E_RUNTIME, "kind"))),
        ("medusa", json!({}), Err((E_KIND, "kind"))),
        ("ngram", json!({}), Err((E_PARAM, "params.num_speculative_tokens"))),
        ("mtp", json!({"depth": 2.5}), Err((E_PARAM, "params.depth"))),
        ("dflash", json!({}), Err((E_RUNTIME, "draft_model_path"))),
    ] {
        let expected = expected.map_err(|(code, path)| (code, path.to_owned()));
        assert_eq!(resolve(kind, &params), expected, "{kind} {params}");
    }

    let launch = |speculation: serde_json::Value| {
        let config = json!({
            "model": "m", "system": "h200", "backend": "vllm", "worker_type": "aggregated",
            "speculation": speculation,
        });
        let engine = json!({
            "num_gpu_blocks": 4096,
            "aic_nextn_accept_rates": "0.8,0.6,0.4",
            "timing_model": {"kind": "external", "provider": "ais", "config": config},
        });
        let report = resolve_launch(&json!({"engine": engine}).to_string());
        (report.depth, report.error.map(|error| error.code()))
    };
    let tree = json!({"kind": "eagle3", "params": {"tree_shape": [2]}, "draft_model_path": "a/b"});
    assert_eq!(launch(json!({"kind": "mtp", "params": {"depth": 3}})), (Some(3), None));
    assert_eq!(launch(tree), (Some(1), Some(E_TREE)));
    assert_eq!(launch(json!({"kind": "lookup"})), (None, Some(E_RUNTIME)));
}
