//! What holds for every launch, whatever it says.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::codes;
use crate::workload::WorkerType;

/// Names that a launch knows, as keys and as values.
const NAMES: [&str; 44] = [
    "engine",
    "backend",
    "vllm",
    "sglang",
    "trtllm",
    "num_gpu_blocks",
    "block_size",
    "aic_nextn",
    "aic_nextn_accept_rates",
    "1,1",
    "aic_mtp_seed",
    "worker_type",
    "decode",
    "timing_model",
    "type",
    "external",
    "provider",
    "ais",
    "config",
    "model",
    "system",
    "nextn",
    "speculation",
    "kind",
    "mtp",
    "eagle3",
    "dspark",
    "params",
    "depth",
    "num_speculative_tokens",
    "tree_shape",
    "verify_token_budget",
    "draft_config",
    "block_size",
    "tensor_parallel_size",
    "dp_size",
    "num_gpu_blocks_is_explicit",
    "engine_type",
    "ais_nextn",
    "ais_perf_config",
    "is_prefill",
    "page_size",
    "rank",
    "expected_accepted_tokens",
];

fn any_json() -> impl Strategy<Value = Value> {
    // No points and brackets, which separate the steps of a path.
    let name = prop_oneof![4 => select(&NAMES[..]).prop_map(str::to_owned), 1 => "[a-zé \"]{0,6}"];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..8_u64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        name.clone().prop_map(Value::from),
    ];
    scalar.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(name.clone(), inner, 0..8)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Places of a launch that are worth changing.
const PLACES: [&str; 17] = [
    "/engine",
    "/engine/backend",
    "/engine/num_gpu_blocks",
    "/engine/block_size",
    "/engine/aic_nextn",
    "/engine/aic_nextn_accept_rates",
    "/engine/aic_mtp_seed",
    "/engine/worker_type",
    "/engine/sglang",
    "/engine/timing_model/provider",
    "/engine/timing_model/config/nextn",
    "/engine/timing_model/config/tp",
    "/engine/timing_model/config/speculation",
    "/engine/timing_model/config/speculation/kind",
    "/engine/timing_model/config/speculation/params/num_draft_tokens",
    "/engine/timing_model/config/speculation/draft_config",
    "/tensor_parallel_size",
];

/// Launches that are right but for a few changes.
fn nearly_right() -> impl Strategy<Value = Value> {
    let backend = select(vec!["vllm", "sglang", "trtllm"]);
    let change = (select(&PLACES[..]), any_json());
    (backend, 0..3_usize, vec(change, 0..3)).prop_map(|(backend, which, changes)| {
        let mut launch = of_depth_3(backend, "decode").swap_remove(which);
        for (pointer, value) in changes {
            let Some((parent, key)) = pointer.rsplit_once('/') else { continue };
            if let Some(Value::Object(fields)) = launch.pointer_mut(parent) {
                fields.insert(key.to_owned(), value);
            }
        }
        launch
    })
}

/// Whether all but the last step of a path lead somewhere in the document.
fn points_into(document: &Value, path: &str) -> bool {
    let path = path.replace('[', ".[");
    let steps: Vec<_> = path.split('.').filter(|step| !step.is_empty()).collect();
    let Some((_, parents)) = steps.split_last() else {
        return true;
    };
    let step = |value: Option<&'_ Value>, step: &&str| -> Option<Value> {
        let value = value?;
        match step.strip_prefix('[').and_then(|index| index.strip_suffix(']')) {
            Some(index) => value.get(index.parse::<usize>().ok()?).cloned(),
            None => value.get(*step).cloned(),
        }
    };
    let reached = parents.iter().try_fold(document.clone(), |value, next| step(Some(&value), next));
    reached.is_some()
}

fn answered(json: &Value) -> Result<(), TestCaseError> {
    let report = resolve_launch(&json.to_string());
    let document: Value = serde_json::from_str(&report.to_json()).unwrap();
    prop_assert_eq!(document["ok"] == true, report.launch.is_some());
    if let Some(error) = &report.error {
        prop_assert!(codes::ALL.contains(&error.code()), "{}", error);
        prop_assert!(!error.message().is_empty());
        prop_assert!(points_into(json, &error.path()), "{} in {}", error, json);
    }
    if let Some(launch) = &report.launch {
        let text = launch.to_json();
        let again = EngineLaunchConfig::from_json(text.as_bytes()).unwrap();
        prop_assert_eq!(again.to_json(), text);
        prop_assert_eq!(launch.decode_width(), launch.depth() + 1);
        prop_assert_eq!(launch.acceptance().rates().len(), launch.depth() as usize);
        let metadata = serde_json::to_value(speculation_report_metadata(launch)).unwrap();
        prop_assert_eq!(&metadata["num_speculative_tokens"], launch.depth());
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_launch_is_answered(json in any_json()) {
        answered(&json)?;
        let mut engine = json!({});
        engine["engine"] = json;
        answered(&engine)?;
    }

    #[test]
    fn a_nearly_right_launch_is_answered(json in nearly_right()) {
        answered(&json)?;
        // The same engine in the flat form.
        if let Value::Object(mut fields) = json["engine"].clone() {
            fields.insert("is_decode".to_owned(), true.into());
            answered(&fields.into())?;
        }
    }

    #[test]
    fn any_text_is_answered(text in any::<String>(), json in any_json(), cut in 0..64_usize) {
        let _ = resolve_launch(&text);
        let json = json.to_string();
        let _ = resolve_launch(json.get(..cut).unwrap_or_default());
    }

    #[test]
    fn any_options_are_materialised_or_refused(options in any_json(), parallel in any_json(),
        launch in nearly_right(), nested in any::<bool>()) {
        let engine = launch["engine"].clone();
        let known = if nested { json!({"rank": engine}) } else { engine };
        for options in [options, known] {
            let launch = materialize_engine_launch_config(
                "vllm", Some("1"), &parallel, options.clone(), WorkerType::Decode);
            let _ = launch;
            let alone = materialize_engine_launch_config(
                "vllm", None, &Value::Null, options.clone(), WorkerType::Decode);
            if let Ok(launch) = alone {
                prop_assert_eq!(launch.backend.name(), "vllm");
                prop_assert_eq!(launch.worker_type, WorkerType::Decode);
            }
            let _ = canonical_performance_config(options, WorkerType::Decode);
        }
    }
}
