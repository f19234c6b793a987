//! Real-valued options in JSON, where a value that is not finite is a string.
//!
//! JSON has no NaN; written as `null` it would come back as an absent option. As `"NaN"`,
//! `"Infinity"` or `"-Infinity"` it survives until the check refuses it by name and path.

use std::fmt;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserializer, Serialize, Serializer};

const NON_FINITE: [(&str, f64); 3] =
    [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];

/// For `#[serde(with = "real")]`.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        value.serialize(to)
    } else if value.is_nan() {
        "NaN".serialize(to)
    } else if *value > 0.0 {
        "Infinity".serialize(to)
    } else {
        "-Infinity".serialize(to)
    }
}

/// For `#[serde(with = "real")]`.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_any(RealVisitor)
}

/// For `#[serde(deserialize_with = "real::present")]`, where the option may be absent.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    deserialize(from).map(Some)
}

/// For `#[serde(default, with = "real::optional")]`: a number, where it is given.
pub(super) mod optional {
    use serde::{Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde hands over a reference")]
    pub(in super::super) fn serialize<S: Serializer>(
        value: &Option<f64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<f64>, D::Error> {
        super::present(from)
    }
}

struct RealVisitor;

impl Visitor<'_> for RealVisitor {
    type Value = f64;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a number")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        NON_FINITE
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, value)| *value)
            .ok_or_else(|| E::invalid_type(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Real(#[serde(with = "super")] f64);

    fn read(json: &str) -> serde_json::Result<f64> {
        serde_json::from_str(json).map(|Real(value)| value)
    }

    #[test]
    fn every_number_survives_json() {
        let values = [0.1, -2.5e-300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY];
        for value in values {
            let json = serde_json::to_string(&Real(value)).unwrap();
            assert_eq!(read(&json).unwrap(), value, "{json}");
        }
        let json = serde_json::to_string(&Real(f64::NAN)).unwrap();
        assert_eq!(json, r#""NaN""#);
        assert!(read(&json).unwrap().is_nan());
    }

    #[test]
    fn integers_are_numbers_and_other_text_is_not() {
        assert_eq!(read("3").unwrap(), 3.0);
        assert_eq!(read("-3").unwrap(), -3.0);
        for json in [r#""3""#, r#""nan""#, r#""inf""#, "null", "true", "[1]"] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
