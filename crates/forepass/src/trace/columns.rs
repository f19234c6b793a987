//! The CSV layouts: which columns a table has, and which field of the record each one fills.

use super::TraceFormat;
use crate::error::Result;
use crate::metrics::ForwardPassMetrics;

/// The columns of one kind of table.
pub(super) struct Layout {
    pub(super) format: TraceFormat,
    pub(super) columns: &'static [Column],
}

/// One column; a table without a required one is not of the layout.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) required: bool,
    field: Field,
}

enum Field {
    Count(fn(&mut ForwardPassMetrics) -> &mut u64),
    Number(fn(&mut ForwardPassMetrics) -> &mut f64),
    /// Milliseconds in the table, seconds in the record.
    Milliseconds(fn(&mut ForwardPassMetrics) -> &mut f64),
    Rank,
    Worker,
    /// What the batch did, the other columns being the same for both phases.
    Phase,
}

use Field::{Count, Milliseconds, Number, Phase, Rank, Worker};

pub(super) static LAYOUTS: [Layout; 3] = [
    Layout { format: TraceFormat::VllmCsv, columns: &VLLM },
    Layout { format: TraceFormat::TrtllmCsv, columns: &TRTLLM },
    Layout { format: TraceFormat::RecordsCsv, columns: &RECORDS },
];

/// A row on its way to a record.
#[derive(Default)]
pub(super) struct Row {
    metrics: ForwardPassMetrics,
    is_decode: bool,
}

impl Row {
    /// The record; the counters of a decode batch stood in the fields of a prefill until now.
    pub(super) fn into_metrics(self) -> ForwardPassMetrics {
        if !self.is_decode {
            return self.metrics;
        }
        let scheduled = &self.metrics.scheduled_requests;
        let (requests, kv_tokens) =
            (scheduled.num_prefill_requests, scheduled.sum_prefill_kv_tokens);
        self.metrics.with_prefill(0, 0, 0).with_decode(requests, kv_tokens)
    }
}

#[rustfmt::skip]
static VLLM: [Column; 17] = [
    required("latency_ms", Milliseconds(|m| &mut m.wall_time)),
    required("num_prefill_requests", Count(|m| &mut m.scheduled_requests.num_prefill_requests)),
    required("sum_prefill_tokens", Count(|m| &mut m.scheduled_requests.sum_prefill_tokens)),
    required("sum_prefill_kv_tokens", Count(|m| &mut m.scheduled_requests.sum_prefill_kv_tokens)),
    required("num_decode_requests", Count(|m| &mut m.scheduled_requests.num_decode_requests)),
    required("sum_decode_kv_tokens", Count(|m| &mut m.scheduled_requests.sum_decode_kv_tokens)),
    optional("worker_id", Worker),
    optional("dp_rank", Rank),
    optional("counter_id", Count(|m| &mut m.counter_id)),
    optional("var_prefill_length", Number(|m| &mut m.scheduled_requests.var_prefill_length)),
    optional("var_decode_kv_tokens", Number(|m| &mut m.scheduled_requests.var_decode_kv_tokens)),
    optional("queued_prefill_requests", Count(|m| &mut m.queued_requests.num_prefill_requests)),
    optional("queued_prefill_tokens", Count(|m| &mut m.queued_requests.sum_prefill_tokens)),
    optional("queued_var_prefill_length", Number(|m| &mut m.queued_requests.var_prefill_length)),
    optional("queued_decode_requests", Count(|m| &mut m.queued_requests.num_decode_requests)),
    optional("queued_decode_kv_tokens", Count(|m| &mut m.queued_requests.sum_decode_kv_tokens)),
    optional("queued_var_decode_kv_tokens", Number(|m| &mut m.queued_requests.var_decode_kv_tokens)),
];

#[rustfmt::skip]
static TRTLLM: [Column; 8] = [
    required("wall_time_s", Number(|m| &mut m.wall_time)),
    required("prefill_requests", Count(|m| &mut m.scheduled_requests.num_prefill_requests)),
    required("prefill_tokens", Count(|m| &mut m.scheduled_requests.sum_prefill_tokens)),
    required("prefill_kv_tokens", Count(|m| &mut m.scheduled_requests.sum_prefill_kv_tokens)),
    required("decode_requests", Count(|m| &mut m.scheduled_requests.num_decode_requests)),
    required("decode_kv_tokens", Count(|m| &mut m.scheduled_requests.sum_decode_kv_tokens)),
    optional("queued_prefill_tokens", Count(|m| &mut m.queued_requests.sum_prefill_tokens)),
    optional("queued_decode_kv_tokens", Count(|m| &mut m.queued_requests.sum_decode_kv_tokens)),
];

#[rustfmt::skip]
static RECORDS: [Column; 5] = [
    required("phase", Phase),
    required("batch_size", Count(|m| &mut m.scheduled_requests.num_prefill_requests)),
    required("total_prefill_tokens", Count(|m| &mut m.scheduled_requests.sum_prefill_tokens)),
    required("total_kv_read_tokens", Count(|m| &mut m.scheduled_requests.sum_prefill_kv_tokens)),
    required("truth_latency_ms", Milliseconds(|m| &mut m.wall_time)),
];

const fn required(name: &'static str, field: Field) -> Column {
    Column { name, required: true, field }
}

const fn optional(name: &'static str, field: Field) -> Column {
    Column { name, required: false, field }
}

impl Layout {
    /// Names of the columns that the layout cannot do without.
    pub(super) fn required(&self) -> impl Iterator<Item = &'static str> + use<> {
        let columns = self.columns.iter();
        columns.filter(|c| c.required).map(|c| c.name)
    }
}

impl Column {
    /// Writes the text into the record, or says what it should have been.
    pub(super) fn store(&self, text: &[u8], row: &mut Row) -> Result<(), &'static str> {
        let metrics = &mut row.metrics;
        let text = std::str::from_utf8(text).map_err(|_| "UTF-8 text")?;
        match self.field {
            Count(count) => {
                *count(metrics) = text.parse().map_err(|_| "a nonnegative integer")?;
            }
            Number(number) => *number(metrics) = finite(text)?,
            Milliseconds(seconds) => *seconds(metrics) = finite(text)? / 1000.0,
            Rank => {
                metrics.dp_rank = text.parse().map_err(|_| "a nonnegative integer below 2^32")?;
            }
            Worker => text.clone_into(&mut metrics.worker_id),
            Phase => {
                row.is_decode = match text {
                    "prefill" => false,
                    "decode" => true,
                    _ => return Err("prefill or decode"),
                };
            }
        }
        Ok(())
    }
}

fn finite(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok();
    number.filter(|n: &f64| n.is_finite()).ok_or("a finite number")
}
