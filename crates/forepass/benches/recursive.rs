//! Recursive updates of the linear fit against batch refits of the same window, as ratios.
//!
//! `cargo bench -p forepass --bench recursive` prints one JSON object; without `--bench` (as in
//! `cargo test --benches`) it runs a few rows only, to show that it works.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use forepass::linear::{self, COLUMNS, LinearFit, LinearParams};
use forepass::moments::Moments;
use forepass::nnls::{self, NormalEquations};

/// Decode-like rows: KV tokens and requests that vary on their own, latency with noise.
fn row(i: u64) -> [f64; COLUMNS] {
    let hashed = |salt: u64| {
        let mixed = (i ^ salt << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40
    };
    let (kv, requests) = ((hashed(1) % 60_000) as f64, (1 + hashed(2) % 64) as f64);
    [kv, requests, 5.0 + 1e-4 * kv + 0.05 * requests + 1e-3 * (hashed(3) % 100) as f64]
}

/// The plainest batch fit: means, then products of deviations, in ordinary precision.
fn plain_batch(window: &VecDeque<[f64; COLUMNS]>) -> f64 {
    let n = window.len() as f64;
    let mut mean = [0.0; COLUMNS];
    for row in window {
        for i in 0..COLUMNS {
            mean[i] += row[i] / n;
        }
    }
    let mut scatter = [[0.0; COLUMNS]; COLUMNS];
    for row in window {
        let d: [f64; COLUMNS] = std::array::from_fn(|i| row[i] - mean[i]);
        for i in 0..COLUMNS {
            for j in 0..=i {
                scatter[i][j] += d[i] * d[j];
            }
        }
    }
    let problem = NormalEquations {
        gram: [[scatter[0][0], scatter[1][0]], [scatter[1][0], scatter[1][1]]],
        rhs: [scatter[2][0], scatter[2][1]],
        target: scatter[2][2],
    };
    nnls::solve(&problem, 1e-9).map_or(0.0, |solution| solution.coefficients[0])
}

/// Median time of one update in each way, taking turns so that noise falls on all alike.
fn measure(retained: usize, rounds: usize, updates: usize) -> [f64; 3] {
    let params = LinearParams::default();
    let mut window: VecDeque<_> = (0..retained as u64).map(row).collect();
    let mut recursive = LinearFit::new(params);
    for index in 0..retained {
        recursive.update(&window[index], None, || window.iter().take(index + 1).copied());
    }
    let mut next = retained as u64;
    let mut times = [const { Vec::new() }; 3];
    let mut timed = |way: usize, work: &mut dyn FnMut()| {
        let start = Instant::now();
        for _ in 0..updates {
            work();
        }
        times[way].push(start.elapsed().as_secs_f64() * 1e9 / updates as f64);
    };
    for _ in 0..rounds {
        let (fit, rows) = (&mut recursive, &mut window);
        timed(0, &mut || {
            let (added, evicted) = (row(next), rows.pop_front().unwrap_or_default());
            rows.push_back(added);
            fit.update(&added, Some(&evicted), || rows.iter().copied());
            black_box(fit.model().is_ok());
            next += 1;
        });
        timed(1, &mut || {
            let mut moments = Moments::default();
            moments.rebuild(black_box(&window).iter().copied());
            black_box(linear::fit(&moments.centred(), &params).0.is_ok());
        });
        timed(2, &mut || {
            black_box(plain_batch(black_box(&window)));
        });
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let mut results = Vec::new();
    for (retained, rounds, updates) in [(64, 400, 500), (8192, 40, 50)] {
        let (rounds, updates) = if full { (rounds, updates) } else { (1, 5) };
        let ns = measure(retained, rounds, updates);
        results.push(serde_json::json!({
            "retained": retained,
            "recursive_ns": ns[0],
            "batch_ns": ns[1],
            "plain_batch_ns": ns[2],
            "batch_over_recursive": ns[1] / ns[0],
            "plain_batch_over_recursive": ns[2] / ns[0],
        }));
    }
    println!("{}", serde_json::json!({"benchmark": "recursive", "full": full, "results": results}));
}
