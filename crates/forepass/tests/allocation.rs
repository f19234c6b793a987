//! Learning and forecasting in the steady state allocate nothing.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests
#![allow(unsafe_code)] // an allocator that counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::{ForwardPassMetrics, ForwardPassModel, WorkerType};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        HELD_BYTES.with(|held| held.set(held.get() + layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.with(|held| held.set(held.get().saturating_sub(layout.size())));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// Steps of all kinds with varying load.
fn steps(count: u64) -> Vec<[ForwardPassMetrics; 2]> {
    (0..count)
        .map(|i| {
            let decode = ForwardPassMetrics::decode(1 + i * 7 % 31, 1000 + i * 7919 % 50_000);
            let prefill = ForwardPassMetrics::prefill(1, 1 + i * 31 % 4000, i * 17 % 1000);
            let wall_time = 0.005 + 1e-7 * (i * 7919 % 50_000) as f64 + 1e-5 * (i % 13) as f64;
            let ranks = match i % 4 {
                0 => [prefill.clone(), prefill],
                1 => [prefill, decode],
                2 => [decode.clone(), decode],
                _ => [prefill.with_decode(3, 3000), decode],
            };
            ranks.map(|rank| rank.with_wall_time(wall_time))
        })
        .collect()
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0_u8; 100]))), 1);
}

const AUTO: &str = r#"{"kind": "auto"}"#;

const FITS: [&str; 4] = [
    AUTO,
    r#"{"kind": "linear"}"#,
    r#"{"kind": "spline"}"#,
    r#"{"kind": "spline", "spline": {"knots_per_axis": 3, "search": {"kind": "periodic", "step": 64}}}"#,
];

fn model(worker_type: WorkerType, fit: &str) -> ForwardPassModel {
    let estimator = format!(r#"{{"fpm_regression": {{"fit": {fit}}}}}"#);
    let estimator = EstimatorConfig::from_json(estimator.as_bytes()).unwrap();
    let config = ForwardPassPerfModelConfig::for_worker(worker_type, estimator);
    ForwardPassModel::new(config.check().unwrap())
}

#[test]
fn the_steady_state_allocates_nothing() {
    for fit in FITS {
        let mut model = model(WorkerType::Aggregated, fit);
        let steps = steps(6000);
        for step in &steps[..1000] {
            model.observe(step).unwrap();
        }
        let mut answered = 0;
        let count = allocations(|| {
            for step in &steps[1000..] {
                answered += u32::from(model.predict(step).unwrap().is_some());
                model.observe(step).unwrap();
            }
        });
        assert_eq!(count, 0, "{fit}");
        assert!(answered > 3000, "{answered} answered with {fit}");
    }
}

#[test]
fn even_the_first_steps_allocate_nothing_but_for_a_least_squares_spline() {
    for fit in [AUTO, r#"{"kind": "linear"}"#] {
        let mut model = model(WorkerType::Aggregated, fit);
        let steps = steps(200);
        let count = allocations(|| {
            for step in &steps {
                model.observe(step).unwrap();
            }
        });
        assert_eq!(count, 0, "{fit}");
    }
}

#[test]
fn a_store_is_small() {
    for fit in FITS {
        let before = HELD_BYTES.with(Cell::get);
        let mut model = model(WorkerType::Decode, fit);
        for i in 0..5000_u64 {
            let step = ForwardPassMetrics::decode(1 + i * 7 % 31, 1000 + i * 7919 % 50_000);
            let latency_s = 0.005 + 1e-7 * (i * 7919 % 50_000) as f64 + 1e-4 * (i % 13) as f64;
            model.observe(&[step.with_wall_time(latency_s)]).unwrap();
        }
        let held = HELD_BYTES.with(Cell::get) - before;
        let held = held + size_of::<ForwardPassModel>();
        println!("{held} bytes with {fit}");
        // Room to refit and to search from weighed rows, and 256 past errors, twice 2 KiB.
        let bound = if fit == AUTO { 52 } else { 36 };
        assert!(held < bound * 1024, "{held} bytes with {fit}");
    }
}
