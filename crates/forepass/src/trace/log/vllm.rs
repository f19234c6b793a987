//! vLLM's lines of iteration details: the tokens and the duration of each step, without KV tokens.

use super::super::Iteration;
use super::super::lines::{Line, LineEnd};
use super::super::parser::{Notices, Parser};
use super::{Fields, contains};
use crate::error::Result;
use crate::metrics::ForwardPassMetrics;

/// Reads the lines one by one.
#[derive(Debug)]
pub(in super::super) struct VllmLog {
    /// Tokens that the KV cache holds, where the log has told.
    kv_pool_tokens: Option<f64>,
    notices: Notices,
}

/// What a duration of these lines spans: the whole step of the engine's core.
const ENGINE_STEP: &str = "engine_step";

pub(super) fn is_record(line: &[u8]) -> bool {
    contains(line, b"Iteration(") && contains(line, b" context requests")
}

impl VllmLog {
    pub(in super::super) fn new() -> Self {
        let mut notices = Notices::default();
        notices.once("approximate", || {
            "lines of vLLM's iteration details are approximate: a duration is that of the whole \
             engine step, and cached tokens of prefills and all variances are unknown"
                .to_owned()
        });
        Self { kv_pool_tokens: None, notices }
    }

    fn read(&mut self, line: &[u8]) -> Result<ForwardPassMetrics> {
        let line = Fields::of(line)?;
        let counter_id = line.count("Iteration(")?;
        let prefills = line.count_before(" context requests")?;
        let prefill_tokens = line.count_before(" context tokens")?;
        let decodes = line.count_before(" generation requests")?;
        let decode_tokens = line.count_before(" generation tokens")?;
        let latency_ms = line.milliseconds("iteration elapsed time")?;
        let mut metrics = ForwardPassMetrics::default().with_wall_time(latency_ms / 1000.0);
        if line.has("(dummy)") {
            // A step that only keeps the other ranks company does no work of its own.
            metrics.wall_time = 0.0;
        } else {
            let kv_tokens = self.kv_tokens(line, decodes)?;
            metrics =
                metrics.with_prefill(prefills, prefill_tokens, 0).with_decode(decodes, kv_tokens);
        }
        if decode_tokens > decodes && decodes > 0 {
            self.notices.once("draft", || {
                format!(
                    "{decode_tokens} generation tokens in {decodes} requests: the engine \
                     speculates, and drafted tokens are no part of the record"
                )
            });
        }
        if let Some(engine) =
            line.after("Engine").and_then(|rank| rank.trim_end_matches(':').parse().ok())
        {
            metrics.dp_rank = engine;
        }
        metrics.counter_id = counter_id;
        metrics.timing_scope = Some(ENGINE_STEP.to_owned());
        metrics.check()?;
        Ok(metrics)
    }

    /// KV tokens of the decodes: the used share of the cache, as far as the log tells both.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn kv_tokens(&mut self, line: Fields, decodes: u64) -> Result<u64> {
        if decodes == 0 {
            return Ok(0);
        }
        let usage = line.after("GPU KV cache usage").and_then(|text| text.strip_suffix('%'));
        let usage_pct = usage.map(|text| super::finite("GPU KV cache usage", text)).transpose()?;
        if let (Some(usage_pct), Some(pool)) = (usage_pct, self.kv_pool_tokens) {
            self.notices.once("kv", || {
                "KV tokens of decodes are estimated from the usage of the KV cache".to_owned()
            });
            Ok((usage_pct / 100.0 * pool).round().max(0.0) as u64)
        } else {
            self.notices.once("no kv", || {
                "KV tokens of decodes are unknown and count as none: the log tells the usage and \
                 the size of the KV cache only in newer versions, the latter once at its start"
                    .to_owned()
            });
            Ok(0)
        }
    }
}

impl Parser for VllmLog {
    fn is_record(&mut self, line: &[u8]) -> bool {
        if is_record(line) {
            return true;
        }
        if contains(line, b"GPU KV cache size: ") {
            let tokens = Fields::of(line).ok().and_then(|line| {
                let (_, rest) = line.0.split_once("GPU KV cache size: ")?;
                let (number, _) = rest.split_once(" tokens")?;
                number.replace(',', "").parse().ok()
            });
            self.kv_pool_tokens = tokens.or(self.kv_pool_tokens);
        }
        false
    }

    fn is_cut(&mut self, line: &Line) -> bool {
        line.end != LineEnd::Newline && self.read(line.text).is_err()
    }

    fn parse(&mut self, text: &[u8], iteration: &mut Iteration) -> Result<bool> {
        iteration.ranks.push(self.read(text)?);
        Ok(true)
    }

    fn notice(&mut self) -> Option<String> {
        self.notices.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLDER: &str = "INFO 11-30 [core.py:1] Iteration(17): 1 context requests, 128 context \
        tokens, 3 generation requests, 3 generation tokens, iteration elapsed time: 12.50 ms";
    const NEWER: &str = "INFO Engine 001: Iteration(18): 0 context requests, 0 context tokens, \
        2 generation requests, 6 generation tokens, iteration elapsed time: 9.00 ms, \
        GPU KV cache usage: 12.5%";

    fn read(log: &mut VllmLog, text: &str) -> Result<ForwardPassMetrics> {
        let mut iteration = Iteration::default();
        assert!(log.is_record(text.as_bytes()));
        log.parse(text.as_bytes(), &mut iteration)?;
        Ok(iteration.ranks.remove(0))
    }

    fn notices(log: &mut VllmLog) -> Vec<String> {
        std::iter::from_fn(|| log.notice()).collect()
    }

    #[test]
    fn a_line_is_read_and_what_is_missing_said_once() {
        let mut log = VllmLog::new();
        let mut expected =
            ForwardPassMetrics::prefill(1, 128, 0).with_decode(3, 0).with_wall_time(0.0125);
        expected.counter_id = 17;
        expected.timing_scope = Some("engine_step".to_owned());
        assert_eq!(read(&mut log, OLDER).unwrap(), expected);
        assert_eq!(read(&mut log, OLDER).unwrap(), expected);
        let said = notices(&mut log);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("approximate") && said[1].contains("count as none"), "{said:?}");
    }

    #[test]
    fn the_size_of_the_cache_and_its_usage_give_the_kv_tokens() {
        let mut log = VllmLog::new();
        assert!(!log.is_record(b"INFO GPU KV cache size: 1,000,000 tokens"));
        let metrics = read(&mut log, NEWER).unwrap();
        // 12.5 % of a million.
        assert_eq!(metrics.scheduled_requests.sum_decode_kv_tokens, 125_000);
        assert_eq!((metrics.dp_rank, metrics.counter_id, metrics.wall_time), (1, 18, 0.009));
        let said = notices(&mut log);
        assert!(said[1].contains("estimated") && said[2].contains("speculates"), "{said:?}");
    }

    #[test]
    fn a_dummy_step_is_idle() {
        let text = OLDER.replace("Iteration(17)", "Iteration(17) (dummy)");
        let metrics = read(&mut VllmLog::new(), &text).unwrap();
        assert_eq!(metrics.scheduled_requests, ForwardPassMetrics::default().scheduled_requests);
        assert_eq!(metrics.wall_time, 0.0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = |text: String| {
            let error = read(&mut VllmLog::new(), &text).unwrap_err();
            (error.code(), error.path())
        };
        let elapsed = "iteration elapsed time".to_owned();
        assert_eq!(fault(OLDER.replace("12.50 ms", "0.0125 s")), ("wrong_unit", elapsed.clone()));
        assert_eq!(fault(OLDER.replace("12.50", "fast")), ("malformed", elapsed));
        assert_eq!(
            fault(OLDER.replace("3 generation requests, ", "")),
            ("missing_field", "generation requests".to_owned())
        );
        assert_eq!(
            fault(OLDER.replace("1 context requests", "x context requests")),
            ("malformed", "context requests".to_owned())
        );
    }
}
