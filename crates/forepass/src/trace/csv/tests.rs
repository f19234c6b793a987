//! The layouts, and what is wrong with a header or a row.

use super::*;
use crate::metrics::ForwardPassMetrics;

const TRTLLM: &str = "wall_time_s,prefill_tokens,prefill_kv_tokens,prefill_requests,\
                      decode_kv_tokens,decode_requests";
const VLLM: &str = "phase,worker_id,dp_rank,counter_id,sum_prefill_tokens,\
                    num_prefill_requests,sum_prefill_kv_tokens,num_decode_requests,\
                    sum_decode_kv_tokens,queued_var_decode_kv_tokens,latency_ms";

fn table(header: &str) -> Table {
    Table::new(header.as_bytes(), None).unwrap()
}

fn read(header: &str, line: &str) -> Result<ForwardPassMetrics> {
    let mut iteration = Iteration::default();
    table(header).parse(line.as_bytes(), &mut iteration)?;
    assert_eq!(iteration.ranks.len(), 1);
    Ok(iteration.ranks.remove(0))
}

fn fault(header: &str, line: &str) -> (&'static str, String, String) {
    let error = read(header, line).unwrap_err();
    (error.code(), error.path(), error.to_string())
}

#[test]
fn the_vllm_layout_turns_milliseconds_into_seconds() {
    assert_eq!(table(VLLM).format(), TraceFormat::VllmCsv);
    let metrics = read(VLLM, "mixed,7498763828496525645,2,14,128,1,64,3,4096,0.5,17.111");
    let mut expected = ForwardPassMetrics::prefill(1, 128, 64)
        .with_decode(3, 4096)
        .with_wall_time(17.111 / 1000.0);
    expected.worker_id = "7498763828496525645".to_owned();
    expected.dp_rank = 2;
    expected.counter_id = 14;
    expected.queued_requests.var_decode_kv_tokens = 0.5;
    assert_eq!(metrics.unwrap(), expected);
}

#[test]
fn the_trtllm_layout_is_in_seconds_and_names_no_worker() {
    assert_eq!(table(TRTLLM).format(), TraceFormat::TrtllmCsv);
    let metrics = read(TRTLLM, "0.054734,110,259,1,0,0").unwrap();
    let expected = ForwardPassMetrics::prefill(1, 110, 259).with_wall_time(0.054_734);
    assert_eq!(metrics, expected);
}

#[test]
fn columns_are_found_by_name() {
    let header = "note, decode_requests,decode_kv_tokens,prefill_requests,prefill_tokens,\
                  prefill_kv_tokens,\"wall_time_s\"";
    let metrics = read(header, r#""a ""quoted"", b", 2,"50",0,0,0,0.5"#).unwrap();
    assert_eq!(metrics, ForwardPassMetrics::decode(2, 50).with_wall_time(0.5));
}

#[test]
fn a_wrong_field_is_named_with_its_value() {
    for value in ["3.0", "-1", "", "x", "18446744073709551616", "1e3", "true"] {
        let (code, column, message) = fault(TRTLLM, &format!("0.1,1,0,1,5,{value}"));
        assert_eq!((code, &*column), ("malformed", "decode_requests"));
        let right = format!("`{value}` is not a nonnegative integer");
        assert!(message.contains(&right), "{message}");
    }
    for value in ["nan", "NaN", "inf", "-Infinity", "1e400", "", "1,5", "0x1"] {
        let (code, column, _) = fault(TRTLLM, &format!("\"{value}\",1,0,1,0,0"));
        assert_eq!((code, &*column), ("malformed", "wall_time_s"));
    }
}

#[test]
fn an_impossible_duration_is_left_to_the_model() {
    for value in ["0", "-1.5", "1e9"] {
        assert!(read(TRTLLM, &format!("{value},1,0,1,0,0")).is_ok());
    }
}

#[test]
fn a_broken_invariant_keeps_its_own_code() {
    let (code, path, _) = fault(TRTLLM, "0.1,0,0,0,50,0");
    assert_eq!((code, &*path), ("invalid_field", "scheduled_requests.sum_decode_kv_tokens"));
}

#[test]
fn a_row_has_as_many_fields_as_the_header() {
    assert!(fault(TRTLLM, "0.1,0,0,0,0").2.contains("5 fields, where the header has 6"));
    assert!(fault(TRTLLM, "0.1,0,0,0,0,0,0").2.contains("7 fields"));
}

#[test]
fn a_stray_quote_costs_one_row() {
    let mut table = table(TRTLLM);
    let mut iteration = Iteration::default();
    let error = table.parse(b"\"0.1,1,0,1,0,0", &mut iteration).unwrap_err();
    assert!(error.to_string().contains("quote"), "{error}");
    assert!(table.parse(b"0.1,1,0,1,0,0", &mut iteration).unwrap());
}

#[test]
fn a_header_that_is_no_header_is_told_what_would_be_right() {
    let fault = |header: &str, wanted| {
        let error = Table::new(header.as_bytes(), wanted).err().unwrap();
        (error.code(), error.to_string())
    };
    let (code, message) = fault("time,tokens", None);
    assert_eq!(code, "unknown_format");
    for word in ["`time,tokens`", "latency_ms", "vllm_csv", "wall_time_s", "trtllm_csv"] {
        assert!(message.contains(word), "{message}");
    }
    let (code, message) = fault("latency_ms,num_prefill_requests,sum_prefill_tokens", None);
    assert_eq!(code, "missing_column");
    assert!(message.contains("`sum_prefill_kv_tokens`, `num_decode_requests`"), "{message}");
    assert_eq!(fault(TRTLLM, Some(TraceFormat::VllmCsv)).0, "unknown_format");
    assert_eq!(fault(&format!("{TRTLLM},wall_time_s"), None).0, "duplicate_column");
}

#[test]
fn a_cut_row_is_told_from_a_wrong_one() {
    let mut table = table(TRTLLM);
    for (line, cut) in [
        ("0.1,1,0,1,0", true),
        ("0.1,1,0,1,0,", true),
        ("0.1,1,0,1,0,\"0", true),
        ("0.1,1,0,1,0,0", false),
        ("0.1,1,0,1,0,x", false),
    ] {
        let end = LineEnd::EndOfText;
        assert_eq!(
            table.is_cut(&Line { text: line.as_bytes(), number: 1, entry: None, end }),
            cut,
            "{line}"
        );
    }
}

const RECORDS: &str = "measurement_id,phase,batch_size,total_prefill_tokens,total_kv_read_tokens,\
                       truth_latency_ms,source_file,source_row";

#[test]
fn a_measured_batch_is_of_the_phase_that_it_names() {
    assert_eq!(table(RECORDS).format(), TraceFormat::RecordsCsv);
    let metrics = read(RECORDS, "m-1,prefill,2,4096,64,31.5,a.csv,17").unwrap();
    assert_eq!(metrics, ForwardPassMetrics::prefill(2, 4096, 64).with_wall_time(31.5 / 1000.0));
    let metrics = read(RECORDS, "m-2,decode,8,0,65536,12.25,a.csv,18").unwrap();
    assert_eq!(metrics, ForwardPassMetrics::decode(8, 65_536).with_wall_time(12.25 / 1000.0));
    let (code, column, message) = fault(RECORDS, "m-3,mixed,8,0,65536,12.25,a.csv,18");
    assert_eq!((code, &*column), ("malformed", "phase"));
    assert!(message.contains("`mixed` is not prefill or decode"), "{message}");
    let seconds = RECORDS.replace("truth_latency_ms", "truth_latency_s");
    let error = Table::new(seconds.as_bytes(), None).err().unwrap();
    assert_eq!(error.code(), "missing_column");
    assert!(error.to_string().contains("`truth_latency_ms`"), "{error}");
}
