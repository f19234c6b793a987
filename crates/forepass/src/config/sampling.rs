//! Which observations a store keeps: the grid of cells and the capacity.

use serde::{Deserialize, Serialize};

use super::range;
use crate::error::{Error, Result};
use crate::retention::Freshness;
use crate::workload::{FEATURE_NAMES, FEATURES};

/// Largest capacity of a store: above it the rows alone would take tens of megabytes a store, and
/// a rebuild seconds.
pub const MAX_OBSERVATIONS: usize = 1_000_000;

const MAX_AXES: usize = 6;

/// Retention of observations; the defaults keep 64 rows spread over 4 by 4 cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RegressionSamplingConfig {
    /// Names of the axes of the grid; only the default, attention and ffn, is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axes: Option<Vec<String>>,
    /// Cells along each axis, one count an axis; each at least 1, product at most `isize::MAX`.
    pub bins_per_axis: Vec<usize>,
    /// Rows that a store keeps, 1 to [`MAX_OBSERVATIONS`].
    pub max_observations: usize,
    /// The newest rows, kept wherever they lie; less than `max_observations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent: Option<usize>,
    /// Rows that may arrive in a store after one before it goes; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<u64>,
}

/// Age up to which rows are kept by the kind `auto`: loads that are rare are not soon forgotten.
const AUTO_MAX_AGE: u64 = 4096;

impl Default for RegressionSamplingConfig {
    fn default() -> Self {
        Self {
            axes: None,
            bins_per_axis: vec![4; FEATURES],
            max_observations: 64,
            recent: None,
            max_age: None,
        }
    }
}

impl RegressionSamplingConfig {
    /// The same sampling with these cells along each axis.
    #[must_use]
    pub fn with_bins_per_axis(mut self, bins_per_axis: [usize; FEATURES]) -> Self {
        self.bins_per_axis = bins_per_axis.to_vec();
        self
    }

    /// The same sampling with this capacity of a store.
    #[must_use]
    pub fn with_max_observations(mut self, max_observations: usize) -> Self {
        self.max_observations = max_observations;
        self
    }

    /// The same sampling that always keeps this many of the newest rows.
    #[must_use]
    pub fn with_recent(mut self, recent: usize) -> Self {
        self.recent = Some(recent);
        self
    }

    /// The same sampling with this limit to the age of rows.
    #[must_use]
    pub fn with_max_age(mut self, max_age: u64) -> Self {
        self.max_age = Some(max_age);
        self
    }

    /// What the kind `auto` leaves out: half of the rows are the newest, and none is too old.
    pub(super) fn fill_in_freshness(&mut self) {
        self.recent.get_or_insert(self.max_observations / 2);
        self.max_age.get_or_insert(AUTO_MAX_AGE);
    }

    /// What else than the grid decides whether a row is kept.
    pub(super) fn freshness(&self) -> Option<Freshness> {
        if self.recent.is_none() && self.max_age.is_none() {
            return None;
        }
        Some(Freshness::new(self.recent.unwrap_or(0), self.max_age.unwrap_or(u64::MAX)))
    }

    /// Checks the sampling and gives the cells along each of the two axes.
    pub(super) fn check(&self) -> Result<[usize; FEATURES]> {
        check_axes("axes", self.axes.as_deref())?;
        check_grid(&self.bins_per_axis, self.max_observations)?;
        if let Some(recent) = self.recent.filter(|&recent| recent >= self.max_observations) {
            let most = self.max_observations - 1;
            let must_be = format!("0 to {most}, less than max_observations");
            return Err(range::out_of_range("recent", recent, &must_be));
        }
        if let Some(max_age) = self.max_age {
            range::positive("max_age", max_age)?;
        }
        <[usize; FEATURES]>::try_from(self.bins_per_axis.as_slice()).map_err(|_| {
            range::out_of_range(
                "bins_per_axis",
                format!("{:?}", self.bins_per_axis),
                "one count for each of the 2 axes",
            )
        })
    }
}

/// Checks a grid of cells and the capacity of what is kept in it.
pub(super) fn check_grid(bins_per_axis: &[usize], max_observations: usize) -> Result<()> {
    let cells = bins_per_axis.iter().try_fold(1_usize, |cells, bins| cells.checked_mul(*bins));
    let fault = if !(1..=MAX_AXES).contains(&bins_per_axis.len()) {
        Some("a list of 1 to 6 counts")
    } else if bins_per_axis.contains(&0) {
        Some("positive throughout")
    } else if cells.is_none_or(|cells| isize::try_from(cells).is_err()) {
        Some("smaller: the number of cells overflows")
    } else {
        None
    };
    if let Some(must_be) = fault {
        return Err(range::out_of_range("bins_per_axis", format!("{bins_per_axis:?}"), must_be));
    }
    range::within("max_observations", max_observations, MAX_OBSERVATIONS)
}

/// Checks that a store can become ready at all: it must be able to keep what readiness asks for.
pub(super) fn check_readiness(min_observations: usize, max_observations: usize) -> Result<()> {
    if (1..=max_observations).contains(&min_observations) {
        return Ok(());
    }
    Err(range::out_of_range(
        "min_observations",
        min_observations,
        &format!("1 to sampling.max_observations, which is {max_observations}"),
    ))
}

/// Refuses any axes but the default ones; `moe` is another name of ffn.
pub(super) fn check_axes(path: &str, axes: Option<&[String]>) -> Result<()> {
    let Some(axes) = axes else { return Ok(()) };
    let names = axes.iter().map(|axis| match axis.as_str() {
        "moe" => "ffn",
        other => other,
    });
    if names.eq(FEATURE_NAMES) {
        return Ok(());
    }
    Err(Error::config(
        "unsupported",
        path,
        format!("not supported: {axes:?}; the axes are {FEATURE_NAMES:?}, in this order"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(sampling: &RegressionSamplingConfig) -> Error {
        sampling.check().unwrap_err()
    }

    #[test]
    fn bins_need_one_positive_count_per_axis() {
        for bins in [vec![], vec![4], vec![4, 4, 4], vec![4; 7], vec![0, 4], vec![4, 0]] {
            let sampling = RegressionSamplingConfig { bins_per_axis: bins, ..Default::default() };
            let error = refusal(&sampling);
            assert_eq!(error.path(), "bins_per_axis");
            assert_eq!(error.code(), "invalid_value");
        }
        let sampling = RegressionSamplingConfig::default().with_bins_per_axis([1, 7]);
        assert_eq!(sampling.check().unwrap(), [1, 7]);
    }

    #[test]
    fn the_number_of_cells_must_be_representable() {
        let cells = |bins| RegressionSamplingConfig::default().with_bins_per_axis(bins);
        let largest = isize::MAX.unsigned_abs();
        assert!(cells([1, largest]).check().is_ok());
        for bins in [[1, largest + 1], [2, largest], [usize::MAX, usize::MAX]] {
            assert_eq!(refusal(&cells(bins)).path(), "bins_per_axis");
        }
    }

    #[test]
    fn capacity_is_positive_and_bounded() {
        let capacity = |rows| RegressionSamplingConfig::default().with_max_observations(rows);
        for rows in [0, MAX_OBSERVATIONS + 1, usize::MAX] {
            let error = refusal(&capacity(rows));
            assert_eq!(error.path(), "max_observations");
            assert!(error.to_string().contains(&rows.to_string()), "{error}");
        }
        assert!(capacity(1).check().is_ok());
        assert!(capacity(MAX_OBSERVATIONS).check().is_ok());
    }

    #[test]
    fn only_the_default_axes_are_accepted() {
        let axes = |names: &[&str]| RegressionSamplingConfig {
            axes: Some(names.iter().map(ToString::to_string).collect()),
            ..Default::default()
        };
        assert!(axes(&["attention", "ffn"]).check().is_ok());
        assert!(axes(&["attention", "moe"]).check().is_ok());
        for names in [
            &[][..],
            &["attention"],
            &["ffn", "attention"],
            &["attention", "attention"],
            &["attention", "logN"],
            &["attention", "ffn", "n"],
            &["Attention", "ffn"],
        ] {
            let error = refusal(&axes(names));
            assert_eq!((error.code(), error.path()), ("unsupported", "axes".to_owned()));
            assert!(error.to_string().contains(&format!("not supported: {names:?}")));
        }
    }
}
