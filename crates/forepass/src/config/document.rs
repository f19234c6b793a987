//! From JSON to typed options, each fault with its path, its code and what would be right.

use std::fmt;

use serde::de::{self, DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::strict::Strict;
use crate::error::{self, Error, Result, join};

/// Options from JSON text.
pub(crate) fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    let Document(value) = error::from_json(text, fault)?;
    from_ref(&value)
}

/// Options from a JSON value.
#[expect(clippy::needless_pass_by_value, reason = "those who call are done with it")]
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T> {
    from_ref(&value)
}

/// Options from a JSON value that is kept.
pub(crate) fn from_ref<T: DeserializeOwned>(value: &Value) -> Result<T> {
    error::from_json_value(Strict(value), fault)
}

/// Options as compact JSON.
pub(crate) fn to_json(options: &impl Serialize) -> String {
    // Every key is a string and every number is written, finite or not: this does not fail.
    serde_json::to_string(options).unwrap_or_default()
}

/// Any JSON value in which no object repeats a key; [`Value`] would keep the last one silently.
struct Document(Value);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(DocumentVisitor).map(Document)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Document(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(de::Error::custom(format_args!("{REPEATED}{key}`")));
            }
            let Document(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

const REPEATED: &str = "repeated key `";

/// The other spelling of each field that has two.
pub(crate) const SPELLINGS: [(&str, &str); 12] = [
    ("tp", "tp_size"),
    ("pp", "pp_size"),
    ("attention_dp", "attention_dp_size"),
    ("cp_size", "cp"),
    ("dcp_size", "dcp"),
    ("gemm_quant_mode", "gemm_dtype"),
    ("moe_quant_mode", "moe_dtype"),
    ("fmha_quant_mode", "fmha_dtype"),
    ("kvcache_quant_mode", "kv_cache_dtype"),
    ("comm_quant_mode", "comm_dtype"),
    ("estimation_mode", "forward_model"),
    ("regression_ffn_token_weight", "regression_moe_token_weight"),
];

/// The other spelling of each field of a launch that has two.
const LAUNCH_SPELLINGS: [(&str, &str); 3] = [
    ("kind", "type"),
    ("kv_transfer_bytes_per_token", "kv_bytes_per_token"),
    ("acceptance_rates", "conditional_acceptance_rates"),
];

/// Gives a serde message its code, the path of the field that it names, and plain words.
fn fault(path: String, message: String) -> Error {
    let field = |prefix| message.strip_prefix(prefix)?.split('`').next();
    if let Some(field) = field("missing field `") {
        return Error::config("missing_field", join(&path, field), "absent: it is required");
    }
    if let Some(field) = field(REPEATED) {
        return Error::config(
            "duplicate_field",
            join(&path, field),
            format!("`{field}` stands twice in this object: give it once"),
        );
    }
    if let Some(field) = field("duplicate field `") {
        // No key repeats in a `Value`: two spellings of the field met.
        let other = SPELLINGS
            .iter()
            .chain(&LAUNCH_SPELLINGS)
            .find_map(|(canonical, other)| (*canonical == field).then_some(*other));
        return Error::config(
            "duplicate_field",
            join(&path, field),
            match other {
                Some(other) => format!("given both as `{field}` and as `{other}`: give one"),
                None => format!("`{field}` is given twice: give it once"),
            },
        );
    }
    if let Some(field) = field("unknown field `") {
        // The path already ends in the field, unless a hand-written visitor refused it.
        let whole = if path == field || path.ends_with(&format!(".{field}")) {
            path
        } else {
            join(&path, field)
        };
        return Error::config("unknown_field", whole, message);
    }
    let code = if message.starts_with("invalid type") {
        "invalid_type"
    } else if ["invalid value", "unknown variant", "number out of range"]
        .iter()
        .any(|start| message.starts_with(start))
    {
        "invalid_value"
    } else {
        "invalid_json"
    };
    Error::config(code, path, in_plain_words(&message))
}

/// Names what is expected in terms of JSON, where serde names a Rust type.
fn in_plain_words(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let expected = match expected {
        "u32" | "u64" | "usize" => "a nonnegative integer",
        "a sequence" => "a list",
        "a map" => "an object",
        other => other,
    };
    format!("{found}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value> {
        from_json(text.as_bytes())
    }

    #[test]
    fn a_repeated_key_is_refused_at_any_depth() {
        let error = read(r#"{"a": [{"b": 1, "c": 2, "b": 1}]}"#).unwrap_err();
        assert_eq!((error.code(), error.path()), ("duplicate_field", "a[0].b".to_owned()));
        assert!(read(r#"{"a": {"b": 1}, "b": {"a": 1}}"#).is_ok());
    }

    #[test]
    fn text_that_is_not_json_is_refused_with_its_place() {
        for text in
            ["", "{", r#"{"a": }"#, r#"{"a": NaN}"#, "{a: 1}", "[1,]", "{} x", "\"\\ud800\""]
        {
            let error = read(text).unwrap_err();
            assert_eq!(error.code(), "invalid_json", "{text}: {error}");
            assert!(error.to_string().contains("line 1 column"), "{text}: {error}");
            assert!(!error.path().contains('?'), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(read(&deep).unwrap_err().code(), "invalid_json");
    }

    #[test]
    fn a_number_that_no_f64_holds_is_refused_with_its_path() {
        let error = read(r#"{"a": {"b": 1e400}}"#).unwrap_err();
        assert_eq!((error.code(), error.path()), ("invalid_value", "a.b".to_owned()));
    }

    #[test]
    fn every_json_value_is_kept_as_it_is() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,0.1,"x",{}]}"#;
        assert_eq!(read(text).unwrap().to_string(), text);
    }

    #[test]
    fn what_is_expected_is_said_in_terms_of_json() {
        for (expected, words) in
            [("usize", "a nonnegative integer"), ("a map", "an object"), ("a boolean", "a boolean")]
        {
            let error = fault(String::new(), format!("invalid type: null, expected {expected}"));
            assert_eq!(error.to_string(), format!("invalid type: null, expected {words}"));
        }
    }
}
