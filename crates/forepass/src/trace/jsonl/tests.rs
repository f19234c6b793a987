//! Envelopes, lists and faults of lines of records.

use super::super::lines::LineEnd;
use super::*;

const RECORD: &str = r#"{"version":1,"worker_id":"7","dp_rank":0,"counter_id":9,
    "wall_time":0.25,"scheduled_requests":{"num_decode_requests":2,"sum_decode_kv_tokens":50},
    "queued_requests":{}}"#;

fn read(text: &str) -> Result<Vec<ForwardPassMetrics>> {
    let mut iteration = Iteration::default();
    parse(text.as_bytes(), &mut iteration).map(|()| iteration.ranks)
}

fn fault(text: &str) -> (&'static str, String, String) {
    let error = read(text).unwrap_err();
    (error.code(), error.path(), error.to_string())
}

#[test]
fn every_envelope_encloses_the_same_record() {
    let mut expected = ForwardPassMetrics::decode(2, 50).with_wall_time(0.25);
    expected.worker_id = "7".to_owned();
    expected.counter_id = 9;
    for text in [
        RECORD.to_owned(),
        format!(r#"{{"fpm":{RECORD},"recv_ms":5}}"#),
        format!(
            r#"{{"timestamp":1250,"event":{{"schema":"dynamo.fpm.trace.v1","source":
            {{"namespace":"n"}},"fpm":{RECORD},"capture_mode":"full"}}}}"#
        ),
        format!(
            r#"{{"namespace":"n","component":"c","publisher_id":1,"sequence":2,
            "published_at_ms":3,"metrics":{RECORD}}}"#
        ),
        format!(r#"{{"received_at_ns":1796029231949262877,"metrics":{RECORD}}}"#),
        format!(r#"{{"\u006detrics":{RECORD}}}"#),
    ] {
        assert_eq!(read(&text).unwrap(), [expected.clone()], "{text}");
    }
}

#[test]
fn the_flat_form_of_offline_replays_is_read() {
    let text = r#"{"worker_id":"w","wall_time":0.25,"num_decode_requests":2,
        "sum_decode_kv_tokens":50,"num_queued_prefill":1}"#;
    let ranks = read(text).unwrap();
    assert_eq!(ranks[0].scheduled_requests.sum_decode_kv_tokens, 50);
    assert_eq!(ranks[0].queued_requests.num_prefill_requests, 1);
}

#[test]
fn a_list_is_one_iteration_of_several_ranks() {
    let text = format!(r#"[{RECORD},{{"metrics":{RECORD}}},{{"dp_rank":2,"wall_time":0}}]"#);
    let ranks = read(&text).unwrap();
    assert_eq!(ranks.len(), 3);
    assert_eq!(ranks[0], ranks[1]);
    assert_eq!(ranks[2].dp_rank, 2);
    assert!(fault("[]").2.contains("it holds no records and no statistics"));
    assert!(fault("[[]]").2.contains("expected an object"));
}

#[test]
fn an_object_without_a_record_is_no_idle_step() {
    for text in [
        "{}",
        r#"{"level":"info","msg":"started"}"#,
        r#"{"version":1,"worker_id":"w"}"#,
        r#"{"fpm":{}}"#,
        r#"{"metrics":{"cpu":1}}"#,
        r#"{"event":{"fpm":{"version":1}}}"#,
    ] {
        let (code, _, message) = fault(text);
        assert_eq!(code, "malformed", "{text}");
        assert!(message.contains("no forward-pass record"), "{message}");
    }
    assert!(fault(r#"{"event":{}}"#).2.contains("missing field `fpm`"));
    assert!(fault(r#"{"event":"start"}"#).2.contains("expected an object"));
}

#[test]
fn two_records_on_a_line_are_refused() {
    for text in [
        format!(r#"{{"fpm":{RECORD},"metrics":{RECORD}}}"#),
        format!(r#"{{"metrics":{RECORD},"metrics":{RECORD}}}"#),
        format!(r#"{{"metrics":{RECORD},"wall_time":0.5}}"#),
        format!("{RECORD} {RECORD}"),
    ] {
        assert_eq!(fault(&text).0, "malformed", "{text}");
    }
}

#[test]
fn a_fault_names_its_place_and_what_would_be_right() {
    let text = RECORD.replace("50", "50.0");
    for (text, path) in [
        (text.clone(), "scheduled_requests"),
        (format!(r#"{{"event":{{"fpm":{text}}}}}"#), "event.fpm.scheduled_requests"),
        (format!(r#"[{RECORD},{{"metrics":{text}}}]"#), "[1].metrics.scheduled_requests"),
    ] {
        let (code, found, message) = fault(&text);
        assert_eq!(code, "malformed");
        assert_eq!(found, format!("{path}.sum_decode_kv_tokens"));
        assert!(message.contains("`50.0`"), "{message}");
        assert!(message.contains("a nonnegative integer"), "{message}");
    }
}

#[test]
fn a_broken_invariant_keeps_its_own_code() {
    let text = format!(r#"{{"metrics":{}}}"#, RECORD.replace(r#""version":1"#, r#""version":999"#));
    let (code, path, _) = fault(&text);
    assert_eq!((code, &*path), ("unsupported_version", "metrics.version"));
    let (code, path, _) = fault(r#"[{"wall_time":1},{"fpm":{"num_decode_requests":1}}]"#);
    assert_eq!((code, &*path), ("invalid_field", "[1].fpm.sum_decode_kv_tokens"));
}

#[test]
fn an_impossible_duration_is_left_to_the_model() {
    for wall_time in ["0", "-1", "1e9"] {
        assert!(read(&format!(r#"{{"wall_time":{wall_time}}}"#)).is_ok());
    }
    for wall_time in ["NaN", "Infinity", "1e400", "null"] {
        let (code, path, _) = fault(&format!(r#"{{"wall_time":{wall_time}}}"#));
        assert_eq!((code, &*path), ("malformed", "wall_time"));
    }
}

#[test]
fn a_cut_record_is_told_from_a_wrong_one() {
    let is_cut = |text: &[u8]| {
        let end = LineEnd::EndOfText;
        FpmJsonl.is_cut(&TextLine { text, number: 1, entry: None, end })
    };
    let text: String = format!(r#"{{"metrics":{RECORD}}}"#).replace('\n', " ");
    for cut in 1..text.len() {
        assert!(is_cut(&text.as_bytes()[..cut]), "{}", &text[..cut]);
    }
    assert!(!is_cut(text.as_bytes()));
    assert!(!is_cut(br#"{"wall_time":NaN}"#));
    assert!(fault(&text[..40]).2.contains("the line ends inside the record"));
}

#[test]
fn envelopes_tell_time_and_producer() {
    let around = |text: &str| {
        let mut iteration = Iteration::default();
        parse(text.as_bytes(), &mut iteration).unwrap();
        (iteration.time_ms, iteration.producer)
    };
    for (text, time_ms, producer) in [
        (RECORD.to_owned(), None, ""),
        (format!(r#"{{"fpm":{RECORD},"recv_ms":5}}"#), Some(5.0), ""),
        (
            format!(
                r#"{{"timestamp":1250,"event":{{"source":{{"producer_id":"4192"}},
                "observed_at_unix_ms":1782777601250,"fpm":{RECORD}}}}}"#
            ),
            Some(1_782_777_601_250.0),
            "4192",
        ),
        (
            format!(r#"{{"publisher_id":12,"published_at_ms":3.5,"metrics":{RECORD}}}"#),
            Some(3.5),
            "12",
        ),
        (format!(r#"{{"received_at_ns":2500000,"metrics":{RECORD}}}"#), Some(2.5), ""),
        (format!(r#"{{"received_at_ns":null,"metrics":{RECORD},"publisher_id":[]}}"#), None, ""),
        (
            format!(r#"[{{"_recv_ts":1.5,"metrics":{RECORD}}},{{"dp_rank":1,"wall_time":0}}]"#),
            Some(1500.0),
            "",
        ),
    ] {
        assert_eq!(around(&text), (time_ms, producer.to_owned()), "{text}");
    }
}

#[test]
fn an_iteration_of_grouped_ranks_is_whole_or_refused() {
    let text = format!(
        r#"{{"version":1,"iteration_id":"a","grouping":{{"method":"benchmark_id"}},
        "expected_dp_ranks":[0,1],"complete":true,"max_rank_wall_time":0.25,
        "rank_measurements":[{{"dp_rank":1,"wall_time":0.1}},{RECORD}]}}"#
    );
    assert_eq!(read(&text).unwrap().len(), 2);
    for (broken, code, path) in [
        (text.replace("true", "false"), "incomplete_iteration", "complete"),
        (text.replace("[0,1]", "4"), "incomplete_iteration", "rank_measurements"),
        (
            text.replace(r#""dp_rank":1"#, r#""dp_rank":0"#),
            "incomplete_iteration",
            "rank_measurements",
        ),
        (
            text.replace(r#""dp_rank":1"#, r#""num_decode_requests":1"#),
            "invalid_field",
            "rank_measurements[0].sum_decode_kv_tokens",
        ),
    ] {
        let (found, place, _) = fault(&broken);
        assert_eq!((found, &*place), (code, path));
    }
    assert_eq!(fault(&text.replace("\"complete\"", "\"wall_time\":1,\"complete\"")).0, "malformed");
}

#[test]
fn a_group_has_each_rank_once() {
    let group = |text: &str| {
        FpmGroups.parse(text.as_bytes(), &mut Iteration::default()).map_err(|e| e.code())
    };
    let rank = |rank| format!(r#"{{"wall_time":1,"dp_rank":{rank}}}"#);
    assert_eq!(group(&format!("[{},{}]", rank(1), rank(0))), Ok(true));
    for (one, other) in [(0, 0), (1, 2), (0, 2)] {
        let text = format!("[{},{}]", rank(one), rank(other));
        assert_eq!(group(&text), Err("incomplete_iteration"));
    }
}
