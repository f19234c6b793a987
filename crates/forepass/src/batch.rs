//! Many single-rank iterations as columns, the form in which arrays come and go.

use crate::error::{Error, Result};
use crate::metrics::{ForwardPassMetrics, MAX_COUNT};

/// The columns that matter, by the names of the record's fields.
///
/// The first five are counters; `wall_time`, in seconds, is needed only to learn.
pub const COLUMN_NAMES: [&str; 6] = [
    "num_prefill_requests",
    "sum_prefill_tokens",
    "sum_prefill_kv_tokens",
    "num_decode_requests",
    "sum_decode_kv_tokens",
    "wall_time",
];

/// Sums that must be given where their requests are: an absent sum is not zero.
const SUMS_OF: [(usize, usize); 2] = [(0, 1), (3, 4)];

/// Columns of single-rank iterations; an absent column counts as zero in every row.
///
/// Counters are whole numbers from 0 to 2^53, given as f64, in which those are exact.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    columns: [Option<&'a [f64]>; COLUMN_NAMES.len()],
    rows: usize,
}

impl<'a> Columns<'a> {
    /// Columns by name, all of one length.
    ///
    /// # Errors
    /// An unknown or repeated name, lengths that differ, or requests without the sum of their
    /// tokens.
    pub fn new(named: impl IntoIterator<Item = (&'a str, &'a [f64])>) -> Result<Self> {
        let mut columns = [None; COLUMN_NAMES.len()];
        let mut first: Option<(&str, usize)> = None;
        for (name, values) in named {
            let fault = |message| Err(Error::metrics("invalid_column", name, message));
            let Some(index) = COLUMN_NAMES.iter().position(|&known| known == name) else {
                return fault(format!("no such column: use {}", COLUMN_NAMES.join(", ")));
            };
            let (first_name, rows) = *first.get_or_insert((name, values.len()));
            if values.len() != rows {
                return fault(format!("{} rows, but {first_name} has {rows}", values.len()));
            }
            if columns[index].replace(values).is_some() {
                return fault("given twice".to_owned());
            }
        }
        for (requests, sum) in SUMS_OF {
            if columns[requests].is_some() && columns[sum].is_none() {
                return Err(Error::metrics(
                    "invalid_column",
                    COLUMN_NAMES[sum],
                    format!("absent although {} is given", COLUMN_NAMES[requests]),
                ));
            }
        }
        Ok(Self { columns, rows: first.map_or(0, |(_, rows)| rows) })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// One row as a record.
    ///
    /// # Errors
    /// A counter that is not a whole number from 0 to 2^53.
    pub(crate) fn record(&self, row: usize) -> Result<ForwardPassMetrics> {
        let wall_time = self.value(5, row);
        let record = ForwardPassMetrics::prefill(
            self.counter(0, row)?,
            self.counter(1, row)?,
            self.counter(2, row)?,
        );
        let record = record.with_decode(self.counter(3, row)?, self.counter(4, row)?);
        Ok(record.with_wall_time(wall_time))
    }

    fn value(&self, column: usize, row: usize) -> f64 {
        self.columns[column].map_or(0.0, |values| values[row])
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn counter(&self, column: usize, row: usize) -> Result<u64> {
        let value = self.value(column, row);
        if (0.0..=MAX_COUNT as f64).contains(&value) && value.fract() == 0.0 {
            return Ok(value as u64);
        }
        Err(Error::metrics(
            "invalid_field",
            COLUMN_NAMES[column],
            format!("{value} is not a whole number from 0 to 2^53"),
        ))
    }
}

/// Names the row at fault: `sum_prefill_tokens[17]`.
pub(crate) fn in_row(error: Error, row: usize) -> Error {
    match error {
        Error::Metrics { code, path, message } => {
            let column = path.strip_prefix("scheduled_requests.").unwrap_or(&path);
            Error::Metrics { code, path: format!("{column}[{row}]"), message }
        }
        other => other,
    }
}
