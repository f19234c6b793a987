//! Streams of records made by hand, and what is told of them.

use std::slice::from_ref;

use super::*;

fn record(worker: &str, rank: u32, counter: u64, wall_time: f64) -> ForwardPassMetrics {
    ForwardPassMetrics {
        worker_id: worker.to_owned(),
        dp_rank: rank,
        counter_id: counter,
        wall_time,
        ..ForwardPassMetrics::default()
    }
}

/// The code of each iteration's fault, and what is told meanwhile and at the end.
fn follow(iterations: &[&[ForwardPassMetrics]]) -> (Vec<&'static str>, Vec<String>) {
    let (mut streams, mut told) = (Streams::default(), Vec::new());
    let mut codes = Vec::new();
    for ranks in iterations {
        let iteration = Iteration { ranks: ranks.to_vec(), ..Iteration::default() };
        let followed = streams.follow(&iteration, &mut |text| told.push(text));
        codes.push(followed.err().map_or("", |error| error.code()));
    }
    told.extend(streams.conclude());
    (codes, told)
}

/// The same for one worker with one rank, whose duration tells its records apart.
fn follow_one(records: impl IntoIterator<Item = (u64, f64)>) -> (Vec<&'static str>, Vec<String>) {
    let records: Vec<_> = records.into_iter().map(|(n, s)| record("a", 0, n, s)).collect();
    follow(&records.iter().map(from_ref).collect::<Vec<_>>())
}

#[test]
fn a_record_that_comes_twice_counts_once() {
    let one = record("a", 0, 7, 0.5);
    let (codes, told) = follow(&[
        from_ref(&one),
        &[record("b", 0, 7, 0.5)],
        from_ref(&one),
        &[record("a", 0, 7, 0.25)],
        &[record("a", 0, 0, 0.5)],
        &[record("a", 0, 0, 0.5)],
        &[record("a", 0, 8, 0.5), record("a", 1, 8, 0.5)],
        &[record("a", 0, 8, 0.5), record("a", 1, 8, 0.5)],
    ]);
    assert_eq!(codes, ["", "", "duplicate_counter", "", "", "", "", "duplicate_counter"]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("counter 7 of worker `a` stands on two records"), "{told:?}");
}

#[test]
fn a_block_that_comes_again_is_skipped_as_a_whole() {
    // Records 1 to 99, then 50 to 99 once more, then 100 on.
    let step = |counter: u64| (counter, counter as f64);
    let (codes, told) = follow_one((1..100).chain(50..100).chain(100..103).map(step));
    let expected = [vec![""; 99], vec!["duplicate_counter"; 50], vec![""; 3]].concat();
    assert_eq!((codes, told), (expected, Vec::new()));
}

#[test]
fn a_recording_with_a_restart_that_comes_again_is_skipped_as_a_whole() {
    let run = |last: u64, offset: f64| (1..=last).map(move |n| (n, n as f64 + offset));
    let whole = || run(100, 0.0).chain(run(50, 0.5));
    let (codes, _) = follow_one(whole().chain(whole()));
    assert_eq!(codes, [vec![""; 150], vec!["duplicate_counter"; 150]].concat());
}

#[test]
fn a_restart_is_no_repetition_even_where_its_heartbeats_look_alike() {
    let run = |s: f64| [(1, 0.0), (2, 0.0), (3, s), (4, 0.0)];
    let (codes, told) = follow_one(run(0.5).into_iter().chain(run(0.25)));
    assert_eq!((codes, told), (vec![""; 8], Vec::new()));
    // In a block that comes again, heartbeats go with the steps before them.
    let (codes, _) = follow_one([(1, 0.5), (2, 0.0), (3, 0.25)].into_iter().chain([
        (1, 0.5),
        (2, 0.0),
        (3, 0.25),
    ]));
    assert_eq!(codes[3..], ["duplicate_counter"; 3]);
}

#[test]
fn scopes_are_not_mixed_within_an_iteration_and_told_between_them() {
    let scoped = |rank, counter, scope: Option<&str>| ForwardPassMetrics {
        timing_scope: scope.map(ToOwned::to_owned),
        ..record("", rank, counter, 0.5)
    };
    let iterations = [
        [scoped(0, 1, Some("x")), scoped(1, 1, Some("x"))],
        [scoped(0, 2, Some("x")), scoped(1, 2, Some("y"))],
        [scoped(0, 3, Some("x")), scoped(1, 3, None)],
        [scoped(0, 4, None), scoped(1, 4, None)],
        [scoped(0, 5, Some("x")), scoped(1, 5, Some("x"))],
        [scoped(0, 6, None), scoped(1, 6, None)],
    ];
    let iterations: Vec<&[_]> = iterations.iter().map(<[_; 2]>::as_slice).collect();
    let (codes, told) = follow(&iterations);
    assert_eq!(codes, ["", "mixed_timing_scope", "mixed_timing_scope", "", "", ""]);
    assert!(told[0].starts_with("worker (no id) changes its timing scope from `x` to none"));
    // From x to none, back, and to none again.
    assert_eq!(told[1..], ["the timing scope changes 3 times in all"]);
    assert_eq!(follow(&iterations[..4]).1.len(), 1);
}

#[test]
fn durations_in_another_unit_are_doubted_once_a_worker() {
    let mut streams = Streams::default();
    for step in 0..100_u32 {
        // One step of 5 ms every 10 ms, told as 5 s by both ranks of a, and right by b.
        let counter = u64::from(step) + 1;
        let ranks = [record("a", 0, counter, 5.0), record("a", 1, counter, 5.0)];
        for ranks in [ranks.to_vec(), vec![record("b", 0, counter, 0.005)]] {
            let time_ms = Some(10.0 * f64::from(step));
            let iteration = Iteration { ranks, time_ms, ..Iteration::default() };
            streams.follow(&iteration, &mut |text| panic!("{text}")).unwrap();
        }
    }
    let told = streams.conclude();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("worker `a`: 500.000 s of forward passes in 0.990 s"), "{told:?}");
}
