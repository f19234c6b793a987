//! The search by sums against refitting every candidate from the rows.

use proptest::prelude::*;

use super::super::plain::learn_plainly;
use super::*;

fn same_knots(rows: &[Observation], knots: usize, previous: Option<&Basis>) -> Basis {
    let (fast, fitted) = if knots > 2 {
        let found = learn::<8, 9>(&mut Search::default(), rows.iter(), knots, previous);
        (found.0, found.2)
    } else {
        let found = learn::<6, 7>(&mut Search::default(), rows.iter(), knots, previous);
        (found.0, found.2)
    };
    let (plain, plainly) = learn_plainly(rows, knots, previous);
    assert_eq!(fast, plain);
    let sse = |fitted: Option<Fitted>| fitted.map(|fitted| fitted.sse);
    assert_eq!(sse(fitted), sse(plainly));
    fast
}

fn observations(rows: &[(f64, f64, f64)]) -> Vec<Observation> {
    rows.iter().map(|&(a, f, y)| Observation { features: [a, f], latency_ms: y }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_search_by_sums_chooses_the_knots_of_plain_refits(
        rows in prop::collection::vec((0..2000u32, 0..40u32, 0.0..1.0f64, 0..50u8), 6..80),
        step in prop::sample::select(vec![1, 7, 400]),
        knots in 2..4usize,
        linked in any::<bool>(),
    ) {
        let rows: Vec<_> = rows
            .iter()
            .map(|&(a, f, noise, spike)| {
                let a = f64::from(a / step * step);
                let f = if linked { (a / 100.0).floor() } else { f64::from(f) };
                let y = 5.0 + 0.01 * a.min(700.0) + 0.002 * a + (f - 12.0).max(0.0) + noise;
                (a, f, if spike == 0 { 100.0 * y } else { y })
            })
            .collect();
        let rows = observations(&rows);
        let first = same_knots(&rows, knots, None);
        same_knots(&rows[rows.len() / 3..], knots, Some(&first));
    }
}

#[test]
fn the_search_chooses_the_knots_of_plain_refits_on_every_recording() {
    use crate::retention::Retention;
    use crate::trace::{ReadOptions, TraceReader};
    use crate::workload::{FeatureWeights, WorkerType, Workload, observed_ms};

    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    let folder = std::env::var("FOREPASS_TRACES").unwrap_or_else(|_| beside.to_owned());
    let groups = ["b300", "cpu"].map(|group| std::path::Path::new(&folder).join(group));
    if !groups.iter().all(|group| group.is_dir()) {
        eprintln!("skipped: there are no recordings in {folder}");
        return;
    }
    let files = groups.iter().flat_map(|group| std::fs::read_dir(group).unwrap());
    let mut searches = 0;
    for file in files.map(|file| file.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "gz") {
            continue;
        }
        let mut stores: std::collections::BTreeMap<_, (Retention, u64, Option<Basis>)> =
            std::collections::BTreeMap::new();
        for iteration in TraceReader::open(&file, &ReadOptions::default()).unwrap() {
            let ranks = iteration.unwrap().ranks;
            let weights = FeatureWeights::default();
            let workload = Workload::of(&ranks, WorkerType::Aggregated, &weights).unwrap();
            let (Some(workload), Ok(latency_ms)) = (workload, observed_ms(&ranks)) else {
                continue;
            };
            let (retention, accepted, basis) = stores
                .entry(workload.kind)
                .or_insert_with(|| (Retention::new([4, 4], 64), 0, None));
            retention.insert(Observation { features: workload.features, latency_ms });
            *accepted += 1;
            // The periodic schedule: at 32, then at every multiple of 64.
            if *accepted == 32 || *accepted % 64 == 0 {
                let rows: Vec<_> = retention.observations().copied().collect();
                *basis = Some(same_knots(&rows, 2, basis.as_ref()));
                searches += 1;
            }
        }
    }
    assert!(searches > 1000, "{searches}");
}
