//! What holds for every configuration, whatever it says.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{CheckedConfig, EstimatorConfig, ForwardPassPerfModelConfig, LegacyOptions};

/// Any JSON value whose keys and names are, more often than not, ones that a configuration knows.
fn any_json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        proptest::sample::select(vec![
            "model",
            "system",
            "backend",
            "worker_type",
            "decode",
            "tp",
            "tp_size",
            "dcp",
            "nextn",
            "moe_tp_size",
            "moe_ep_size",
            "speculation",
            "kind",
            "params",
            "ngram",
            "depth",
            "estimation_mode",
            "forward_model",
            "fpm",
            "op_level",
            "fallback_policy",
            "allow",
            "estimator_config",
            "features",
            "ffn_token_weight",
            "NaN",
            "fpm_regression",
            "sampling",
            "axes",
            "moe",
            "bins_per_axis",
            "max_observations",
            "min_observations",
            "bucket_count",
            "bucket_shape",
            "regression_ridge_scale",
            "fit",
            "linear",
            "spline",
            "singular_ridge_scale",
            "rebuild_interval",
            "search",
            "periodic",
            "step",
            "window",
            "trigger",
            "update_policy",
            "always",
            "error_threshold",
            "correction",
            "factor_bounds",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..70_u64).prop_map(Value::from),
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

/// A field that is absent, or one of the given values.
fn field(name: &'static str, values: Vec<Value>) -> impl Strategy<Value = Option<(String, Value)>> {
    proptest::option::of(proptest::sample::select(values))
        .prop_map(move |value| value.map(|value| (name.to_owned(), value)))
}

fn object<const N: usize>(fields: [Option<(String, Value)>; N]) -> Value {
    Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>())
}

fn search() -> impl Strategy<Value = Value> {
    prop_oneof![
        (1..u64::MAX).prop_map(|step| json!({"kind": "periodic", "step": step})),
        (1..99_usize, 1e-9..9.0, 0.0..9.0, 1..u64::MAX).prop_map(
            |(window, relative, absolute, cooldown)| json!({
                "window": window, "trigger": window.div_ceil(2), "tolerance": relative,
                "absolute_tolerance_ms": absolute, "cooldown": cooldown
            })
        ),
    ]
}

fn fit() -> impl Strategy<Value = Value> {
    let interval = field("rebuild_interval", vec![Value::Null, json!(1), json!(u64::MAX)]);
    let kind = prop_oneof![
        Just(json!({})),
        Just(json!({"kind": "linear", "linear": {"feature_axes": ["attention", "moe"]}})),
        Just(json!({"kind": "spline"})),
        (2..=3, search()).prop_map(|(knots, search)| {
            json!({"kind": "spline", "spline": {"knots_per_axis": knots, "search": search}})
        }),
    ];
    (kind, 0.0..f64::MAX, interval).prop_map(|(mut fit, ridge, interval)| {
        fit["singular_ridge_scale"] = json!(ridge);
        if let Some((name, value)) = interval {
            fit[name] = value;
        }
        fit
    })
}

/// Configurations that are right, in many spellings.
fn right_json() -> impl Strategy<Value = Value> {
    let identity = (
        field("tp_size", vec![json!(2), json!(4)]),
        field("dcp", vec![json!(1)]),
        field("speculation", vec![json!({"kind": "none"})]),
        field("systems_paths", vec![json!("p"), json!(["p", 1.5])]),
        field("forward_model", vec![json!("auto"), json!("fpm"), json!("op_level")]),
        field("enable_eplb", vec![json!(true), Value::Null]),
    );
    let axes = field("axes", vec![json!(["attention", "ffn"]), json!(["attention", "moe"])]);
    let sampling = (axes, 1..99_usize, 1..99_usize, 32..999_usize);
    let weight = prop_oneof![
        (f64::MIN_POSITIVE..f64::MAX).prop_map(Value::from),
        (1..=u64::MAX).prop_map(Value::from)
    ];
    (identity, sampling, weight, fit()).prop_map(
        |(
            (tp, dcp, speculation, paths, mode, eplb),
            (axes, rows, columns, capacity),
            weight,
            fit,
        )| {
            let mut json = object([tp, dcp, speculation, paths, mode, eplb]);
            let mut sampling = object([axes]);
            sampling["bins_per_axis"] = json!([rows, columns]);
            sampling["max_observations"] = json!(capacity);
            for name in ["model", "system", "backend"] {
                json[name] = json!(name);
            }
            json["worker_type"] = json!("aggregated");
            json["fallback_policy"] = json!("regression");
            json["estimator_config"] = json!({
                "features": {"attention_kv_weight": weight},
                "fpm_regression": {"sampling": sampling, "fit": fit, "min_observations": capacity}
            });
            json
        },
    )
}

fn read(json: &str) -> ForwardPassPerfModelConfig {
    ForwardPassPerfModelConfig::from_json(json.as_bytes()).unwrap()
}

fn assert_survives(config: &ForwardPassPerfModelConfig, checked: &CheckedConfig) {
    assert_eq!(&read(&config.to_json()), config);
    let normalized = checked.normalized();
    assert_eq!(&read(&normalized.to_json()), normalized);
    assert_eq!(&normalized.check().unwrap(), checked);
}

proptest! {
    #[test]
    fn any_json_is_answered(estimator in any_json(), mut json in any_json()) {
        let _ = EstimatorConfig::from_value(estimator.clone());
        if let Ok(options) = LegacyOptions::from_value(estimator.clone()) {
            let _ = EstimatorConfig::from_legacy(&options, Some(&json));
        }
        if let Value::Object(fields) = &mut json {
            // Far enough to reach the checks more often.
            for name in ["model", "system", "backend"] {
                fields.insert(name.to_owned(), name.into());
            }
            fields.insert("worker_type".to_owned(), "decode".into());
        }
        if let Ok(config) = ForwardPassPerfModelConfig::from_value(json) {
            if let Ok(checked) = config.check() {
                assert_survives(&config, &checked);
            }
        }
    }

    #[test]
    fn any_text_is_answered(text in any::<Vec<u8>>(), json in any_json(), cut in 0..64_usize) {
        let _ = ForwardPassPerfModelConfig::from_json(&text);
        let json = json.to_string().into_bytes();
        let _ = ForwardPassPerfModelConfig::from_json(&json[..cut.min(json.len())]);
    }

    #[test]
    fn a_right_configuration_survives_json_and_its_normal_form(json in right_json()) {
        let config = read(&json.to_string());
        let checked = config.check().unwrap();
        assert_survives(&config, &checked);
    }
}
