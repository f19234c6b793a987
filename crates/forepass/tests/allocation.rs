//! Learning and forecasting in the steady state allocate nothing.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests
#![allow(unsafe_code)] // an allocator that counts

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::{ForwardPassMetrics, ForwardPassModel, WorkerType};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
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
    assert_eq!(
        allocations(|| drop(std::hint::black_box(vec![0_u8; 100]))),
        1
    );
}

#[test]
fn the_steady_state_allocates_nothing() {
    let config =
        ForwardPassPerfModelConfig::for_worker(WorkerType::Aggregated, EstimatorConfig::default());
    let mut model = ForwardPassModel::new(config.check().unwrap()).unwrap();
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
    assert_eq!((count, answered), (0, 5000));
}

#[test]
fn even_the_first_steps_allocate_nothing() {
    let config =
        ForwardPassPerfModelConfig::for_worker(WorkerType::Aggregated, EstimatorConfig::default());
    let mut model = ForwardPassModel::new(config.check().unwrap()).unwrap();
    let steps = steps(200);
    let count = allocations(|| {
        for step in &steps {
            model.observe(step).unwrap();
        }
    });
    assert_eq!(count, 0);
}
