//! Token counts by rule of thumb: four characters make a token.

use serde_json::Value;

/// The tokens of an image or document, whatever its size.
const ATTACHMENT: u64 = 1_600;

/// Characters per token.
pub(super) const CHARS: usize = 4;

/// Estimates the tokens of a text.
pub(super) fn of_text(text: &str) -> u64 {
    u64::try_from(text.chars().count().div_ceil(CHARS)).unwrap_or(u64::MAX)
}

/// Estimates the tokens of a JSON value: its strings, keys and a little for each scalar.
pub(super) fn of_value(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => of_text(text),
        Value::Array(items) => items.iter().map(of_value).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                // Inline bytes are no text: the provider counts pictures and pages.
                ("data", Value::String(_)) if fields.contains_key("media_type") => ATTACHMENT,
                (_, value) => of_text(key) + of_value(value),
            })
            .sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_counts_by_character_and_bytes_do_not_count() {
        assert_eq!([of_text(""), of_text("a"), of_text("ünf ab")], [0, 1, 2]);
        let image = json!({"source": {"media_type": "image/png", "data": "A".repeat(1_000_000)}});
        assert!(of_value(&image) < 2_000);
        assert!(of_value(&json!({"data": "A".repeat(1_000_000)})) > 200_000);
    }
}
