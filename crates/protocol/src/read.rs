//! Request bodies, read field by field so that each refusal names its field.
//!
//! A body is parsed once by [`body`]; an [`Object`] hands out its fields as [`Slot`]s, a slot
//! knows whether it is absent, null or a value, and a value ([`At`]) becomes text, number, word,
//! list or object within bounds. [`Object::finish`] refuses what nobody asked for. Paths are
//! dotted, as in `tools.0.configs.2.name`.

mod at;
mod object;

pub use at::At;
pub(crate) use at::{excerpt, or};
pub use object::{Object, Patch, Slot};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::Problem;

/// Parses a request body; an empty one reads as `{}`.
///
/// Of a key that occurs twice in one object the last value counts. Keys keep their order. A body
/// that is no JSON is refused with line and column; so is the character U+0000 in any text or
/// key, naming the field, because no database column and no C program would keep it.
pub fn body(bytes: &[u8]) -> Result<Value, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Problem::invalid(format!("the body is not valid JSON: {error}")))?;
    if bytes.windows(6).any(|window| window == br"\u0000") {
        at::refuse_nul(&At::confidential(&value))?;
    }
    Ok(value)
}

/// Appends `key` to the dotted path `path`.
fn join(path: &str, key: impl std::fmt::Display) -> String {
    if path.is_empty() {
        key.to_string()
    } else {
        format!("{path}.{key}")
    }
}

/// Keeps a stored null apart from an absent field, for serde.
pub(crate) fn there<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests;
