//! The forecaster as a Rust program uses it, against hand-derived numbers.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests

use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::{
    Error, FeatureWeights, ForwardPassMetrics, ForwardPassModel, Observed, Reason, Rejection,
    Source, WorkerType, Workload, WorkloadKind,
};

fn model(worker_type: WorkerType) -> ForwardPassModel {
    let config = ForwardPassPerfModelConfig::for_worker(worker_type, EstimatorConfig::default());
    ForwardPassModel::new(config.check().unwrap()).unwrap()
}

fn features(ranks: &[ForwardPassMetrics], role: WorkerType, weights: [f64; 3]) -> [f64; 2] {
    let [attention_kv, prefill_attention_pair, ffn_token] = weights;
    let weights = FeatureWeights {
        attention_kv,
        prefill_attention_pair,
        ffn_token,
    };
    Workload::of(ranks, role, &weights)
        .unwrap()
        .unwrap()
        .features
}

fn prefill(requests: u64, tokens: u64, kv_tokens: u64) -> ForwardPassMetrics {
    ForwardPassMetrics::prefill(requests, tokens, kv_tokens)
}

fn decode(requests: u64, kv_tokens: u64) -> ForwardPassMetrics {
    ForwardPassMetrics::decode(requests, kv_tokens)
}

const ONES: [f64; 3] = [1.0, 1.0, 1.0];

#[test]
fn prefill_features_follow_by_hand() {
    // Specification vector 1: pairs 90·10/1 + 100/2 + 5 = 955 and 40·20/2 + 400/4 + 10 = 510; the
    // first rank scores 90 + 955.
    let ranks = [prefill(1, 10, 90), prefill(2, 20, 40)];
    assert_eq!(features(&ranks, WorkerType::Prefill, ONES), [1045.0, 30.0]);
    assert_eq!(
        features(&ranks, WorkerType::Prefill, [2.0, 0.5, 3.0]),
        [657.5, 90.0]
    );
    let reversed = [ranks[1].clone(), ranks[0].clone()];
    assert_eq!(
        features(&reversed, WorkerType::Prefill, ONES),
        [1045.0, 30.0]
    );
}

#[test]
fn decode_features_follow_by_hand() {
    // Specification vector 2.
    let ranks = [decode(2, 100), decode(3, 80)];
    assert_eq!(features(&ranks, WorkerType::Decode, ONES), [100.0, 5.0]);
    assert_eq!(
        features(&ranks, WorkerType::Decode, [2.0, 1.0, 3.0]),
        [200.0, 15.0]
    );
}

#[test]
fn aggregated_features_follow_by_hand() {
    // Specification vector 3: the second rank computes no prefill, so its cached tokens are unread.
    let ranks = [
        prefill(1, 10, 90).with_decode(2, 20),
        prefill(1, 0, 500).with_decode(3, 200),
    ];
    assert_eq!(
        features(&ranks, WorkerType::Aggregated, ONES),
        [1065.0, 15.0]
    );
    assert_eq!(
        features(&ranks, WorkerType::Aggregated, [2.0, 0.5, 3.0]),
        [697.5, 45.0]
    );
}

#[test]
fn terms_of_different_ranks_are_never_combined() {
    // Case A6: rank 0 scores 1000²/2 + 500 = 500,500, rank 1 scores 50,000; never 550,500.
    let ranks = [prefill(1, 1000, 0), decode(10, 50_000)];
    let expected = [500_500.0, 1010.0];
    assert_eq!(features(&ranks, WorkerType::Aggregated, ONES), expected);
    let with_idle = [decode(10, 50_000), prefill(1, 0, 4096), prefill(1, 1000, 0)];
    assert_eq!(features(&with_idle, WorkerType::Aggregated, ONES), expected);
}

#[test]
fn attention_counts_pairs_per_request() {
    // Case A20: two prompts of 512 are 2 (512²/2 + 512/2) = 262,656 pairs, not one of 1024; and a
    // chunk of 8192 on 122,880 cached tokens is 1.04 G pairs, the cached tokens themselves aside.
    assert_eq!(
        features(&[prefill(2, 1024, 0)], WorkerType::Prefill, ONES)[0],
        262_656.0
    );
    let chunk = features(&[prefill(1, 8192, 122_880)], WorkerType::Prefill, ONES)[0];
    assert_eq!(
        chunk,
        122_880.0 + 122_880.0 * 8192.0 + 8192.0 * 8192.0 / 2.0 + 4096.0
    );
}

#[test]
fn the_largest_counters_of_the_reference_stay_finite() {
    // Specification vector 4.
    let max = u64::from(u32::MAX);
    let m = max as f64;
    let all = prefill(max, max, max).with_decode(max, max);
    let [attention, ffn] = features(&[all], WorkerType::Aggregated, ONES);
    assert!(attention.is_finite());
    assert_eq!(ffn, 2.0 * m);
    let ranks = [prefill(1, max, max), prefill(1, max, 0)];
    let pairs = m + (m * m + m * m / 2.0 + m / 2.0);
    assert_eq!(
        features(&ranks, WorkerType::Prefill, ONES),
        [pairs, 2.0 * m]
    );
}

#[test]
fn features_that_overflow_are_an_error_and_teach_nothing() {
    // Specification vector 5.
    let mut estimator = EstimatorConfig::default();
    estimator.features = FeatureWeights {
        attention_kv: f64::MAX,
        prefill_attention_pair: f64::MAX,
        ffn_token: f64::MAX,
    };
    let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Prefill, estimator);
    let mut model = ForwardPassModel::new(config.check().unwrap()).unwrap();
    let ranks = [prefill(1, 2, 2).with_wall_time(0.01)];
    assert_eq!(model.predict(&ranks).unwrap_err().code(), "overflow");
    assert_eq!(model.observe(&ranks).unwrap_err().code(), "overflow");
    assert_eq!(model.diagnostics().retained_observations, 0);
}

#[test]
fn cached_tokens_alone_are_no_work() {
    // Specification vector 6.
    for role in [
        WorkerType::Prefill,
        WorkerType::Decode,
        WorkerType::Aggregated,
    ] {
        assert_eq!(model(role).predict(&[prefill(1, 0, 4096)]), Ok(Some(0.0)));
    }
    let ranks = [prefill(1, 0, 4096).with_decode(2, 100)];
    for role in [WorkerType::Decode, WorkerType::Aggregated] {
        assert_eq!(features(&ranks, role, ONES), [100.0, 2.0]);
    }
}

#[test]
fn what_is_malformed_or_of_another_role_is_an_error_and_changes_nothing() {
    // Specification vector 7 and cases A6, B3.
    let code = |model: &mut ForwardPassModel, ranks: &[ForwardPassMetrics]| {
        let before = model.clone();
        let code = model.observe(ranks).unwrap_err().code();
        assert_eq!(model.predict(ranks).unwrap_err().code(), code);
        assert_eq!(*model, before);
        code
    };
    let mut prefill_model = model(WorkerType::Prefill);
    let mut decode_model = model(WorkerType::Decode);
    assert_eq!(code(&mut prefill_model, &[decode(1, 10)]), "role_mismatch");
    assert_eq!(
        code(&mut decode_model, &[prefill(1, 10, 0)]),
        "role_mismatch"
    );
    assert_eq!(code(&mut prefill_model, &[]), "empty_iteration");
    assert_eq!(
        code(&mut prefill_model, &[prefill(0, 10, 0)]),
        "invalid_field"
    );
    assert_eq!(
        code(&mut prefill_model, &[prefill(1, u64::MAX, 0)]),
        "invalid_field"
    );
    let old = ForwardPassMetrics {
        version: 999,
        ..prefill(1, 10, 0)
    };
    assert_eq!(
        code(&mut prefill_model, &[prefill(1, 1, 0), old]),
        "unsupported_version"
    );
}

#[test]
fn a_batch_is_learned_whole_or_not_at_all() {
    let mut model = model(WorkerType::Decode);
    let good = vec![decode(1, 10).with_wall_time(0.01)];
    let bad = vec![decode(2, 10).with_wall_time(0.01), prefill(1, 10, 0)];
    let before = model.clone();
    let error = model.observe_batch(&[good.clone(), bad]).unwrap_err();
    assert_eq!(
        (error.code(), &*error.path()),
        (
            "role_mismatch",
            "[1][1].scheduled_requests.sum_prefill_tokens"
        )
    );
    assert_eq!(model, before);
    model.observe_batch(&[good.clone(), good]).unwrap();
    assert_eq!(model.diagnostics().accepted_observations, 2);
    model.observe_batch::<Vec<ForwardPassMetrics>>(&[]).unwrap();
}

#[test]
fn only_work_with_a_plausible_time_is_learned() {
    // Specification vector 8 and cases A3, A4; NaN and infinities besides.
    let mut model = model(WorkerType::Prefill);
    let mut observe = |ranks: &[ForwardPassMetrics]| model.observe(ranks).unwrap();
    let work = |wall_time| [prefill(1, 10, 0).with_wall_time(wall_time)];
    let rejected = |reason| Observed::Rejected(WorkloadKind::PurePrefill, reason);
    assert_eq!(observe(&work(0.0)), rejected(Rejection::NoPositiveTime));
    assert_eq!(observe(&work(-1.0)), rejected(Rejection::NoPositiveTime));
    assert_eq!(
        observe(&work(f64::MAX)),
        rejected(Rejection::ImplausibleDuration)
    );
    assert_eq!(
        observe(&work(3600.012)),
        rejected(Rejection::ImplausibleDuration)
    );
    assert_eq!(observe(&work(f64::NAN)), rejected(Rejection::NonFiniteTime));
    assert_eq!(
        observe(&work(f64::INFINITY)),
        rejected(Rejection::NonFiniteTime)
    );
    let mut queued = ForwardPassMetrics::default().with_wall_time(0.01);
    queued.queued_requests.num_prefill_requests = 3;
    queued.queued_requests.sum_prefill_tokens = 100;
    assert_eq!(observe(&[queued]), Observed::Idle);
    assert_eq!(
        observe(&[prefill(1, 0, 4096).with_wall_time(0.01)]),
        Observed::Idle
    );
    assert_eq!(
        observe(&work(0.010)),
        Observed::Learned(WorkloadKind::PurePrefill, 10.0)
    );
    // The slowest rank counts, an idle one too; one that reports nonsense does not.
    let ranks = [
        prefill(1, 20, 0).with_wall_time(0.010),
        ForwardPassMetrics::default().with_wall_time(0.020),
        ForwardPassMetrics::default().with_wall_time(f64::NAN),
    ];
    assert_eq!(
        observe(&ranks),
        Observed::Learned(WorkloadKind::PurePrefill, 20.0)
    );
    let diagnostics = model.diagnostics();
    assert_eq!(
        (
            diagnostics.retained_observations,
            diagnostics.idle_observations
        ),
        (2, 2)
    );
    assert_eq!(diagnostics.rejected_observations["no_positive_time"], 2);
    assert_eq!(diagnostics.rejected_observations["non_finite_time"], 2);
    assert_eq!(diagnostics.rejected_observations["implausible_duration"], 2);
}

#[test]
fn one_iteration_of_many_ranks_is_one_observation() {
    // Case A17: four ranks repeat the same wall time.
    let mut model = model(WorkerType::Decode);
    let ranks = vec![decode(2, 100).with_wall_time(0.020); 4];
    assert_eq!(
        model.observe(&ranks),
        Ok(Observed::Learned(WorkloadKind::PureDecode, 20.0))
    );
    assert_eq!(model.diagnostics().accepted_observations, 1);
}

/// An iteration of each kind whose features are (attention, tokens), on two ranks.
fn of_kind(kind: WorkloadKind, attention: u64, tokens: u64) -> Vec<ForwardPassMetrics> {
    match kind {
        WorkloadKind::PureDecode => vec![decode(tokens, attention)],
        // One prefill token on `h` cached ones scores h + h + 1/2 + 1/2.
        WorkloadKind::PurePrefill => vec![prefill(1, tokens, attention)],
        WorkloadKind::ContainsLocallyMixed => {
            vec![
                prefill(1, 1, 0).with_decode(tokens, attention),
                decode(1, 0),
            ]
        }
        _ => vec![prefill(1, 1, 0), decode(tokens, attention)],
    }
}

#[test]
fn each_kind_learns_from_its_own_work_alone() {
    // As specification vector 9 and case A10: stores with intercepts 10, 20, 30, 40 stay apart.
    let mut model = model(WorkerType::Aggregated);
    let kinds = WorkerType::Aggregated.kinds();
    let loads = [(3, 2), (6, 3), (6, 2), (10, 4), (10, 3)];
    for (index, &kind) in kinds.iter().enumerate() {
        for other in &kinds[index..] {
            let forecast = model.forecast(&of_kind(*other, 14, 3)).unwrap();
            assert_eq!((forecast.ms, forecast.reason), (None, Some(Reason::Cold)));
        }
        for (attention, tokens) in loads {
            let mut ranks = of_kind(kind, attention, tokens);
            let [x0, x1] = features(&ranks, WorkerType::Aggregated, ONES);
            let latency_ms = 10.0 * (index + 1) as f64 + 2.0 * x0 + 3.0 * x1;
            ranks[0].wall_time = latency_ms / 1000.0;
            assert!(matches!(model.observe(&ranks), Ok(Observed::Learned(of, _)) if of == kind));
        }
    }
    for (index, &kind) in kinds.iter().enumerate() {
        let ranks = of_kind(kind, 14, 3);
        let [x0, x1] = features(&ranks, WorkerType::Aggregated, ONES);
        let expected = 10.0 * (index + 1) as f64 + 2.0 * x0 + 3.0 * x1;
        let forecast = model.forecast(&ranks).unwrap();
        assert!((forecast.ms.unwrap() - expected).abs() < 1e-9 * expected);
        assert_eq!(
            (forecast.source, forecast.kind),
            (Some(Source::Linear), Some(kind))
        );
    }
}

#[test]
fn a_forecast_is_never_below_its_floor() {
    // Specification vector 14: y = x - 5 at x = 6..10 is -4 at x = 1.
    let mut model = model(WorkerType::Decode);
    for kv in 6..=10 {
        model
            .observe(&[decode(1, kv).with_wall_time((kv - 5) as f64 / 1000.0)])
            .unwrap();
    }
    let forecast = model.forecast(&[decode(1, 1)]).unwrap();
    assert_eq!(
        (forecast.ms, forecast.reason),
        (Some(1e-6), Some(Reason::Extrapolating))
    );
    assert_eq!(model.forecast(&[decode(1, 8)]).unwrap().reason, None);
}

#[test]
fn without_a_load_signal_there_is_no_answer_and_a_reason() {
    // Specification vector 16 and cases A1, B10, B12.
    let observe = |rows: &[(u64, u64, f64)]| {
        let mut model = model(WorkerType::Decode);
        for &(requests, kv, ms) in rows {
            model
                .observe(&[decode(requests, kv).with_wall_time(ms / 1000.0)])
                .unwrap();
        }
        let forecast = model.forecast(&[decode(4, 4000)]).unwrap();
        assert_eq!(model.diagnostics().ready, forecast.ms.is_some());
        assert_eq!(model.diagnostics().stores[0].reason, forecast.reason);
        (forecast.ms, forecast.reason)
    };
    let falling = [
        (1, 1000, 40.0),
        (2, 2000, 30.0),
        (4, 4100, 20.0),
        (8, 7900, 10.0),
    ];
    assert_eq!(observe(&falling), (None, Some(Reason::Cold)));
    let falling = [
        falling[0],
        falling[1],
        falling[2],
        falling[3],
        (16, 16000, 5.0),
    ];
    assert_eq!(observe(&falling), (None, Some(Reason::NoLoadSignal)));
    assert_eq!(
        observe(&[(8, 8000, 13.0); 8]),
        (None, Some(Reason::ConstantLoad))
    );
}

#[test]
fn idle_passes_teach_nothing_however_many() {
    // Case B9: ten thousand heartbeats, then work.
    let mut model = model(WorkerType::Aggregated);
    for _ in 0..10_000 {
        assert_eq!(
            model.observe(&[ForwardPassMetrics::default()]),
            Ok(Observed::Idle)
        );
    }
    for requests in 1..=6 {
        model
            .observe(&[decode(requests, requests).with_wall_time(0.01 * requests as f64)])
            .unwrap();
    }
    let ms = model.predict(&[decode(10, 10)]).unwrap().unwrap();
    assert!((ms - 100.0).abs() < 1e-9);
}

#[test]
fn more_load_extrapolates_along_the_line() {
    // Case A12: y = 5 + 0.02 P on P = 512..4096; 32,768 tokens follow the line to 660.36 ms in
    // tokens (the attention pairs have no price here), never the largest latency seen.
    let mut estimator = EstimatorConfig::default();
    estimator.features.prefill_attention_pair = 1e-300;
    let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Prefill, estimator);
    let mut model = ForwardPassModel::new(config.check().unwrap()).unwrap();
    for tokens in (512..=4096).step_by(256) {
        let ms = 5.0 + 0.02 * tokens as f64;
        model
            .observe(&[prefill(1, tokens, 0).with_wall_time(ms / 1000.0)])
            .unwrap();
    }
    let forecast = model.forecast(&[prefill(1, 32_768, 0)]).unwrap();
    assert!((forecast.ms.unwrap() - 660.36).abs() < 1e-6);
    assert_eq!(forecast.reason, Some(Reason::Extrapolating));
}

#[test]
fn readiness_at_the_limit_of_retention() {
    // Case A7: 64 of 64 becomes ready on the 64th observation.
    let estimator = EstimatorConfig::from_json(
        br#"{"fpm_regression": {"min_observations": 64, "sampling": {"max_observations": 64}}}"#,
    );
    let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Decode, estimator.unwrap());
    let mut model = ForwardPassModel::new(config.check().unwrap()).unwrap();
    for i in 1..=64 {
        assert_eq!(model.predict(&[decode(1, 1)]), Ok(None));
        model
            .observe(&[decode(i, 10 * i).with_wall_time(0.001 * i as f64)])
            .unwrap();
    }
    assert!(model.predict(&[decode(1, 1)]).unwrap().is_some());
}

#[test]
fn a_copy_goes_its_own_way() {
    let mut original = model(WorkerType::Decode);
    let learn = |model: &mut ForwardPassModel, slope: f64| {
        for i in 1..=8 {
            let step = decode(i, 10 * i).with_wall_time(0.001 * slope * i as f64);
            model.observe(&[step]).unwrap();
        }
    };
    learn(&mut original, 1.0);
    let mut copy = original.clone();
    let before = original.predict(&[decode(4, 40)]);
    learn(&mut copy, 9.0);
    assert_eq!(original.predict(&[decode(4, 40)]), before);
    assert_ne!(copy.predict(&[decode(4, 40)]), before);
}

#[test]
fn an_error_names_the_rank_and_the_field() {
    let ranks = [decode(1, 10), prefill(0, 5, 0)];
    let error = model(WorkerType::Aggregated).predict(&ranks).unwrap_err();
    assert_eq!(error.path(), "[1].scheduled_requests.sum_prefill_tokens");
    assert!(matches!(error, Error::Metrics { .. }));
    assert!(
        error.to_string().contains("num_prefill_requests"),
        "{error}"
    );
}
