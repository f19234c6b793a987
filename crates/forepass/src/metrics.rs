//! The forward-pass metrics record (FPM, version 1) that engines publish after every step.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

mod wire;

pub use wire::iteration_from_json;
pub(crate) use wire::{NOT_A_RECORD, Object, Record, json_fault};

/// The only wire version there is.
pub const FPM_VERSION: u32 = 1;

/// Largest counter that is still exact as an f64 feature; a larger one cannot be a count of tokens.
pub(crate) const MAX_COUNT: u64 = 1 << 53;

/// One attention-DP rank in one engine step, as published on the wire.
///
/// Reading accepts what producers write: absent fields count as zero, unknown ones are ignored,
/// and the flat form of offline replays is understood. Counters are strict integers (`3.0`, `true`
/// and `"3"` are refused), `null` stands only for the optional fields, and a list is not taken for
/// an object. A scheduled decode batch must say how many KV tokens it reads, a prefill batch how
/// many it computes: an absent sum is unknown, not zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Object<Record>")]
pub struct ForwardPassMetrics {
    /// Wire version, 1.
    pub version: u32,
    /// Connection id of the worker; kept as text, never used for routing.
    pub worker_id: String,
    /// Attention data-parallel rank.
    pub dp_rank: u32,
    /// Counter of the publisher; not a key across ranks.
    pub counter_id: u64,
    /// What `wall_time` spans, where the producer says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing_scope: Option<String>,
    /// Duration of the step in seconds; 0 for an idle heartbeat.
    pub wall_time: f64,
    /// What the step computed.
    pub scheduled_requests: ScheduledRequests,
    /// What was waiting; carried, never a feature.
    pub queued_requests: QueuedRequests,
}

/// What one rank computed in one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ScheduledRequests {
    /// Requests that compute prompt tokens.
    pub num_prefill_requests: u64,
    /// Prompt tokens computed in this step.
    pub sum_prefill_tokens: u64,
    /// Population variance of the full prompt lengths, tokens²; carried, never read.
    pub var_prefill_length: f64,
    /// KV tokens already present for the scheduled prefills: prefix hits and earlier chunks.
    pub sum_prefill_kv_tokens: u64,
    /// Decoding requests.
    pub num_decode_requests: u64,
    /// Context tokens of the decoding requests.
    pub sum_decode_kv_tokens: u64,
    /// Population variance of those contexts, tokens²; carried, never read.
    pub var_decode_kv_tokens: f64,
    /// New tokens of each scheduled request, prefills first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_lengths: Option<Vec<u64>>,
    /// KV tokens already present for each scheduled request, in the same order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_kv_lengths: Option<Vec<u64>>,
}

/// What waited while one rank computed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueuedRequests {
    /// Requests waiting for prefill.
    pub num_prefill_requests: u64,
    /// Their prompt tokens, prefix hits included.
    pub sum_prefill_tokens: u64,
    /// Population variance of their prompt lengths, tokens².
    pub var_prefill_length: f64,
    /// Pre-empted decoding requests.
    pub num_decode_requests: u64,
    /// Their context tokens.
    pub sum_decode_kv_tokens: u64,
    /// Population variance of their contexts, tokens².
    pub var_decode_kv_tokens: f64,
}

impl Default for ForwardPassMetrics {
    fn default() -> Self {
        Self {
            version: FPM_VERSION,
            worker_id: String::new(),
            dp_rank: 0,
            counter_id: 0,
            timing_scope: None,
            wall_time: 0.0,
            scheduled_requests: ScheduledRequests::default(),
            queued_requests: QueuedRequests::default(),
        }
    }
}

impl ForwardPassMetrics {
    /// A record of `prefill_requests` that compute `prefill_tokens` on top of `prefill_kv_tokens`
    /// already cached; durations and metadata are left empty.
    pub fn prefill(prefill_requests: u64, prefill_tokens: u64, prefill_kv_tokens: u64) -> Self {
        Self::default().with_prefill(prefill_requests, prefill_tokens, prefill_kv_tokens)
    }

    /// A record of `decode_requests` that read `decode_kv_tokens` in all.
    pub fn decode(decode_requests: u64, decode_kv_tokens: u64) -> Self {
        Self::default().with_decode(decode_requests, decode_kv_tokens)
    }

    /// The same record with this prefill work.
    #[must_use]
    pub fn with_prefill(mut self, requests: u64, tokens: u64, kv_tokens: u64) -> Self {
        self.scheduled_requests.num_prefill_requests = requests;
        self.scheduled_requests.sum_prefill_tokens = tokens;
        self.scheduled_requests.sum_prefill_kv_tokens = kv_tokens;
        self
    }

    /// The same record with this decode work.
    #[must_use]
    pub fn with_decode(mut self, requests: u64, kv_tokens: u64) -> Self {
        self.scheduled_requests.num_decode_requests = requests;
        self.scheduled_requests.sum_decode_kv_tokens = kv_tokens;
        self
    }

    /// The same record with this duration in seconds.
    #[must_use]
    pub fn with_wall_time(mut self, wall_time_s: f64) -> Self {
        self.wall_time = wall_time_s;
        self
    }

    /// Checks the version and the invariants between the counters of one record.
    ///
    /// `wall_time` is not judged here: an impossible duration makes a record unfit to learn from,
    /// not malformed.
    pub fn check(&self) -> Result<()> {
        if self.version != FPM_VERSION {
            return Err(Error::metrics(
                "unsupported_version",
                "version",
                format!("ForwardPassMetrics version {} is not {FPM_VERSION}", self.version),
            ));
        }
        self.scheduled_requests.check().map_err(|error| error.within("scheduled_requests"))
    }
}

impl ScheduledRequests {
    /// Scheduled work by its counters, the sums as far as they are known.
    ///
    /// # Errors
    /// A sum that is not given although there are requests it belongs to.
    pub fn from_counters(
        num_prefill_requests: u64,
        sum_prefill_tokens: Option<u64>,
        sum_prefill_kv_tokens: u64,
        num_decode_requests: u64,
        sum_decode_kv_tokens: Option<u64>,
    ) -> Result<Self> {
        let required = |field, sum: Option<u64>, requests_field, requests| match sum {
            Some(sum) => Ok(sum),
            None if requests == 0 => Ok(0),
            None => Err(Error::metrics(
                "invalid_field",
                field,
                format!(
                    "absent although {requests_field} is {requests}: an absent sum is not zero"
                ),
            )),
        };
        Ok(Self {
            num_prefill_requests,
            sum_prefill_tokens: required(
                "sum_prefill_tokens",
                sum_prefill_tokens,
                "num_prefill_requests",
                num_prefill_requests,
            )?,
            sum_prefill_kv_tokens,
            num_decode_requests,
            sum_decode_kv_tokens: required(
                "sum_decode_kv_tokens",
                sum_decode_kv_tokens,
                "num_decode_requests",
                num_decode_requests,
            )?,
            ..Self::default()
        })
    }

    /// Checks the invariants between the counters.
    pub fn check(&self) -> Result<()> {
        for (field, count) in [
            ("num_prefill_requests", self.num_prefill_requests),
            ("sum_prefill_tokens", self.sum_prefill_tokens),
            ("sum_prefill_kv_tokens", self.sum_prefill_kv_tokens),
            ("num_decode_requests", self.num_decode_requests),
            ("sum_decode_kv_tokens", self.sum_decode_kv_tokens),
        ] {
            if count > MAX_COUNT {
                return Err(Error::metrics(
                    "invalid_field",
                    field,
                    format!("{count} is more than 2^53, which no count of tokens or requests is"),
                ));
            }
        }
        for (field, sum, requests_field, requests) in [
            (
                "sum_prefill_tokens",
                self.sum_prefill_tokens,
                "num_prefill_requests",
                self.num_prefill_requests,
            ),
            (
                "sum_prefill_kv_tokens",
                self.sum_prefill_kv_tokens,
                "num_prefill_requests",
                self.num_prefill_requests,
            ),
            (
                "sum_decode_kv_tokens",
                self.sum_decode_kv_tokens,
                "num_decode_requests",
                self.num_decode_requests,
            ),
        ] {
            if sum > 0 && requests == 0 {
                return Err(Error::metrics(
                    "invalid_field",
                    field,
                    format!("{sum} tokens with {requests_field} 0: give the number of requests"),
                ));
            }
        }
        self.check_lists()
    }

    fn check_lists(&self) -> Result<()> {
        let requests = self.num_prefill_requests + self.num_decode_requests;
        let (extend, past) = match (&self.extend_lengths, &self.past_kv_lengths) {
            (None, None) => return Ok(()),
            (Some(extend), Some(past)) => (extend, past),
            (Some(_), None) => return Err(missing_list("past_kv_lengths", "extend_lengths")),
            (None, Some(_)) => return Err(missing_list("extend_lengths", "past_kv_lengths")),
        };
        for (field, list) in [("extend_lengths", extend), ("past_kv_lengths", past)] {
            if list.len() as u64 != requests {
                return Err(Error::metrics(
                    "invalid_field",
                    field,
                    format!("{} entries for {requests} scheduled requests", list.len()),
                ));
            }
        }
        Ok(())
    }
}

fn missing_list(absent: &'static str, present: &str) -> Error {
    Error::metrics(
        "invalid_field",
        absent,
        format!("absent although {present} is given: give both lists or neither"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(metrics: &ForwardPassMetrics) -> (&'static str, String) {
        let error = metrics.check().unwrap_err();
        (error.code(), error.path())
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let mut metrics = ForwardPassMetrics::prefill(1, 128, 64)
            .with_decode(1, 4096)
            .with_wall_time(0.021_532_366_000_428_738);
        metrics.worker_id = "7498763828496525645".to_owned();
        metrics.dp_rank = 3;
        metrics.counter_id = u64::MAX;
        metrics.queued_requests.var_prefill_length = 0.1;
        for timing_scope in [None, Some("execute_model_cuda".to_owned())] {
            for lists in [None, Some(vec![128, 1])] {
                metrics.timing_scope.clone_from(&timing_scope);
                metrics.scheduled_requests.extend_lengths.clone_from(&lists);
                metrics.scheduled_requests.past_kv_lengths.clone_from(&lists);
                let text = serde_json::to_string(&metrics).unwrap();
                assert_eq!(serde_json::from_str::<ForwardPassMetrics>(&text).unwrap(), metrics);
                assert_eq!(text.contains("timing_scope"), timing_scope.is_some());
                assert_eq!(text.contains("extend_lengths"), lists.is_some());
            }
        }
    }

    #[test]
    fn only_version_1_is_supported() {
        let mut metrics = ForwardPassMetrics::default();
        assert!(metrics.check().is_ok());
        metrics.version = 999;
        assert_eq!(fault(&metrics), ("unsupported_version", "version".to_owned()));
        assert!(metrics.check().unwrap_err().to_string().contains("999 is not 1"));
    }

    #[test]
    fn tokens_without_requests_are_refused() {
        for (metrics, field) in [
            (ForwardPassMetrics::prefill(0, 1, 0), "sum_prefill_tokens"),
            (ForwardPassMetrics::prefill(0, 0, 1), "sum_prefill_kv_tokens"),
            (ForwardPassMetrics::decode(0, 1), "sum_decode_kv_tokens"),
        ] {
            let path = format!("scheduled_requests.{field}");
            assert_eq!(fault(&metrics), ("invalid_field", path));
        }
    }

    #[test]
    fn requests_without_tokens_are_legal() {
        assert!(ForwardPassMetrics::prefill(1, 0, 512).check().is_ok());
        assert!(ForwardPassMetrics::prefill(1, 0, 0).check().is_ok());
        assert!(ForwardPassMetrics::decode(1, 0).check().is_ok());
    }

    #[test]
    fn a_counter_beyond_2_to_the_53_is_refused() {
        assert!(ForwardPassMetrics::decode(1, 1 << 53).check().is_ok());
        let (code, path) = fault(&ForwardPassMetrics::decode(1, (1 << 53) + 1));
        assert_eq!((code, &*path), ("invalid_field", "scheduled_requests.sum_decode_kv_tokens"));
    }

    #[test]
    fn an_impossible_duration_is_not_a_malformed_record() {
        for wall_time in [0.0, -1.0, 1e9, f64::NAN, f64::INFINITY] {
            assert!(ForwardPassMetrics::decode(1, 1).with_wall_time(wall_time).check().is_ok());
        }
    }

    #[test]
    fn the_lists_come_together_and_cover_every_request() {
        let with_lists = |extend: Option<Vec<u64>>, past: Option<Vec<u64>>| {
            let mut metrics = ForwardPassMetrics::prefill(1, 8, 0).with_decode(1, 16);
            metrics.scheduled_requests.extend_lengths = extend;
            metrics.scheduled_requests.past_kv_lengths = past;
            metrics
        };
        // Speculative decode: the sums need not match the counters.
        assert!(with_lists(Some(vec![8, 4]), Some(vec![0, 16])).check().is_ok());
        for (extend, past, field) in [
            (Some(vec![8, 1]), None, "past_kv_lengths"),
            (None, Some(vec![0, 16]), "extend_lengths"),
            (Some(vec![8]), Some(vec![0, 16]), "extend_lengths"),
            (Some(vec![8, 1]), Some(vec![]), "past_kv_lengths"),
        ] {
            let path = format!("scheduled_requests.{field}");
            assert_eq!(fault(&with_lists(extend, past)), ("invalid_field", path));
        }
    }
}
