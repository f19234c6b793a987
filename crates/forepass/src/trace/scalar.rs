//! What stands around a record, of whatever type a producer gives it; other types count as absent.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value of any type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Whole(u64),
    Number(f64),
    Text(String),
    Flag(bool),
    /// A list of so many entries.
    List(usize),
    Other,
}

impl Scalar {
    /// The finite number it is.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The name it is, which may be written as a number.
    pub(super) fn name(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Whole(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The flag it is.
    pub(super) fn flag(&self) -> Option<bool> {
        if let Self::Flag(flag) = self { Some(*flag) } else { None }
    }

    /// The size it is or has: a number, or that of the entries of a list.
    pub(super) fn size(&self) -> Option<usize> {
        match self {
            Self::Whole(number) => usize::try_from(*number).ok(),
            Self::List(entries) => Some(*entries),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Whole(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value as f64))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Flag(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(value.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
                let mut entries = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    entries += 1;
                }
                Ok(Scalar::List(entries))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }

        from.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_it_is_and_nothing_else() {
        let of = |text: &str| serde_json::from_str::<Scalar>(text).unwrap();
        assert_eq!(
            (of("5").number(), of("-5").number(), of("0.5").number()),
            (Some(5.0), Some(-5.0), Some(0.5))
        );
        assert_eq!(of("18446744073709551615").name().as_deref(), Some("18446744073709551615"));
        assert_eq!((of("\"a\"").name().as_deref(), of("true").flag()), (Some("a"), Some(true)));
        assert_eq!((of("[0, [1]]").size(), of("4").size()), (Some(2), Some(4)));
        for text in ["null", "{\"a\": [1]}", "\"5\""] {
            assert_eq!((of(text).number(), of(text).flag(), of(text).size()), (None, None, None));
        }
    }
}
