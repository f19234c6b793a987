//! What holds for all options of all engines, whatever they say.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::speculation::resolve_speculation;

/// Options made of what engines know and of anything else.
fn any_options() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        4 => proptest::sample::select(vec![
            "vllm", "serve", "-m", "sglang.launch_server", "trtllm-serve", "a/b", "--", "-sc",
            "--speculative-config", "--speculative-config.method", "mtp", "eagle3", "ngram", "3",
            "--spec-model", "--spec-tokens", "0", "6", "4294967295", "-1", "--speculative-algorithm",
            "EAGLE", "EAGLE3", "NEXTN", "NGRAM", "DFLASH", "DSPARK", "STANDALONE",
            "--speculative-draft-model-path", "--speculative-num-steps", "--speculative-eagle-topk",
            "--speculative-num-draft-tokens", "--speculative-ngram-max-bfs-breadth", "1", "4",
            "--speculative-dflash-tree-width", "--speculative-dspark-block-size",
            "--speculative-adaptive", "SGLANG_SIMULATE_ACC_LEN=2.5", "--max_draft_len", "--depth",
            r#"{"method": "mtp", "num_speculative_tokens": 3}"#,
            r#"{"decoding_type": "Eagle3", "max_draft_len": 3, "dynamic_tree_max_topK": 4}"#,
            "--speculative-config.speculative_token_tree", "[(0,), (0, 0), (1,)]",
        ]).prop_map(str::to_owned),
        1 => ".*",
    ];
    let key = prop_oneof![
        4 => proptest::sample::select(vec![
            "speculative_config", "method", "model", "num_speculative_tokens", "decoding_type",
            "max_draft_len", "max_total_draft_tokens", "speculative_model", "eagle_choices",
            "use_dynamic_tree", "dynamic_tree_max_topK", "draft_len_schedule", "max_concurrency",
            "speculative_token_tree", "num_speculative_tokens_per_batch_size", "max_batch_size",
            "rejection_sample_method", "synthetic_acceptance_rates", "synthetic_acceptance_length",
            "speculative-algorithm", "speculative_num_steps", "speculative_eagle_topk",
            "speculative_num_draft_tokens", "SGLANG_SIMULATE_ACC_LEN", "config", "depth",
        ]).prop_map(str::to_owned),
        1 => ".*",
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..8_u64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(vec![
            "mtp",
            "eagle3",
            "eagle",
            "suffix",
            "synthetic",
            "MTP",
            "Eagle3",
            "NGram",
            "PARD",
            "EAGLE3",
            "NEXTN",
            "NGRAM",
            "DFLASH",
            "DSPARK",
            "org/draft",
        ])
        .prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    let value = scalar.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop_oneof![
        vec(word.clone(), 0..12).prop_map(Value::from),
        vec(word, 0..12).prop_map(|words| words.join(" ").into()),
        value,
    ]
}

/// Options that name a method of the engine, and some fields beside it that may fit.
fn likely_options() -> impl Strategy<Value = (Backend, Value)> {
    let values = vec![
        json!(0),
        json!(1),
        json!(2),
        json!(3),
        json!(8),
        json!(true),
        json!(2.5),
        json!("x"),
        json!([[0], [0, 0], [0, 0, 0]]),
        json!([[0], [1], [0, 0]]),
        json!([[1, 8, 3]]),
        json!({"8": 3}),
        json!([0.9, 0.5, 0.2]),
        json!("synthetic"),
        json!(u32::MAX),
        Value::Null,
    ];
    (
        proptest::sample::select(engine_methods()),
        1..=7_u64,
        prop_oneof![3 => Just(1_u64), 1 => 0..5_u64],
        any::<bool>(),
        vec((any::<proptest::sample::Index>(), proptest::sample::select(values)), 0..3),
    )
        .prop_map(|(row, depth, branches, draft, more)| {
            let draft = draft.then_some("org/draft");
            let fields = dialect(row.engine).fields;
            let mut options = match row.engine {
                Backend::Vllm => json!({
                    "speculative_config.method": row.method,
                    "speculative_config.model": draft,
                    "speculative_config.num_speculative_tokens": depth,
                }),
                Backend::Sglang => json!({
                    "speculative_algorithm": row.method,
                    "speculative_draft_model_path": draft,
                    "speculative_num_steps": depth,
                    "speculative_eagle_topk": branches,
                    "speculative_dspark_block_size": depth,
                    "SGLANG_SIMULATE_ACC_LEN": 1.5,
                }),
                Backend::Trtllm => json!({
                    "speculative_config.decoding_type": row.method,
                    "speculative_config.speculative_model": draft,
                    "speculative_config.max_draft_len": depth,
                    "speculative_config.dynamic_tree_max_topK": branches - branches.min(1),
                }),
            };
            for (index, value) in more {
                options[fields[index.index(fields.len())]] = value;
            }
            (row.engine, options)
        })
}

fn any_engine_and_options() -> impl Strategy<Value = (Backend, Value)> {
    let engine = proptest::sample::select(Backend::ALL.to_vec());
    prop_oneof![(engine, any_options()), likely_options()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn any_options_are_resolved_or_refused_the_same_way_twice(
        (engine, options) in any_engine_and_options(), strict: bool,
    ) {
        let Ok(options) = EngineOptions::from_value(options) else { return Ok(()) };
        let report = resolve_engine_options(engine, &options, strict);
        prop_assert_eq!(&report, &resolve_engine_options(engine, &options, strict));
        let document: Value = serde_json::from_str(&report.to_json()).unwrap();
        prop_assert_eq!(document["launch"].clone(), Value::Null);
        match &report.error {
            // What is accepted has one depth, which is the resolver's.
            None => {
                let depth = report.speculation.as_ref().unwrap().replay_depth().unwrap();
                prop_assert_eq!(report.depth, Some(depth));
                prop_assert_eq!(report.decode_width, Some(depth + 1));
                prop_assert_eq!(report.tree, Some(false));
                prop_assert_eq!(report.dynamic, None);
                if let Some(rates) = &report.acceptance_rates {
                    prop_assert_eq!(rates.rates().len(), depth as usize);
                }
            }
            Some(error) => prop_assert!(codes::ALL.contains(&error.code())),
        }
    }

    #[test]
    fn the_block_drafts_what_the_engine_is_said_to_draft(
        (engine, options) in likely_options(),
    ) {
        let options = EngineOptions::from_value(options).unwrap();
        let report = resolve_engine_options(engine, &options, false);
        let Some(draft) = report.speculation.as_ref().and_then(|s| resolve_speculation(s).ok())
        else { return Ok(()) };
        prop_assert_eq!(report.depth, Some(draft.depth));
        prop_assert_eq!(report.kind, Some(draft.kind));
        // Only the blocks of eagle3 can say that a draft branches.
        if report.tree == Some(draft.tree) && report.decode_width.is_some() {
            prop_assert_eq!(report.decode_width, Some(draft.verify_width));
        }
    }
}
