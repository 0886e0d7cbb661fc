//! Statements that are put together from parts, each with its values.

use std::fmt::Write as _;

use tokio_postgres::types::ToSql;

use super::connect::Value;

/// A statement and its values.
#[derive(Default)]
pub(super) struct Sql {
    pub(super) text: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl std::fmt::Debug for Sql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sql")
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

impl Sql {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            values: Vec::new(),
        }
    }

    /// Adds text.
    pub(super) fn say(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds a value where the text stands, as one of a type.
    pub(super) fn bind(
        &mut self,
        value: impl ToSql + Sync + Send + 'static,
        kind: &str,
    ) -> &mut Self {
        self.values.push(Box::new(value));
        // Writing to a string cannot fail.
        let _written = write!(self.text, "${}::{kind}", self.values.len());
        self
    }

    /// Adds a value that the text has a place for already.
    pub(super) fn give(&mut self, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
    }

    /// Adds a value with a comma before it.
    pub(super) fn and(
        &mut self,
        value: impl ToSql + Sync + Send + 'static,
        kind: &str,
    ) -> &mut Self {
        self.say(", ").bind(value, kind)
    }

    pub(super) fn values(&self) -> Vec<Value<'_>> {
        self.values
            .iter()
            .map(|value| &**value as Value<'_>)
            .collect()
    }
}
