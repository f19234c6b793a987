//! TensorRT-LLM's lines of iterations, in which the device time stands one line late.

use std::collections::BTreeMap;

use super::super::Iteration;
use super::super::lines::{Line, LineEnd};
use super::super::parser::{Notices, Parser};
use super::{Fields, contains};
use crate::error::{Error, Result};
use crate::metrics::ForwardPassMetrics;

/// Reads the lines one by one, and holds each back until the next one of its rank.
#[derive(Debug)]
pub(in super::super) struct TrtllmLog {
    waiting: BTreeMap<u32, Waiting>,
    /// Whether the log tells device times, so that a step without one is not to be learned.
    tells_device_time: bool,
    notices: Notices,
}

/// A step whose device time is still to come.
#[derive(Debug)]
struct Waiting {
    line: u64,
    metrics: ForwardPassMetrics,
}

/// What one line says: of its own step, and of the one before.
struct Step {
    rank: u32,
    metrics: ForwardPassMetrics,
    previous_device_ms: Option<f64>,
}

const DEVICE_STEP: &str = "device_step";
const HOST_STEP: &str = "host_step";

pub(super) fn is_record(line: &[u8]) -> bool {
    contains(line, b"currank_total_requests") && contains(line, b"host_step_time")
}

impl TrtllmLog {
    pub(in super::super) fn new() -> Self {
        let mut notices = Notices::default();
        notices.once("approximate", || {
            "lines of TensorRT-LLM's iterations are approximate: KV tokens are told for the batch \
             as a whole at best, and variances and what is queued are unknown"
                .to_owned()
        });
        Self { waiting: BTreeMap::new(), tells_device_time: false, notices }
    }

    fn read(&mut self, line: &[u8]) -> Result<Step> {
        let line = Fields::of(line)?;
        let prefills = line.count("num_ctx_requests")?;
        let prefill_tokens = line.count("num_ctx_tokens")?;
        let decode_tokens = line.count("num_generation_tokens")?;
        let scheduled = line.count("num_scheduled_requests")?;
        let decodes = scheduled.saturating_sub(prefills).min(decode_tokens);
        let kv_tokens = if line.has("cached_kv_tokens") {
            line.count("cached_kv_tokens")?
        } else {
            self.notices.once("kv", || "no cached_kv_tokens: KV tokens count as none".to_owned());
            0
        };
        let (prefill_kv, decode_kv) = if decodes > 0 { (0, kv_tokens) } else { (kv_tokens, 0) };
        let mut metrics = ForwardPassMetrics::prefill(prefills, prefill_tokens, prefill_kv)
            .with_decode(decodes, decode_kv);
        metrics.counter_id = line.count("iter")?;
        metrics.wall_time = line.milliseconds("host_step_time")? / 1000.0;
        metrics.timing_scope = Some(HOST_STEP.to_owned());
        let rank = line.count("global_rank").or_else(|_| line.count("rank"))?;
        let previous_device_ms = match line.after("prev_device_step_time") {
            None | Some("N") => None,
            Some(_) => Some(line.milliseconds("prev_device_step_time")?),
        };
        metrics.check()?;
        let rank = u32::try_from(rank)
            .map_err(|_| Error::metrics("malformed", "global_rank", "must be below 2^32"))?;
        metrics.dp_rank = rank;
        Ok(Step { rank, metrics, previous_device_ms })
    }
}

impl TrtllmLog {
    /// Gives a step out, with the device time that the next line of its rank tells of it.
    fn release(
        &mut self,
        mut step: Waiting,
        device_ms: Option<f64>,
        iteration: &mut Iteration,
    ) -> Result<bool> {
        iteration.line = step.line;
        if let Some(ms) = device_ms {
            self.tells_device_time = true;
            step.metrics.wall_time = ms / 1000.0;
            step.metrics.timing_scope = Some(DEVICE_STEP.to_owned());
        } else if self.tells_device_time {
            return Err(Error::metrics(
                "no_device_time",
                "",
                "the next line, which would tell the device time of this step, is not there",
            ));
        }
        iteration.ranks.push(step.metrics);
        Ok(true)
    }
}

impl Parser for TrtllmLog {
    fn is_record(&mut self, line: &[u8]) -> bool {
        is_record(line)
    }

    fn is_cut(&mut self, line: &Line) -> bool {
        line.end != LineEnd::Newline && self.read(line.text).is_err()
    }

    fn parse(&mut self, text: &[u8], iteration: &mut Iteration) -> Result<bool> {
        let step = self.read(text)?;
        let counter = step.metrics.counter_id;
        let waiting = Waiting { line: iteration.line, metrics: step.metrics };
        let Some(before) = self.waiting.insert(step.rank, waiting) else {
            return Ok(false);
        };
        // A line that is missing between the two takes the device time along.
        let follows = before.metrics.counter_id.checked_add(1) == Some(counter);
        self.release(before, step.previous_device_ms.filter(|_| follows), iteration)
    }

    fn finish(&mut self, iteration: &mut Iteration) -> Result<bool> {
        let Some((_, last)) = self.waiting.pop_first() else {
            return Ok(false);
        };
        self.release(last, None, iteration)
    }

    fn notice(&mut self) -> Option<String> {
        self.notices.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(iter: u64, rank: u32, host: &str, device: &str, states: &str) -> String {
        format!(
            "[TRT-LLM] [I] iter = {iter}, global_rank = {rank}, rank = {rank}, \
             currank_total_requests = 4/4, host_step_time = {host}, prev_device_step_time = \
             {device}, timestamp = 2026-11-30 12:00:00, num_scheduled_requests: 4, states = \
             {{{states}}}"
        )
    }

    const MIXED: &str = "'num_ctx_requests': 1, 'num_ctx_tokens': 128, 'num_generation_tokens': 3";

    type Lost = Vec<(u64, &'static str)>;

    fn read(lines: &[String]) -> (Vec<(u64, ForwardPassMetrics)>, Lost) {
        let mut log = TrtllmLog::new();
        let (mut all, mut lost) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(lines) {
            let mut iteration = Iteration { line: number, ..Iteration::default() };
            match log.parse(line.as_bytes(), &mut iteration) {
                Ok(true) => all.push((iteration.line, iteration.ranks.remove(0))),
                Ok(false) => {}
                Err(error) => lost.push((iteration.line, error.code())),
            }
        }
        loop {
            let mut iteration = Iteration::default();
            match log.finish(&mut iteration) {
                Ok(true) => all.push((iteration.line, iteration.ranks.remove(0))),
                Ok(false) => return (all, lost),
                Err(error) => lost.push((iteration.line, error.code())),
            }
        }
    }

    fn times(lines: &[String]) -> Vec<(u64, u64, f64, String)> {
        let of = |(line, metrics): (u64, ForwardPassMetrics)| {
            (line, metrics.counter_id, metrics.wall_time, metrics.timing_scope.unwrap())
        };
        read(lines).0.into_iter().map(of).collect()
    }

    #[test]
    fn the_device_time_is_that_of_the_next_line() {
        let lines = [
            line(1, 0, "9.0ms", "N/A", MIXED),
            line(2, 0, "8.0ms", "12.5ms", MIXED),
            line(4, 0, "7.0ms", "11.0ms", MIXED),
        ];
        let (number, metrics) = read(&lines).0.remove(0);
        let scheduled = ForwardPassMetrics::prefill(1, 128, 0).with_decode(3, 0);
        assert_eq!((number, metrics.scheduled_requests), (1, scheduled.scheduled_requests));
        let expected = [(1, 1, 0.0125, "device_step".to_owned())];
        assert_eq!(times(&lines), expected);
        // Line 3 tells of iteration 3, whose own line is missing, and nothing tells of the last.
        assert_eq!(read(&lines).1, [(2, "no_device_time"), (3, "no_device_time")]);
    }

    #[test]
    fn without_device_times_the_host_tells_the_time() {
        let lines = [line(1, 0, "9.0ms", "N/A", MIXED), line(2, 0, "8.0ms", "N/A", MIXED)];
        let expected =
            [(1, 1, 0.009, "host_step".to_owned()), (2, 2, 0.008, "host_step".to_owned())];
        assert_eq!(times(&lines), expected);
    }

    #[test]
    fn each_rank_waits_for_its_own_next_line() {
        let lines = [
            line(1, 0, "9ms", "N/A", MIXED),
            line(1, 1, "9ms", "N/A", MIXED),
            line(2, 0, "9ms", "20ms", MIXED),
            line(2, 1, "9ms", "30ms", MIXED),
        ];
        let times: Vec<_> = times(&lines).iter().map(|(line, _, time, _)| (*line, *time)).collect();
        assert_eq!(times, [(1, 0.020), (2, 0.030)]);
    }

    #[test]
    fn cached_tokens_belong_to_the_decodes_if_there_are_any() {
        let kv = |states: &str| {
            let states = format!("{states}, 'cached_kv_tokens': 500");
            let metrics = read(&[line(1, 0, "9ms", "N/A", &states)]).0.remove(0).1;
            let scheduled = metrics.scheduled_requests;
            (scheduled.sum_prefill_kv_tokens, scheduled.sum_decode_kv_tokens)
        };
        assert_eq!(kv(MIXED), (0, 500));
        let prefill = "'num_ctx_requests': 4, 'num_ctx_tokens': 128, 'num_generation_tokens': 0";
        assert_eq!(kv(prefill), (500, 0));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = |text: &str| {
            let error = TrtllmLog::new().read(text.as_bytes()).err().unwrap();
            (error.code(), error.path())
        };
        let good = line(1, 0, "9ms", "N/A", MIXED);
        for (text, code, path) in [
            (good.replace("9ms", "0.009s"), "wrong_unit", "host_step_time"),
            (line(1, 0, "9ms", "0.01s", MIXED), "wrong_unit", "prev_device_step_time"),
            (good.replace("num_ctx_tokens", "other"), "missing_field", "num_ctx_tokens"),
            (good.replace("iter = 1", "iter = x"), "malformed", "iter"),
        ] {
            assert_eq!(fault(&text), (code, path.to_owned()));
        }
    }
}
