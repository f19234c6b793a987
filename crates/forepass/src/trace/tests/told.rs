//! What is told beside the iterations: once, and of the right place.

use super::*;

#[test]
fn entries_of_one_line_are_told_apart() {
    let entry = |iter: u32, ms: &str| {
        format!(r#"{{"iter": {iter}, "{ms}": 1.5, "inflightBatchingStats": {{}}}}"#)
    };
    let first = entry(1, "gpuForwardTimeMS");
    let bad = entry(2, "ms");
    let (other, back) = (entry(3, "iterLatencyMS"), entry(4, "gpuForwardTimeMS"));
    let text = format!("[{first}, {first}, {bad}, {other}, {back}]");
    let (_, summary) = finish(open(text).unwrap());
    let places: Vec<_> = summary.faults.iter().map(ToString::to_string).collect();
    assert!(places[0].starts_with("t:1: entry 2: counter_id: 1 of worker (no id)"), "{places:?}");
    assert!(places[1].starts_with("t:1: entry 3: gpuForwardTimeMS: absent"), "{places:?}");
    let warnings = &summary.warnings;
    let scope = "t:1: entry 4: worker (no id) changes its timing scope from `gpu_forward` to ";
    assert!(warnings.iter().any(|told| told.starts_with(scope)), "{warnings:?}");
    let count = "t: the timing scope changes 2 times in all";
    assert_eq!(warnings.last().map(String::as_str), Some(count));
}

#[test]
fn what_is_cut_is_told_once() {
    let whole = "[{\"gpuForwardTimeMS\": 1, \"inflightBatchingStats\": {}}, {\"iter\": ";
    let (_, summary) = finish(open_with(whole, &strict()).unwrap());
    assert_eq!((summary.skipped["truncated"], summary.warnings.len()), (1, 0), "{summary:?}");
    let (_, summary) = finish(open_with(&whole[..whole.len() - 10], &strict()).unwrap());
    assert_eq!((summary.skipped.len(), summary.warnings.len()), (0, 1), "{summary:?}");
}

#[test]
fn durations_that_do_not_fit_between_the_times_of_arrival_are_doubted() {
    let line = |n: u32| {
        let (counter, time) = (n + 1, 10 * n);
        format!("{{\"recv_ms\": {time}, \"counter_id\": {counter}, \"wall_time\": 5.0}}\n")
    };
    let text: String = (0..100).map(line).collect();
    let mut reader = open(text).unwrap();
    while reader.next().is_some() {}
    assert!(reader.next().is_none());
    let told = &reader.summary().warnings;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("t: worker (no id): 500.000 s of forward passes in 0.990 s"));
    assert!(told[0].contains("is it in milliseconds here"), "{told:?}");
}
