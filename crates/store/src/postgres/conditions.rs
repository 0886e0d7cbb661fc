//! A statement that grows by conditions.

use tokio_postgres::types::ToSql;

use super::connect::Value;
use crate::stored::bound;

/// Conditions and their values.
#[derive(Default)]
pub(super) struct Conditions {
    text: Vec<String>,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Conditions {
    /// Adds a condition without a value.
    pub(super) fn fixed(&mut self, condition: &str) {
        self.text.push(condition.to_owned());
    }

    /// Adds a condition with one value, which stands in it as `?`.
    pub(super) fn one(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        let place = format!("${}", self.values.len());
        self.text.push(condition.replacen('?', &place, 1));
    }

    /// Adds a condition with two values.
    pub(super) fn two(
        &mut self,
        condition: &str,
        first: impl ToSql + Sync + Send + 'static,
        second: impl ToSql + Sync + Send + 'static,
    ) {
        self.values.push(Box::new(first));
        let text = condition.replacen('?', &format!("${}", self.values.len()), 1);
        self.one(&text, second);
    }

    /// Returns the text behind `WHERE`, and the values, the limit last.
    pub(super) fn finish(mut self, order: &str, limit: usize) -> (String, Values) {
        self.values.push(Box::new(bound(limit)));
        let place = self.values.len();
        let text = format!("{} {order} LIMIT ${place}", self.text.join(" AND "));
        (text, Values(self.values))
    }
}

/// Values that a statement is given.
pub(super) struct Values(Vec<Box<dyn ToSql + Sync + Send>>);

impl Values {
    pub(super) fn all(&self) -> Vec<Value<'_>> {
        self.0.iter().map(|value| &**value as Value<'_>).collect()
    }
}
