//! The ranges that options share, each refusal naming the value found and what would be right.

use std::fmt::Display;

use crate::error::{Error, Result};

/// A value out of its range: what was found, and what it must be.
pub(crate) fn out_of_range(path: &str, found: impl Display, must_be: &str) -> Error {
    Error::config("invalid_value", path, format!("{found}: must be {must_be}"))
}

/// A count of at least 1.
pub(crate) fn positive(path: &str, count: impl Into<u128> + Copy + Display) -> Result<()> {
    if count.into() == 0 {
        return Err(out_of_range(path, count, "positive"));
    }
    Ok(())
}

/// A count from 1 to `max`.
pub(crate) fn within(path: &str, count: usize, max: usize) -> Result<()> {
    if !(1..=max).contains(&count) {
        return Err(out_of_range(path, count, &format!("1 to {max}")));
    }
    Ok(())
}

/// A real number above 0.
pub(crate) fn finite_positive(path: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(out_of_range(path, value, "finite and greater than 0"))
}

/// A real number of at least 0.
pub(crate) fn finite_nonnegative(path: &str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(out_of_range(path, value, "finite and at least 0"))
}

/// Text that says something.
pub(crate) fn not_blank(path: &str, text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(out_of_range(path, format!("{text:?}"), "not blank"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_value_and_the_range() {
        assert_eq!(
            finite_positive("w", f64::NAN).unwrap_err().to_string(),
            "w: NaN: must be finite and greater than 0"
        );
        for value in [0.0, -0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(finite_positive("w", value).is_err(), "{value}");
        }
        assert!(finite_positive("w", f64::MIN_POSITIVE).is_ok());
        assert!(finite_nonnegative("w", 0.0).is_ok());
        assert!(finite_nonnegative("w", -1e-300).is_err());
        assert!(finite_nonnegative("w", f64::NAN).is_err());
        assert_eq!(positive("n", 0_u32).unwrap_err().to_string(), "n: 0: must be positive");
        assert_eq!(within("n", 6, 5).unwrap_err().to_string(), "n: 6: must be 1 to 5");
        assert!(within("n", 0, 5).is_err());
        assert_eq!(not_blank("t", " \t").unwrap_err().code(), "invalid_value");
    }
}
