//! Traces as a whole: detection, faults, ends, and the accounts of it.

use std::io::{Cursor, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;
use crate::error::{Error, Result};

mod told;

const CSV: &str = "wall_time_s,prefill_tokens,prefill_kv_tokens,prefill_requests,\
                   decode_kv_tokens,decode_requests\n";

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn open(bytes: impl Into<Vec<u8>>) -> Result<TraceReader> {
    open_with(bytes, &ReadOptions::default())
}

fn open_with(bytes: impl Into<Vec<u8>>, options: &ReadOptions) -> Result<TraceReader> {
    TraceReader::from_reader("t", Cursor::new(bytes.into()), options)
}

fn strict() -> ReadOptions {
    ReadOptions::default().with_strict(true)
}

/// The summary of a trace that was read to its end, after checking its accounts.
fn finish(mut reader: TraceReader) -> (Vec<Iteration>, ReadSummary) {
    let iterations: Vec<_> = reader.by_ref().filter_map(Result::ok).collect();
    let summary = reader.summary().clone();
    assert_eq!(summary.iterations, iterations.len() as u64);
    assert_eq!(summary.rows, summary.iterations + summary.skipped.values().sum::<u64>());
    for (row, iteration) in iterations.iter().enumerate() {
        assert_eq!(iteration.row, row as u64);
        assert!(!iteration.ranks.is_empty());
    }
    (iterations, summary)
}

/// All that is told beside the iterations.
fn told(summary: &ReadSummary) -> String {
    let faults = summary.faults.iter().map(ToString::to_string);
    faults.chain(summary.warnings.iter().cloned()).collect::<Vec<_>>().join("\n")
}

fn lines_of(iterations: &[Iteration]) -> Vec<u64> {
    iterations.iter().map(|iteration| iteration.line).collect()
}

#[test]
fn the_format_is_told_from_the_content() {
    let json = "\u{feff}\r\n {\"wall_time\": 0.5}\r\n";
    let list = "[{\"wall_time\": 0.5}]\n";
    for (text, format) in [
        (json, TraceFormat::FpmJsonl),
        (list, TraceFormat::FpmJsonl),
        (&format!("\u{feff}{CSV}0.5,0,0,0,0,0\r\n"), TraceFormat::TrtllmCsv),
    ] {
        for bytes in [text.as_bytes().to_vec(), gzip(text)] {
            let length = bytes.len() as u64;
            let mut reader = open(bytes.clone()).unwrap();
            assert_eq!(reader.format(), Some(format));
            assert_eq!(reader.name(), "t");
            while reader.next().is_some() {}
            assert_eq!(reader.bytes_read(), length);
            let (iterations, summary) = finish(open(bytes).unwrap());
            assert_eq!(iterations[0].ranks[0].wall_time, 0.5);
            assert_eq!(iterations.len(), 1);
            assert_eq!(summary.warnings, [""; 0]);
        }
    }
}

#[test]
fn a_wanted_format_is_not_second_guessed() {
    let options = ReadOptions::default().with_format(TraceFormat::FpmJsonl);
    let (_, summary) = finish(open_with(CSV, &options).unwrap());
    assert_eq!(summary.skipped["malformed"], 1);
    let options = ReadOptions::default().with_format(TraceFormat::VllmCsv);
    assert_eq!(open_with(CSV, &options).unwrap_err().code(), "unknown_format");
}

#[test]
fn rows_and_lines_count_different_things() {
    let text = "\n{\"wall_time\": 0}\n\n{\"wall\": 1}\n{\"wall_time\": 0.5}";
    let (iterations, summary) = finish(open(text).unwrap());
    assert_eq!(lines_of(&iterations), [2, 5]);
    assert_eq!(summary.rows, 3);
    let text = format!("{CSV}\n0.1,0,0,0,0,0\n{CSV}0.2,0,0,0,0,0\n0.3,0,0,0,0,0\n");
    let (iterations, summary) = finish(open(text).unwrap());
    assert_eq!(lines_of(&iterations), [3, 5, 6]);
    assert_eq!(summary.rows, 3, "a repeated header is no row");
}

#[test]
fn a_bad_line_is_skipped_and_kept_among_the_faults() {
    let text = "{\"wall_time\": 1}\nnot json\n{\"version\": 2, \"wall_time\": 1}\n\
                {\"num_decode_requests\": 1}\n{\"num_decode_requests\": 1.0}\n{\"wall_time\": 2}\n";
    let (iterations, summary) = finish(open(text).unwrap());
    assert_eq!(lines_of(&iterations), [1, 6]);
    let skipped: Vec<_> = summary.skipped.into_iter().collect();
    let expected = [("invalid_field", 1), ("malformed", 2), ("unsupported_version", 1)];
    assert_eq!(skipped, expected);
    let places: Vec<_> = summary.faults.iter().map(Error::path).collect();
    assert_eq!(places, ["t:2", "t:3", "t:4", "t:5"]);
    let message = summary.faults[3].to_string();
    assert!(message.starts_with("t:5: num_decode_requests: "), "{message}");
    assert!(message.contains("`1.0`, expected a nonnegative integer"), "{message}");

    let (_, summary) = finish(open(format!("{{}}\n{}", "x\n".repeat(50))).unwrap());
    assert_eq!(summary.skipped["malformed"], 51);
    assert_eq!(summary.faults.len(), 10);
}

#[test]
fn a_strict_reader_stops_at_a_bad_line_and_can_go_on() {
    let text = format!("{CSV}0.1,0,0,0,0,0\n0.1,3.0,0,1,0,0\n0.2,0,0,0,0,0\n");
    let mut reader = open_with(text, &strict()).unwrap();
    let mut iteration = Iteration::default();
    assert!(reader.read_into(&mut iteration).unwrap());
    let error = reader.read_into(&mut iteration).unwrap_err();
    assert_eq!(error.code(), "malformed");
    let message = "t:3: prefill_tokens: `3.0` is not a nonnegative integer";
    assert_eq!(error.to_string(), message);
    assert_eq!(iteration.ranks, []);
    assert!(reader.read_into(&mut iteration).unwrap());
    assert_eq!((iteration.row, iteration.line), (1, 4));
    assert!(!reader.read_into(&mut iteration).unwrap());
    assert_eq!(reader.summary().rows, 3);
}

#[test]
fn buffers_are_used_again() {
    let text = "[{\"wall_time\": 1}, {\"wall_time\": 1}]\n{\"wall_time\": 2}\n";
    let mut reader = open(text).unwrap();
    let mut iteration = Iteration::default();
    assert!(reader.read_into(&mut iteration).unwrap());
    let buffer = iteration.ranks.as_ptr();
    assert!(reader.read_into(&mut iteration).unwrap());
    assert_eq!(iteration.ranks.len(), 1);
    assert_eq!(iteration.ranks.as_ptr(), buffer);
    assert_eq!(iteration.worker_id(), "");
}

/// Lines, ending with line feeds, whose compressed form is cut below at every byte.
fn cut_texts() -> [String; 2] {
    let json = (0..40).map(|n| format!("{{\"metrics\": {{\"wall_time\": 0.{n}}}}}\n"));
    let csv = (0..40).map(|n| format!("0.{n},{},0,1,0,0\n", n * n));
    [json.collect(), CSV.to_owned() + &csv.collect::<String>()]
}

#[test]
fn compressed_data_cut_anywhere_lose_only_what_is_cut() {
    for text in cut_texts() {
        let members = gzip(&text[..text.len() / 2]);
        let whole = [&members[..], &gzip(&text[text.len() / 2..])].concat();
        let (all, _) = finish(open(&*whole).unwrap());
        for cut in 2..whole.len() {
            // Byte by byte, so that nothing is lost to the error at the end.
            let mut decoder = flate2::read::MultiGzDecoder::new(&whole[..cut]);
            let (mut byte, mut lines) = ([0], 0_usize);
            while matches!(decoder.read(&mut byte), Ok(1)) {
                lines += usize::from(byte == *b"\n");
            }
            if text.starts_with(CSV) {
                lines = lines.saturating_sub(1);
            }

            let (iterations, summary) = finish(open_with(&whole[..cut], &strict()).unwrap());
            assert!(iterations.len() >= lines, "{cut}: {} < {lines}", iterations.len());
            assert_eq!(iterations, all[..iterations.len()], "{cut}");
            assert!(summary.skipped.keys().all(|code| *code == "truncated"), "{summary:?}");
            // Between two members nothing shows that something is missing; elsewhere it is told,
            // and once.
            let count = summary.warnings.len() + summary.faults.len();
            assert!(count == 1 || count == 0 && cut == members.len(), "{cut}: {summary:?}");
        }
        let (halves, _) = finish(open(members).unwrap());
        assert_eq!(halves, all[..halves.len()]);
    }
}

#[test]
fn plain_text_cut_anywhere_is_no_error_even_if_strict() {
    let [json, csv] = cut_texts();
    for cut in 1..json.len() {
        let (_, summary) = finish(open_with(&json[..cut], &strict()).unwrap());
        let whole = matches!(&json[cut - 1..=cut], "}\n" | "\n{");
        assert_eq!(summary.skipped.contains_key("truncated"), !whole, "{}", &json[..cut]);
    }
    for cut in CSV.len()..csv.len() {
        for iteration in open_with(&csv[..cut], &strict()).unwrap() {
            iteration.unwrap();
        }
    }
}

#[test]
fn a_last_row_without_line_feed_is_read_with_a_warning() {
    let (iterations, summary) = finish(open(format!("{CSV}0.5,0,0,0,0,1")).unwrap());
    assert_eq!(iterations.len(), 1);
    assert!(summary.warnings[0].starts_with("t:2: no line feed"), "{summary:?}");
    let (_, summary) = finish(open("{\"wall_time\": 1}").unwrap());
    assert_eq!(summary.warnings, [""; 0], "a JSON object shows its own end");
}

#[test]
fn a_wrong_last_line_is_not_taken_for_a_cut_one() {
    for text in ["{\"wall_time\": NaN}", "{\"wall_time\": 1, \"dp_rank\": 3.0}", "{}"] {
        let mut reader = open_with(text, &strict()).unwrap();
        assert_eq!(reader.next().unwrap().unwrap_err().code(), "malformed");
    }
}

#[test]
fn damage_between_members_is_told_and_passed_over() {
    let first = gzip("{\"wall_time\": 1}\n{\"wall_time\": 2}");
    let bytes = [&first[..], b"garbage"].concat();
    let (iterations, summary) = finish(open_with(&*bytes, &strict()).unwrap());
    assert_eq!(iterations.len(), 2);
    assert_eq!(summary.warnings.len(), 1);
    assert!(summary.warnings[0].contains("at line 2"), "{}", summary.warnings[0]);
    let bytes = [&bytes[..], &gzip("{\"wall_time\": 3}\n")].concat();
    let (iterations, summary) = finish(open_with(bytes, &strict()).unwrap());
    assert_eq!(lines_of(&iterations), [1, 2, 3]);
    assert!(summary.warnings[0].contains("goes on with the next gzip member"), "{summary:?}");
}

#[test]
fn a_damaged_member_costs_its_own_records_alone() {
    let member = |from: u64| {
        let line = |n: u64| format!("{{\"counter_id\": {n}, \"wall_time\": 0.{n}}}\n");
        gzip(&(from..from + 500).map(line).collect::<String>())
    };
    let mut damaged = member(501);
    let middle = damaged.len() / 2;
    damaged.truncate(middle);
    let (iterations, summary) =
        finish(open([member(1), damaged, member(1001), member(1501)].concat()).unwrap());
    let counters: Vec<_> = iterations.iter().map(|i| i.ranks[0].counter_id).collect();
    assert_eq!(counters[..500], (1..501).collect::<Vec<_>>());
    assert_eq!(counters[counters.len() - 1000..], (1001..2001).collect::<Vec<_>>());
    assert!(counters.len() > 1600, "{}", counters.len());
    assert!(told(&summary).contains("goes on with the next gzip member"), "{summary:?}");
    assert!(summary.skipped.keys().all(|code| matches!(*code, "truncated" | "malformed")));
}

#[test]
fn what_comes_behind_a_start_that_tells_nothing_is_read() {
    let whole = gzip("{\"wall_time\": 1}\n");
    let bytes = [&whole[..12], &whole, &whole].concat();
    let (iterations, summary) = finish(open(bytes).unwrap());
    assert!(!iterations.is_empty());
    assert!(told(&summary).contains("break off"), "{summary:?}");
}

#[test]
fn ranks_on_lines_of_their_own_are_warned_of_once() {
    let line = |worker, rank| {
        format!("{{\"worker_id\": \"{worker}\", \"dp_rank\": {rank}, \"wall_time\": 1}}\n")
    };
    let text = [line("a", 0), line("b", 1), line("a", 0)].concat();
    assert_eq!(finish(open(&*text).unwrap()).1.warnings, [""; 0]);
    let (iterations, summary) =
        finish(open([text, line("a", 1), line("b", 0), line("a", 1)].concat()).unwrap());
    assert_eq!(iterations.len(), 6);
    assert_eq!(summary.warnings.len(), 1);
    assert!(summary.warnings[0].starts_with("t:4: worker `a`"), "{}", summary.warnings[0]);
    let text = "[{\"wall_time\": 1}, {\"wall_time\": 1, \"dp_rank\": 1}]\n";
    assert_eq!(finish(open(text.repeat(2)).unwrap()).1.warnings, [""; 0]);
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason() {
    for (bytes, code) in [
        (b"".to_vec(), "empty"),
        (b"\xef\xbb\xbf \r\n\n".to_vec(), "empty"),
        (gzip(""), "empty"),
        (b"PAR1\0\x01\xff\xfe".to_vec(), "unknown_format"),
        (b"\x1f".to_vec(), "unknown_format"),
        (gzip("hello\nworld\n"), "unknown_format"),
        (b"a,b\n1,2\n".to_vec(), "unknown_format"),
        (b"\"a".to_vec(), "unknown_format"),
        (b"latency_ms,b\n1,2\n".to_vec(), "missing_column"),
    ] {
        let error = open(&*bytes).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().starts_with('t'), "{error}");
    }
}

/// The same line without end.
struct Endless(&'static [u8]);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let line = self.0;
        for (place, byte) in buffer.iter_mut().zip(line.iter().cycle()) {
            *place = *byte;
        }
        Ok(buffer.len() / line.len() * line.len())
    }
}

#[test]
fn whoever_skips_without_end_can_be_stopped() {
    for line in [&b"not json\n"[..], b"\n", b"[]\n"] {
        let options = ReadOptions::default().with_format(TraceFormat::FpmJsonl);
        let mut reader = TraceReader::from_reader("t", Endless(line), &options).unwrap();
        let progress = crate::Progress::default();
        progress.cancel();
        let error = reader.read_watched(&mut Iteration::default(), &progress).unwrap_err();
        assert_eq!(error, Error::Cancelled);
        assert!(progress.bytes() > 0);
    }
}

#[test]
fn a_text_without_end_that_tells_nothing_is_refused() {
    let options = ReadOptions::default();
    let error = TraceReader::from_reader("t", Endless(b"hello\n"), &options).unwrap_err();
    assert_eq!(error.code(), "unknown_format");
}

#[test]
fn a_fault_within_an_entry_of_several_lines_has_its_own_line() {
    let text = "[\n {\n  \"gpuForwardTimeMS\": 1,\n  \"iter\": -1\n }\n]\n";
    let (_, summary) = finish(open(text).unwrap());
    let message = summary.faults[0].to_string();
    assert!(message.starts_with("t:4: iter: ") && message.ends_with("at column 12"), "{message}");
}

#[test]
fn logs_that_open_like_json_are_logs() {
    let log = "[2026-11-30 12:00:00] Ready\n[1] [2] x\n[2026-11-30 12:00:01 TP0] Decode batch, \
               #running-req: 1, #token: 9, gen throughput (token/s): 100.0, #queue-req: 0\n";
    let reader = open(log).unwrap();
    assert_eq!(reader.format(), Some(TraceFormat::SglangLog));
    let (iterations, summary) = finish(reader);
    assert_eq!((lines_of(&iterations), summary.rows), (vec![3], 1));
}

#[test]
fn empty_polls_do_not_hide_what_follows() {
    let stats = "[]\n[]\n[{\"iterLatencyMS\": 1, \"inflightBatchingStats\": {}}]\n[]\n";
    let reader = open(stats).unwrap();
    assert_eq!(reader.format(), Some(TraceFormat::TrtllmStats));
    let (iterations, summary) = finish(reader);
    assert_eq!((lines_of(&iterations), summary.rows), (vec![3], 1));
}

#[test]
fn paths_that_cannot_be_read_are_named() {
    let options = ReadOptions::default();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let error = TraceReader::open(directory, &options).unwrap_err();
    assert_eq!(error.code(), "is_a_directory");
    let absent = directory.join("no-such-trace.jsonl");
    let error = TraceReader::open(&absent, &options).unwrap_err();
    assert_eq!(error.code(), "unreadable");
    assert_eq!(error.path(), absent.display().to_string());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for start in [&b""[..], &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff], b"{", CSV.as_bytes()] {
            if let Ok(reader) = open([start, &bytes].concat()) {
                finish(reader);
            }
        }
    }

    #[test]
    fn no_damage_makes_it_panic(damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        for text in cut_texts() {
            for mut bytes in [text.clone().into_bytes(), gzip(&text)] {
                for (place, byte) in &damage {
                    let place = place.index(bytes.len());
                    bytes[place] = *byte;
                }
                if let Ok(reader) = open(bytes) {
                    finish(reader);
                }
            }
        }
    }
}
