//! How many draft tokens the target model accepts, as rates conditional on the token before.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::draft::MAX_REPLAY_DEPTH;
use crate::codes::{E_ACCEPT_INVALID, E_ACCEPT_MISSING, E_RANGE};
use crate::error::{Error, Result};

#[cfg(test)]
mod tests;

/// The rates that the older spelling of a depth assumes where none are given.
pub const DEFAULT_ACCEPTANCE: [f64; 5] = [0.85, 0.3, 0.0, 0.0, 0.0];

/// Acceptance of a chain: rate `i` is the probability that draft `i` is accepted, given that all
/// before it were.
///
/// As text the rates are separated by commas, and text that was written reads back the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct AcceptanceRates(Vec<f64>);

/// Refuses a depth that no replay has, before rates are made for it.
fn replayable(depth: u32) -> Result<()> {
    if depth <= MAX_REPLAY_DEPTH {
        return Ok(());
    }
    let message = format!("depth {depth} cannot be replayed: must be 1 to {MAX_REPLAY_DEPTH}");
    Err(Error::speculation(E_RANGE, "", message))
}

fn invalid(path: impl Into<String>, message: impl Into<String>) -> Error {
    Error::speculation(E_ACCEPT_INVALID, path, message)
}

impl AcceptanceRates {
    /// Conditional rates, each from 0 to 1.
    pub fn new(mut rates: Vec<f64>) -> Result<Self> {
        for (index, rate) in rates.iter_mut().enumerate() {
            if !(0.0..=1.0).contains(rate) {
                return Err(invalid(format!("[{index}]"), format!("{rate}: must be from 0 to 1")));
            }
            *rate += 0.0; // -0.0 would be written with its sign
        }
        Ok(Self(rates))
    }

    /// The rates of a depth in the older spelling: padded with zeros, cut, or the default.
    pub fn legacy(text: Option<&str>, depth: u32) -> Result<Self> {
        replayable(depth)?;
        let mut rates = match text.filter(|text| !text.trim().is_empty()) {
            Some(text) => text.parse::<Self>()?.0,
            None => DEFAULT_ACCEPTANCE.to_vec(),
        };
        rates.resize(depth as usize, 0.0);
        Ok(Self(rates))
    }

    /// Conditional rates from unconditional ones: rate `i` is the probability that draft `i` is
    /// accepted at all, so that no rate is above the one before.
    pub fn from_unconditional(rates: &[f64]) -> Result<Self> {
        let Self(rates) = Self::new(rates.to_vec())?;
        let mut before = 1.0;
        let conditional = (0..).zip(&rates).map(|(index, rate)| {
            if *rate > before {
                return Err(invalid(
                    format!("[{index}]"),
                    format!("{rate}, after {before}: unconditional rates must not increase"),
                ));
            }
            let conditional = if before == 0.0 { 0.0 } else { rate / before };
            before = *rate;
            Ok(conditional)
        });
        conditional.collect::<Result<_>>().map(Self)
    }

    /// The steadiest rates with this mean of accepted drafts, from 0 to the depth: certain as far
    /// as the mean reaches, then its fraction, then none.
    pub fn from_mean_accepted(mean: f64, depth: u32) -> Result<Self> {
        replayable(depth)?;
        if !(0.0..=f64::from(depth)).contains(&mean) {
            return Err(invalid("", format!("{mean}: must be from 0 to the depth, {depth}")));
        }
        Ok(Self((0..depth).map(|level| (mean - f64::from(level)).clamp(0.0, 1.0)).collect()))
    }

    /// As [`from_mean_accepted`](Self::from_mean_accepted), from the mean length of a step, which
    /// counts the token that the target model adds by itself: from 1 to the depth + 1.
    pub fn from_mean_length(length: f64, depth: u32) -> Result<Self> {
        if !(1.0..=f64::from(depth) + 1.0).contains(&length) {
            let longest = u64::from(depth) + 1;
            return Err(invalid(
                "",
                format!("{length}: must be from 1 to the depth + 1, {longest}"),
            ));
        }
        Self::from_mean_accepted(length - 1.0, depth)
    }

    /// The same rates, if there is one for each level of a draft.
    pub fn exactly(self, depth: u32) -> Result<Self> {
        let count = self.0.len();
        if count == depth as usize {
            return Ok(self);
        }
        let rates = if count == 1 { "rate" } else { "rates" };
        Err(invalid("", format!("{count} {rates} for a draft of depth {depth}: give {depth}")))
    }

    /// The rates, first level first.
    pub fn rates(&self) -> &[f64] {
        &self.0
    }

    /// Mean number of drafts that a step accepts.
    pub fn expected_accepted(&self) -> f64 {
        let mut reached = 1.0;
        self.0.iter().fold(0.0, |accepted, rate| {
            reached *= rate;
            accepted + reached
        })
    }

    /// Mean number of tokens by which a step advances a sequence: the accepted drafts and the one
    /// token that the target model adds by itself.
    pub fn expected_progress(&self) -> f64 {
        1.0 + self.expected_accepted()
    }
}

impl FromStr for AcceptanceRates {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Err(Error::speculation(
                E_ACCEPT_MISSING,
                "",
                "blank: give one rate from 0 to 1 for each level of the draft, as in \"0.8,0.6\"",
            ));
        }
        let rates = text.split(',').map(|item| {
            item.trim().parse::<f64>().map_err(|_| {
                invalid("", format!("{:?} in {text:?}: must be a number from 0 to 1", item.trim()))
            })
        });
        let rates = rates.collect::<Result<_>>()?;
        // An element of the text has no path of its own.
        Self::new(rates).map_err(|error| match error {
            Error::Speculation { code, path, message } => {
                Error::speculation(code, "", format!("rate {path} is {message}"))
            }
            other => other,
        })
    }
}

impl fmt::Display for AcceptanceRates {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        for (index, rate) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{rate}")?;
        }
        Ok(())
    }
}

/// Rows of a decode step: each request of the batch verifies its last token and `depth` drafts.
///
/// # Errors
/// `E_RANGE` where the product is above what a `u32` holds.
pub fn decode_rows(batch: u32, depth: u32) -> Result<u32> {
    depth.checked_add(1).and_then(|width| batch.checked_mul(width)).ok_or_else(|| {
        Error::speculation(
            E_RANGE,
            "",
            format!("{batch} requests x (depth {depth} + 1) rows: must be at most {}", u32::MAX),
        )
    })
}
