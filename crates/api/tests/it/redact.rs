//! Ids and times out of snapshots, so that what is left is the same in every run.

use std::collections::HashMap;

use serde_json::Value;

/// Replaces ids by their kind and order of appearance, times by one word, cursors by another.
pub(crate) fn redact(value: &Value) -> Value {
    let mut names = Names::default();
    names.value(value)
}

#[derive(Default)]
struct Names {
    known: HashMap<String, String>,
    counts: HashMap<String, usize>,
}

impl Names {
    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(list) => list.iter().map(|value| self.value(value)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (key.clone(), self.value(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        if text.starts_with("page_") {
            return "<cursor>".to_owned();
        }
        if text.len() == 27 && text.ends_with('Z') && text.as_bytes()[10] == b'T' {
            return "<time>".to_owned();
        }
        let mut out = String::new();
        let mut word = String::new();
        for c in text.chars().chain(['\0']) {
            if c.is_ascii_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            out.push_str(&self.word(&word));
            word.clear();
            out.push(c);
        }
        out.pop();
        out
    }

    fn word(&mut self, word: &str) -> String {
        let Some((kind, digits)) = word.rsplit_once('_') else {
            return word.to_owned();
        };
        if digits.len() != 24 || !digits.starts_with("01") {
            return word.to_owned();
        }
        if let Some(known) = self.known.get(word) {
            return known.clone();
        }
        let count = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        let name = format!("<{kind} {count}>");
        self.known.insert(word.to_owned(), name.clone());
        name
    }
}
