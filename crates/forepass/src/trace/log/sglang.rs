//! SGLang's lines of batches: decode throughput averaged over an interval of steps.

use super::super::Iteration;
use super::super::lines::{Line, LineEnd};
use super::super::parser::{Notices, Parser};
use super::{Fields, contains};
use crate::error::{Error, Result};
use crate::metrics::ForwardPassMetrics;

/// Reads the lines one by one.
#[derive(Debug)]
pub(in super::super) struct SglangLog {
    notices: Notices,
}

/// What a duration of these lines spans: the mean step since the line before, pauses included.
const DECODE_INTERVAL_MEAN: &str = "decode_interval_mean";

pub(super) fn is_record(line: &[u8]) -> bool {
    contains(line, b"Decode batch") && contains(line, b"#running-req")
        || contains(line, b"Prefill batch") && contains(line, b"#new-seq")
}

impl SglangLog {
    pub(in super::super) fn new() -> Self {
        let mut notices = Notices::default();
        notices.once("approximate", || {
            "lines of SGLang's batches are approximate: a decode line stands for the mean step of \
             an interval (40 steps by default, pauses included), variances are unknown, and a \
             prefill line tells no duration, so nothing is learned from it"
                .to_owned()
        });
        Self { notices }
    }
}

fn read(line: &[u8]) -> Result<ForwardPassMetrics> {
    let line = Fields::of(line)?;
    let mut metrics = if line.has("Prefill batch") {
        let cached = line.count("#cached-token")?;
        let (requests, tokens) = (line.count("#new-seq")?, line.count("#new-token")?);
        ForwardPassMetrics::prefill(requests, tokens, cached)
    } else {
        decode(line)?
    };
    metrics.timing_scope = Some(DECODE_INTERVAL_MEAN.to_owned());
    metrics.queued_requests.num_prefill_requests =
        line.after("#queue-req").and_then(|count| count.parse().ok()).unwrap_or(0);
    let rank = line.0.split(']').next().and_then(|head| Fields(head).after("DP"));
    metrics.dp_rank = rank.and_then(|rank| rank.parse().ok()).unwrap_or(0);
    metrics.check()?;
    Ok(metrics)
}

fn decode(line: Fields) -> Result<ForwardPassMetrics> {
    let requests = line.count("#running-req")?;
    let kv_tokens = line.count(if line.has("#token:") { "#token" } else { "#full token" })?;
    if requests == 0 {
        return Ok(ForwardPassMetrics::default());
    }
    let tokens_a_request = line.number("accept len")?.unwrap_or(1.0);
    let throughput = line.number("gen throughput (token/s)")?;
    let step_s = throughput
        .map(|throughput| requests as f64 * tokens_a_request / throughput)
        .filter(|step_s| step_s.is_finite() && *step_s > 0.0);
    let step_s = step_s.ok_or_else(|| {
        Error::metrics(
            "malformed",
            "gen throughput (token/s)",
            "a decode line needs a throughput above zero, of which its step time follows",
        )
    })?;
    Ok(ForwardPassMetrics::decode(requests, kv_tokens).with_wall_time(step_s))
}

impl Parser for SglangLog {
    fn is_record(&mut self, line: &[u8]) -> bool {
        is_record(line)
    }

    fn is_cut(&mut self, line: &Line) -> bool {
        line.end != LineEnd::Newline && read(line.text).is_err()
    }

    fn parse(&mut self, text: &[u8], iteration: &mut Iteration) -> Result<bool> {
        iteration.ranks.push(read(text)?);
        Ok(true)
    }

    fn notice(&mut self) -> Option<String> {
        self.notices.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECODE: &str = "[2026-11-30 12:00:00 DP2 TP0] Decode batch [40], #running-req: 4, \
        #token: 4096, token usage: 0.05, accept len: 2.50, accept rate: 0.50, cuda graph: True, \
        gen throughput (token/s): 500.00, #queue-req: 3";

    #[test]
    fn the_step_time_follows_from_the_throughput() {
        // 4 requests times 2.5 tokens at 500 tokens a second are 20 ms.
        let mut expected = ForwardPassMetrics::decode(4, 4096).with_wall_time(0.020);
        expected.dp_rank = 2;
        expected.timing_scope = Some("decode_interval_mean".to_owned());
        expected.queued_requests.num_prefill_requests = 3;
        assert_eq!(read(DECODE.as_bytes()).unwrap(), expected);
        let plain = DECODE.replace(" accept len: 2.50, accept rate: 0.50,", "");
        assert_eq!(read(plain.as_bytes()).unwrap().wall_time, 4.0 / 500.0);
        let hybrid = DECODE.replace("#token", "#full token");
        let scheduled = read(hybrid.as_bytes()).unwrap().scheduled_requests;
        assert_eq!(scheduled.sum_decode_kv_tokens, 4096);
    }

    #[test]
    fn a_prefill_line_has_work_and_no_duration() {
        let text = "[2026-11-30 12:00:00] Prefill batch, #new-seq: 2, #new-token: 300, \
            #cached-token: 64, token usage: 0.01, #running-req: 4, #queue-req: 1, \
            input throughput (token/s): 900.0";
        assert!(is_record(text.as_bytes()));
        let metrics = read(text.as_bytes()).unwrap();
        let expected = ForwardPassMetrics::prefill(2, 300, 64);
        assert_eq!(metrics.scheduled_requests, expected.scheduled_requests);
        assert_eq!(metrics.wall_time, 0.0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, code, path) in [
            (DECODE.replace("#token: 4096, ", ""), "missing_field", "#full token"),
            (DECODE.replace("500.00", "0.00"), "malformed", "gen throughput (token/s)"),
            (DECODE.replace("500.00", "x"), "malformed", "gen throughput (token/s)"),
            (DECODE.replace("#running-req: 4", "#running-req: -4"), "malformed", "#running-req"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!((error.code(), &*error.path()), (code, path), "{text}");
        }
        let idle = DECODE.replace("#running-req: 4", "#running-req: 0");
        assert_eq!(read(idle.as_bytes()).unwrap().wall_time, 0.0);
    }
}
