//! A JSON object whose values keep their bytes and whose keys keep their order.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The fields of an object, each value as the bytes it came in.
///
/// `serde_json::Value` would round numbers that a double cannot hold; content that goes back to
/// the model unmodified must not pass through it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Returns the value of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_ref())
    }

    /// Returns the value of `key` if it is a string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// Replaces the value of `key`, or adds the field at the end.
    pub(crate) fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Replaces the value of `key` by the JSON of `value`.
    ///
    /// # Errors
    /// If `value` has no JSON form.
    pub(crate) fn put<T: Serialize>(&mut self, key: &str, value: &T) -> serde_json::Result<()> {
        self.set(key, serde_json::value::to_raw_value(value)?);
        Ok(())
    }

    /// Iterates over the fields in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_ref()))
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    fields.set(&key, value);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_order_survive() {
        let json = r#"{"b":1.000000000000000000001,"a":{"x" : [ ]},"c":"\u0041"}"#;
        let mut fields: Fields = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&fields).unwrap(), json);
        assert_eq!(fields.text("c").as_deref(), Some("A"));
        fields.put("a", &1).unwrap();
        fields.put("d", &"x").unwrap();
        assert_eq!(
            serde_json::to_string(&fields).unwrap(),
            r#"{"b":1.000000000000000000001,"a":1,"c":"\u0041","d":"x"}"#
        );
        assert_eq!(fields.iter().count(), 4);
    }
}
