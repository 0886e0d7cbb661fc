//! Metadata: a client's own pairs on agents, environments and sessions.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::read::{At, Slot};
use crate::{ErrorCode, Problem, limits};

/// The pairs, by key.
pub type Metadata = BTreeMap<String, String>;

/// What an empty value in an update means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EmptyValue {
    /// It is a value like any other.
    Kept,
    /// It removes the pair, as in environments.
    Deletes,
}

/// Changes to metadata: a value sets a pair, `None` removes it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MetadataPatch(BTreeMap<String, Option<String>>);

/// Reads the metadata of a new object; absent and null are empty.
pub fn create(slot: Slot<'_>) -> Result<Metadata, Problem> {
    let Some(at) = slot.optional() else {
        return Ok(Metadata::new());
    };
    let mut pairs = Metadata::new();
    for (key, value) in at.map()? {
        let Value::String(value) = value else {
            let key = at.key(key);
            return Err(at.refuse(format_args!("the value of {key} must be a string")));
        };
        pairs.insert(key.clone(), value.clone());
    }
    check(&at, &pairs)?;
    Ok(pairs)
}

/// Reads the metadata of an update, with its path; absent and null change nothing.
pub fn patch(slot: Slot<'_>, empty: EmptyValue) -> Result<MetadataPatch, Problem> {
    let Some(at) = slot.optional() else {
        return Ok(MetadataPatch::default());
    };
    let mut patch = MetadataPatch::default();
    for (key, value) in at.map()? {
        let value = match value {
            Value::Null => None,
            Value::String(value) if value.is_empty() && empty == EmptyValue::Deletes => None,
            Value::String(value) => Some(value.clone()),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                let key = at.key(key);
                return Err(at.refuse(format_args!(
                    "the value of {key} must be a string, or null to delete it"
                )));
            }
        };
        patch.0.insert(key.clone(), value);
    }
    let set = patch
        .0
        .iter()
        .filter_map(|(key, value)| Some((key.clone(), value.clone()?)))
        .collect();
    check_pairs(&at, &set)?;
    Ok(patch)
}

impl MetadataPatch {
    /// Returns the keys that get a value.
    pub fn set(&self) -> impl Iterator<Item = &String> {
        let set = self.0.iter().filter(|(_, value)| value.is_some());
        set.map(|(key, _)| key)
    }

    /// Merges into `stored`; refuses a result with too many pairs.
    pub fn apply(&self, stored: &Metadata) -> Result<Metadata, Problem> {
        let mut merged = stored.clone();
        for (key, value) in &self.0 {
            match value {
                Some(value) => merged.insert(key.clone(), value.clone()),
                None => merged.remove(key),
            };
        }
        check_count("metadata", merged.len())?;
        Ok(merged)
    }
}

fn check(at: &At<'_>, pairs: &Metadata) -> Result<(), Problem> {
    check_count(at.path(), pairs.len())?;
    check_pairs(at, pairs)
}

fn check_count(path: &str, count: usize) -> Result<(), Problem> {
    if count <= limits::METADATA_PAIRS {
        return Ok(());
    }
    Err(invalid(format!(
        "{path}: must have at most {} pairs, not {count}",
        limits::METADATA_PAIRS
    )))
}

/// Checks keys and values; the message lists each one that is wrong.
fn check_pairs(at: &At<'_>, pairs: &Metadata) -> Result<(), Problem> {
    let wrong: Vec<String> = pairs
        .iter()
        .flat_map(|(key, value)| [wrong_key(at, key), wrong_value(at, key, value)])
        .flatten()
        .take(limits::METADATA_PAIRS)
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(invalid(format!("{}: {}", at.path(), wrong.join("; "))))
}

fn wrong_key(at: &At<'_>, key: &str) -> Option<String> {
    let shown = at.key(key);
    let count = key.chars().count();
    if !(1..=limits::METADATA_KEY).contains(&count) {
        return Some(format!(
            "{shown} must have 1 to {} characters, not {count}",
            limits::METADATA_KEY
        ));
    }
    key.contains('\0')
        .then(|| format!("{shown} must not contain the character U+0000"))
}

fn wrong_value(at: &At<'_>, key: &str, value: &str) -> Option<String> {
    let shown = at.key(key);
    let count = value.chars().count();
    if count > limits::METADATA_VALUE {
        return Some(format!(
            "the value of {shown} must have at most {} characters, not {count}",
            limits::METADATA_VALUE
        ));
    }
    value
        .contains('\0')
        .then(|| format!("the value of {shown} must not contain the character U+0000"))
}

fn invalid(message: String) -> Problem {
    Problem::new(ErrorCode::InvalidMetadata, message)
}

#[cfg(test)]
mod tests;
