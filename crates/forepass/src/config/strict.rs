//! Reads typed options out of a JSON value: an object is an object, and a name is a string.
//!
//! Left to itself, serde also takes the fields of a struct from a list, in the order of their
//! declaration, and the name of a variant from an object.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

/// A JSON value to read options from.
#[derive(Clone, Copy)]
pub(crate) struct Strict<'a>(pub(super) &'a Value);

impl<'a> IntoDeserializer<'a, Error> for Strict<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Strict<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.iter().map(Strict)))
            }
            Value::Object(object) => visitor.visit_map(MapDeserializer::new(
                object.iter().map(|(key, value)| (key.as_str(), Strict(value))),
            )),
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(_) => self.deserialize_any(visitor),
            other => Err(Error::invalid_type(kind(other), &"an object")),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            other => Err(Error::invalid_type(kind(other), &"a string")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// What a value is, for the message that it should be something else.
fn kind(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Other("null"),
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Other("list"),
        Value::Object(_) => Unexpected::Other("object"),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Name {
        One,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Options {
        count: u32,
        list: Vec<u32>,
        name: Option<Name>,
        inner: Option<Box<Options>>,
        any: Value,
    }

    fn read(value: &Value) -> Result<Options, String> {
        Options::deserialize(Strict(value)).map_err(|error| error.to_string())
    }

    #[test]
    fn values_of_the_right_kind_are_read() {
        let any = json!([null, true, -1, 0.5, "x", {"a": []}]);
        let options = read(&json!({
            "count": 3, "list": [1, 2], "name": "one", "inner": {"count": 4, "name": null},
            "any": any
        }));
        assert_eq!(
            options.unwrap(),
            Options {
                count: 3,
                list: vec![1, 2],
                name: Some(Name::One),
                inner: Some(Box::new(Options { count: 4, ..Options::default() })),
                any,
            }
        );
    }

    #[test]
    fn a_list_is_no_object_and_an_object_is_no_name() {
        for value in [json!([3]), json!([]), json!({"inner": [3]})] {
            let message = read(&value).unwrap_err();
            assert_eq!(message, "invalid type: list, expected an object");
        }
        let message = read(&json!({"name": {"one": null}})).unwrap_err();
        assert_eq!(message, "invalid type: object, expected a string");
    }
}
