//! The forward-pass metrics record (FPM, version 1) that engines publish after every step.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, Result, from_json};

/// The only wire version there is.
pub const FPM_VERSION: u32 = 1;

/// Largest counter that is still exact as an f64 feature; a larger one cannot be a count of tokens.
const MAX_COUNT: u64 = 1 << 53;

/// One attention-DP rank in one engine step, as published on the wire.
///
/// Reading accepts what producers write: absent fields count as zero, unknown ones are ignored,
/// and the flat form of offline replays is understood. Counters are strict integers (`3.0`, `true`
/// and `"3"` are refused). A scheduled decode batch must say how many KV tokens it reads, a
/// prefill batch how many it computes: an absent sum is unknown, not zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Record")]
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
                format!(
                    "ForwardPassMetrics version {} is not {FPM_VERSION}",
                    self.version
                ),
            ));
        }
        self.scheduled_requests
            .check()
            .map_err(|error| error.within("scheduled_requests"))
    }
}

impl ScheduledRequests {
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

/// One iteration, the records of all its ranks, from JSON text: one object, or a list of objects.
pub fn iteration_from_json(text: &[u8]) -> Result<Vec<ForwardPassMetrics>> {
    let fault = |path, message| Error::metrics("invalid_json", path, message);
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => from_json(text, fault),
        _ => from_json(text, fault).map(|record| vec![record]),
    }
}

/// The record as it may stand on the wire: nested, or flat as offline replays write it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    version: Option<u32>,
    worker_id: String,
    dp_rank: u32,
    counter_id: u64,
    timing_scope: Option<String>,
    #[serde(deserialize_with = "present")]
    wall_time: Option<f64>,
    #[serde(deserialize_with = "present")]
    scheduled_requests: Option<Scheduled>,
    #[serde(deserialize_with = "present")]
    queued_requests: Option<QueuedRequests>,
    #[serde(deserialize_with = "present")]
    num_prefill_requests: Option<u64>,
    #[serde(deserialize_with = "present")]
    sum_prefill_tokens: Option<u64>,
    var_prefill_length: f64,
    #[serde(deserialize_with = "present")]
    sum_prefill_kv_tokens: Option<u64>,
    #[serde(deserialize_with = "present")]
    num_decode_requests: Option<u64>,
    #[serde(deserialize_with = "present")]
    sum_decode_kv_tokens: Option<u64>,
    var_decode_kv_tokens: f64,
    num_queued_prefill: u64,
    sum_queued_prefill_tokens: u64,
    var_queued_prefill_length: f64,
    num_queued_decode: u64,
    sum_queued_decode_kv_tokens: u64,
    var_queued_decode_kv_tokens: f64,
}

/// `scheduled_requests` as it stands on the wire, absent sums told apart from zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Scheduled {
    num_prefill_requests: u64,
    #[serde(deserialize_with = "present")]
    sum_prefill_tokens: Option<u64>,
    var_prefill_length: f64,
    sum_prefill_kv_tokens: u64,
    num_decode_requests: u64,
    #[serde(deserialize_with = "present")]
    sum_decode_kv_tokens: Option<u64>,
    var_decode_kv_tokens: f64,
    extend_lengths: Option<Vec<u64>>,
    past_kv_lengths: Option<Vec<u64>>,
}

/// A field that may be absent but, where it stands, is not `null`.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A sum that may be absent only while there is no request it could belong to.
pub(crate) fn required_sum(
    field: &'static str,
    sum: Option<u64>,
    requests_field: &str,
    requests: u64,
) -> Result<u64> {
    match sum {
        Some(sum) => Ok(sum),
        None if requests == 0 => Ok(0),
        None => Err(Error::metrics(
            "invalid_field",
            format!("scheduled_requests.{field}"),
            format!("absent although {requests_field} is {requests}: an absent sum is not zero"),
        )),
    }
}

impl Record {
    /// Whether the object says anything that only a forward-pass record says.
    pub(crate) fn is_recognisable(&self) -> bool {
        self.wall_time.is_some() || self.scheduled_requests.is_some() || self.is_flat()
    }

    fn is_flat(&self) -> bool {
        self.num_prefill_requests.is_some()
            || self.sum_prefill_tokens.is_some()
            || self.sum_prefill_kv_tokens.is_some()
            || self.num_decode_requests.is_some()
            || self.sum_decode_kv_tokens.is_some()
    }
}

impl TryFrom<Record> for ForwardPassMetrics {
    type Error = Error;

    fn try_from(record: Record) -> Result<Self> {
        if record.is_flat() && record.scheduled_requests.is_some() {
            return Err(Error::metrics(
                "invalid_field",
                "scheduled_requests",
                "the counters are given both here and beside it: give one of the two forms",
            ));
        }
        let queued_requests = record.queued_requests.unwrap_or(QueuedRequests {
            num_prefill_requests: record.num_queued_prefill,
            sum_prefill_tokens: record.sum_queued_prefill_tokens,
            var_prefill_length: record.var_queued_prefill_length,
            num_decode_requests: record.num_queued_decode,
            sum_decode_kv_tokens: record.sum_queued_decode_kv_tokens,
            var_decode_kv_tokens: record.var_queued_decode_kv_tokens,
        });
        let scheduled = record.scheduled_requests.unwrap_or(Scheduled {
            num_prefill_requests: record.num_prefill_requests.unwrap_or(0),
            sum_prefill_tokens: record.sum_prefill_tokens,
            var_prefill_length: record.var_prefill_length,
            sum_prefill_kv_tokens: record.sum_prefill_kv_tokens.unwrap_or(0),
            num_decode_requests: record.num_decode_requests.unwrap_or(0),
            sum_decode_kv_tokens: record.sum_decode_kv_tokens,
            var_decode_kv_tokens: record.var_decode_kv_tokens,
            extend_lengths: None,
            past_kv_lengths: None,
        });
        Ok(Self {
            version: record.version.unwrap_or(FPM_VERSION),
            worker_id: record.worker_id,
            dp_rank: record.dp_rank,
            counter_id: record.counter_id,
            timing_scope: record.timing_scope,
            wall_time: record.wall_time.unwrap_or(0.0),
            scheduled_requests: ScheduledRequests {
                num_prefill_requests: scheduled.num_prefill_requests,
                sum_prefill_tokens: required_sum(
                    "sum_prefill_tokens",
                    scheduled.sum_prefill_tokens,
                    "num_prefill_requests",
                    scheduled.num_prefill_requests,
                )?,
                var_prefill_length: scheduled.var_prefill_length,
                sum_prefill_kv_tokens: scheduled.sum_prefill_kv_tokens,
                num_decode_requests: scheduled.num_decode_requests,
                sum_decode_kv_tokens: required_sum(
                    "sum_decode_kv_tokens",
                    scheduled.sum_decode_kv_tokens,
                    "num_decode_requests",
                    scheduled.num_decode_requests,
                )?,
                var_decode_kv_tokens: scheduled.var_decode_kv_tokens,
                extend_lengths: scheduled.extend_lengths,
                past_kv_lengths: scheduled.past_kv_lengths,
            },
            queued_requests,
        })
    }
}
