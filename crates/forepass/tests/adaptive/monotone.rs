//! More load never makes a forecast shorter, and nothing jumps at the edge of what is known.

use forepass::{ForwardPassMetrics, ForwardPassModel, WorkerType};
use proptest::prelude::*;

use crate::synthetic::{AUTO, Random, config};

/// The counts of one rank: prefill requests, tokens and cached tokens; decode requests and tokens.
type Counts = [u64; 5];

fn step([prefills, tokens, cached, decodes, kv_tokens]: Counts) -> [ForwardPassMetrics; 1] {
    [ForwardPassMetrics::prefill(prefills, tokens, cached).with_decode(decodes, kv_tokens)]
}

/// What a step does: decode, prefill, or both.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Decode,
    Prefill,
    Mixed,
}

const WORK: [Work; 3] = [Work::Decode, Work::Prefill, Work::Mixed];

/// A load of the largest size that `reach` allows, in orders of magnitude.
fn counts(random: &mut Random, work: Work, reach: f64) -> Counts {
    let mut size = |most: f64| (most.powf(random.uniform() * reach)).ceil().max(1.0) as u64;
    let prefill = [size(8.0), size(8192.0), size(50_000.0)];
    let decode = [size(256.0), size(500_000.0)];
    let [prefill, decode] = match work {
        Work::Decode => [[0; 3], [decode[0], decode[1], 0]],
        Work::Prefill => [prefill, [0; 3]],
        Work::Mixed => [prefill, [decode[0], decode[1], 0]],
    };
    // As many tokens as requests, at least.
    [prefill[0], prefill[1].max(prefill[0]), prefill[2], decode[0], decode[1].max(decode[0])]
}

/// A model after a random history: of one truth, then another, with spikes and noise.
fn history(random: &mut Random, rows: usize) -> ForwardPassModel {
    let mut model = ForwardPassModel::new(config(WorkerType::Aggregated, AUTO, "{}"));
    let mut price = || random.uniform().powi(3);
    let prices: [[f64; 4]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| price()));
    let knee = 100_000.0 * random.uniform();
    let noise = 0.3 * random.uniform().powi(2);
    for row in 0..rows {
        let work = WORK[random.between(0, 2) as usize];
        let load = counts(random, work, 0.9);
        let [_, tokens, cached, decodes, kv_tokens] = load.map(|count| count as f64);
        let [base, a, b, c] = prices[usize::from(row > rows / 2)];
        let ms = 1.0
            + 20.0 * base
            + 2e-2 * a * tokens
            + 1e-4 * b * (cached + kv_tokens)
            + 1e-3 * c * (kv_tokens - knee).max(0.0)
            + 0.1 * a * decodes;
        let spike = if random.uniform() < 0.01 { 300.0 } else { 1.0 };
        let ms = (ms * spike * (1.0 + noise * random.normal())).max(0.01);
        let [rank] = step(load);
        model.observe(&[rank.with_wall_time(ms / 1000.0)]).unwrap();
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn more_of_any_count_is_never_faster(seed in any::<u64>(), rows in 20_usize..900) {
        let mut random = Random(seed);
        let model = history(&mut random, rows);
        for query in 0..300 {
            let work = WORK[query % 3];
            let low = counts(&mut random, work, 1.1);
            // More prefills of as many tokens are shorter ones, of fewer pairs: not more load.
            let axis = match work {
                Work::Decode => random.between(3, 4),
                Work::Prefill => random.between(1, 2),
                Work::Mixed => random.between(1, 4),
            } as usize;
            let mut high = low;
            high[axis] += 1 + (low[axis] as f64 * random.uniform() * 3.0) as u64;
            let [a, b] = [low, high].map(|load| model.forecast(&step(load)).unwrap());
            if let (Some(shorter), Some(longer)) = (a.ms, b.ms) {
                prop_assert!(longer >= shorter * (1.0 - 1e-12), "{low:?}: {a:?}\n{high:?}: {b:?}");
            }
        }
    }

    #[test]
    fn nothing_jumps_at_the_edge_of_the_loads_that_are_kept(
        seed in any::<u64>(),
        rows in 20_usize..900,
    ) {
        let mut random = Random(seed);
        let model = history(&mut random, rows);
        for kind in WorkerType::Aggregated.kinds() {
            let store = model.store(*kind).unwrap();
            let range = store.retention().range();
            for query in 0..40 {
                let axis = query % 2;
                let edge = range[axis][query / 2 % 2];
                let mut load = range.map(|[_, greatest]| 1.5 * greatest * random.uniform());
                // A step of 2e-9 of the load costs at most so much, times its share of the latency
                // over its share of the box: far below a millionth.
                let [below, above] = [1.0 - 1e-9, 1.0 + 1e-9].map(|share| {
                    load[axis] = share * edge;
                    store.forecast(&load, None).ms
                });
                if let (Some(below), Some(above)) = (below, above) {
                    prop_assert!((above / below - 1.0).abs() < 1e-6, "{load:?}: {below} {above}");
                }
            }
        }
    }
}
