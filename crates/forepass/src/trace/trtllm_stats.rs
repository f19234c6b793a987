//! TensorRT-LLM iteration statistics: one JSON object an iteration, on lines or in lists.
//!
//! The latency is `gpuForwardTimeMS`, which belongs to the batch of the record. Where it is absent,
//! what else is told spans other things, so each has a timing scope of its own.

use serde::Deserialize;

use super::Iteration;
use super::lines::Line;
use super::parser::{Notices, Parser, is_cut_json};
use crate::error::{Error, Result, from_json};
use crate::metrics::{ForwardPassMetrics, Object, QueuedRequests, ScheduledRequests, json_fault};

/// Reads the objects one by one.
#[derive(Debug, Default)]
pub(super) struct TrtllmStats {
    notices: Notices,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names)] // the names of the wire
struct Stats {
    iter: u64,
    #[serde(rename = "iterLatencyMS")]
    iter_latency_ms: Option<f64>,
    #[serde(rename = "hostStepTimeMS")]
    host_step_time_ms: Option<f64>,
    #[serde(rename = "gpuForwardTimeMS")]
    gpu_forward_time_ms: Option<f64>,
    scheduler_mode: Option<String>,
    attention_dp_rank: Option<u32>,
    inflight_batching_stats: Option<Object<Inflight>>,
    static_batching_stats: Option<Object<Static>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names)] // the names of the wire
struct Inflight {
    num_context_requests: u64,
    num_ctx_tokens: Option<u64>,
    num_ctx_kv_tokens: Option<u64>,
    num_gen_requests: u64,
    num_gen_kv_tokens: Option<u64>,
    num_paused_requests: u64,
    num_paused_kv_tokens: u64,
    num_queued_context_requests: u64,
    num_queued_ctx_tokens: u64,
    num_queued_gen_requests: u64,
    num_queued_gen_kv_tokens: u64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names)] // the names of the wire
struct Static {
    num_context_requests: u64,
    num_ctx_tokens: Option<u64>,
    num_gen_tokens: u64,
}

impl Parser for TrtllmStats {
    fn is_cut(&mut self, line: &Line) -> bool {
        is_cut_json(line)
    }

    fn parse(&mut self, text: &[u8], iteration: &mut Iteration) -> Result<bool> {
        let Object(stats): Object<Stats> =
            from_json(text, |path, message| json_fault("malformed", path, &message))?;
        let (scope, latency_ms) = stats.latency()?;
        if scope == ITER_LATENCY_OVERLAPPED {
            self.notices.once(scope, || {
                "no gpuForwardTimeMS: with the overlap scheduler iterLatencyMS spans about two \
                 loops, so latencies are approximate"
                    .to_owned()
            });
        }
        let (scheduled_requests, queued_requests) = self.work(&stats)?;
        let metrics = ForwardPassMetrics {
            dp_rank: stats.attention_dp_rank.unwrap_or(0),
            counter_id: stats.iter,
            timing_scope: Some(scope.to_owned()),
            wall_time: latency_ms / 1000.0,
            scheduled_requests,
            queued_requests,
            ..ForwardPassMetrics::default()
        };
        metrics.check()?;
        iteration.ranks.push(metrics);
        Ok(true)
    }

    fn notice(&mut self) -> Option<String> {
        self.notices.next()
    }
}

const GPU_FORWARD: &str = "gpu_forward";
const ITER_LATENCY: &str = "iter_latency";
const ITER_LATENCY_OVERLAPPED: &str = "iter_latency_overlapped";
const HOST_STEP: &str = "host_step";

impl Stats {
    /// What the latency spans, and the latency in milliseconds.
    fn latency(&self) -> Result<(&'static str, f64)> {
        let overlap = self.scheduler_mode.as_deref() != Some("non_overlap");
        match (self.gpu_forward_time_ms, self.iter_latency_ms, self.host_step_time_ms) {
            (Some(ms), ..) => Ok((GPU_FORWARD, ms)),
            (None, Some(ms), _) if overlap => Ok((ITER_LATENCY_OVERLAPPED, ms)),
            (None, Some(ms), _) => Ok((ITER_LATENCY, ms)),
            (None, None, Some(ms)) if !overlap => Ok((HOST_STEP, ms)),
            _ => Err(Error::metrics(
                "missing_field",
                "gpuForwardTimeMS",
                "absent, and so is what could stand for it: give gpuForwardTimeMS, iterLatencyMS, \
                 or hostStepTimeMS with schedulerMode non_overlap, in milliseconds",
            )),
        }
    }
}

impl TrtllmStats {
    fn work(&mut self, stats: &Stats) -> Result<(ScheduledRequests, QueuedRequests)> {
        if let Some(Object(found)) = &stats.inflight_batching_stats {
            let scheduled = scheduled(found).map_err(|e| e.within("inflightBatchingStats"))?;
            if found.num_context_requests > 0 && found.num_ctx_kv_tokens.is_none() {
                self.notices.once("numCtxKvTokens", || {
                    "no numCtxKvTokens: cached tokens of prefills count as none".to_owned()
                });
            }
            let queued = QueuedRequests {
                num_prefill_requests: found.num_queued_context_requests,
                sum_prefill_tokens: found.num_queued_ctx_tokens,
                num_decode_requests: found
                    .num_paused_requests
                    .saturating_add(found.num_queued_gen_requests),
                sum_decode_kv_tokens: found
                    .num_paused_kv_tokens
                    .saturating_add(found.num_queued_gen_kv_tokens),
                ..QueuedRequests::default()
            };
            Ok((scheduled, queued))
        } else if let Some(Object(found)) = &stats.static_batching_stats {
            let scheduled = scheduled(&Inflight {
                num_context_requests: found.num_context_requests,
                num_ctx_tokens: found.num_ctx_tokens,
                num_gen_requests: found.num_gen_tokens,
                ..Inflight::default()
            });
            let scheduled = scheduled.map_err(|error| error.within("staticBatchingStats"))?;
            Ok((scheduled, QueuedRequests::default()))
        } else {
            Err(Error::metrics(
                "missing_field",
                "inflightBatchingStats",
                "absent: an iteration needs inflightBatchingStats or staticBatchingStats",
            ))
        }
    }
}

fn scheduled(found: &Inflight) -> Result<ScheduledRequests> {
    let known = |field, tokens: Option<u64>, of: &str, requests| match tokens {
        None if requests > 0 => Err(Error::metrics(
            "missing_field",
            field,
            format!("absent although {of} is {requests}: an unknown sum is not zero"),
        )),
        tokens => Ok(tokens.unwrap_or(0)),
    };
    let (prefills, decodes) = (found.num_context_requests, found.num_gen_requests);
    Ok(ScheduledRequests {
        num_prefill_requests: prefills,
        sum_prefill_tokens: known(
            "numCtxTokens",
            found.num_ctx_tokens,
            "numContextRequests",
            prefills,
        )?,
        sum_prefill_kv_tokens: found.num_ctx_kv_tokens.unwrap_or(0),
        num_decode_requests: decodes,
        sum_decode_kv_tokens: known(
            "numGenKvTokens",
            found.num_gen_kv_tokens,
            "numGenRequests",
            decodes,
        )?,
        ..ScheduledRequests::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = r#"{"timestamp": "x", "iter": 7, "iterLatencyMS": 20.0,
        "hostStepTimeMS": 9.0, "gpuForwardTimeMS": 12.5, "schedulerMode": "overlap",
        "attentionDpRank": 1, "specDecodingStats": null, "inflightBatchingStats": {
        "numContextRequests": 1, "numCtxTokens": 128, "numCtxKvTokens": 64, "numGenRequests": 3,
        "numGenKvTokens": 4096, "numPausedRequests": 1, "numPausedKvTokens": 10,
        "numQueuedContextRequests": 2, "numQueuedCtxTokens": 300, "numQueuedGenRequests": 4,
        "numQueuedGenKvTokens": 500}}"#;

    fn read(text: &str) -> Result<(ForwardPassMetrics, Vec<String>)> {
        let (mut parser, mut iteration) = (TrtllmStats::default(), Iteration::default());
        assert!(parser.parse(text.as_bytes(), &mut iteration)?);
        assert_eq!(iteration.ranks.len(), 1);
        let notices = std::iter::from_fn(|| parser.notice()).collect();
        Ok((iteration.ranks.remove(0), notices))
    }

    #[test]
    fn every_field_goes_where_it_belongs() {
        let mut expected =
            ForwardPassMetrics::prefill(1, 128, 64).with_decode(3, 4096).with_wall_time(0.0125);
        expected.dp_rank = 1;
        expected.counter_id = 7;
        expected.timing_scope = Some("gpu_forward".to_owned());
        expected.queued_requests = QueuedRequests {
            num_prefill_requests: 2,
            sum_prefill_tokens: 300,
            num_decode_requests: 5,
            sum_decode_kv_tokens: 510,
            ..QueuedRequests::default()
        };
        assert_eq!(read(STATS).unwrap(), (expected, Vec::new()));
    }

    #[test]
    fn the_latency_is_what_spans_the_batch_best() {
        let gone = STATS.replace("gpuForwardTimeMS", "other");
        let (metrics, notices) = read(&gone).unwrap();
        assert_eq!(metrics.timing_scope.as_deref(), Some("iter_latency_overlapped"));
        assert_eq!(metrics.wall_time, 0.020);
        assert!(notices[0].contains("about two loops"), "{notices:?}");
        let apart = gone.replace("\"overlap\"", "\"non_overlap\"");
        let (metrics, notices) = read(&apart).unwrap();
        assert_eq!((metrics.timing_scope.as_deref(), notices.len()), (Some("iter_latency"), 0));
        let (metrics, _) = read(&apart.replace("iterLatencyMS", "other")).unwrap();
        assert_eq!(metrics.timing_scope.as_deref(), Some("host_step"));
        let error = read(&gone.replace("iterLatencyMS", "iterLatencySeconds")).unwrap_err();
        assert_eq!((error.code(), error.path()), ("missing_field", "gpuForwardTimeMS".to_owned()));
    }

    #[test]
    fn an_unknown_sum_is_not_zero() {
        for field in ["numGenKvTokens", "numCtxTokens"] {
            let error = read(&STATS.replace(field, "other")).unwrap_err();
            let path = format!("inflightBatchingStats.{field}");
            assert_eq!((error.code(), error.path()), ("missing_field", path));
        }
        let (_, notices) = read(&STATS.replace("numCtxKvTokens", "other")).unwrap();
        assert!(notices[0].contains("numCtxKvTokens"), "{notices:?}");
    }

    #[test]
    fn static_batches_are_read_too() {
        let text = r#"{"gpuForwardTimeMS": 5, "staticBatchingStats": {"numScheduledRequests": 2,
            "numContextRequests": 2, "numCtxTokens": 30, "numGenTokens": 0}}"#;
        let (metrics, _) = read(text).unwrap();
        assert_eq!(
            metrics.scheduled_requests,
            ForwardPassMetrics::prefill(2, 30, 0).scheduled_requests
        );
        let error = read(&text.replace("\"numGenTokens\": 0", "\"numGenTokens\": 1")).unwrap_err();
        assert_eq!(error.path(), "staticBatchingStats.numGenKvTokens");
        assert_eq!(read(r#"{"gpuForwardTimeMS": 5}"#).unwrap_err().path(), "inflightBatchingStats");
    }
}
