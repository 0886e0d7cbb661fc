//! One value of a request body with its path.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::{Object, join};
use crate::{ErrorCode, Micros, Problem};

/// Whether refusals may repeat what was sent.
///
/// A secret may stand in any place of a body that brings some: as an unknown field, as a type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Quoting {
    /// They say what was sent, cut short.
    Sent,
    /// They say what is allowed; of names alone, and only of those that look like words.
    Words,
}

impl Quoting {
    /// Returns what a refusal may show of the name of a field or of a key.
    pub(super) fn name(self, name: &str) -> Option<String> {
        let may = self == Self::Sent || is_word(name);
        may.then(|| excerpt(name))
    }
}

/// Tells whether a text is a short word as fields have: letters and `_`. Secrets have more.
fn is_word(text: &str) -> bool {
    const LONGEST: usize = 32;
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_letter)
}

/// A value that is there, and where it stands.
#[derive(Clone, Debug)]
pub struct At<'a> {
    path: String,
    value: &'a Value,
    quoting: Quoting,
}

impl<'a> At<'a> {
    /// Wraps the whole body.
    pub fn root(value: &'a Value) -> Self {
        Self::new(String::new(), value, Quoting::Sent)
    }

    /// Wraps the whole of a body that may bring secrets: no refusal of anything in it repeats a value.
    pub fn confidential(value: &'a Value) -> Self {
        Self::new(String::new(), value, Quoting::Words)
    }

    pub(super) fn new(path: String, value: &'a Value, quoting: Quoting) -> Self {
        Self {
            path,
            value,
            quoting,
        }
    }

    /// Returns what a refusal may show of a key of the client's own.
    pub(crate) fn key(&self, key: &str) -> String {
        let shown = self.quoting.name(key);
        shown.map_or_else(|| "a key".to_owned(), |key| format!("key `{key}`"))
    }

    /// Returns the end of a refusal: what was sent instead, if that may be said.
    fn instead(&self, sent: impl std::fmt::Display) -> String {
        match self.quoting {
            Quoting::Sent => format!(", not {sent}"),
            Quoting::Words => String::new(),
        }
    }

    /// Returns the dotted path, empty for the body itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the value as it was sent.
    pub fn raw(&self) -> &'a Value {
        self.value
    }

    /// Makes the 400 that names this field.
    pub fn refuse(&self, what: impl std::fmt::Display) -> Problem {
        self.problem(ErrorCode::InvalidRequest, what)
    }

    /// Makes a problem of `code` that names this field.
    pub fn problem(&self, code: ErrorCode, what: impl std::fmt::Display) -> Problem {
        let field = if self.path.is_empty() {
            "the body"
        } else {
            &self.path
        };
        Problem::new(code, format!("{field}: {what}"))
    }

    fn wrong_type(&self, expected: &str) -> Problem {
        self.refuse(format_args!("must be {expected}, not {}", kind(self.value)))
    }

    /// Reads any text without U+0000.
    pub fn any_text(&self) -> Result<&'a str, Problem> {
        let text = self
            .value
            .as_str()
            .ok_or_else(|| self.wrong_type("a string"))?;
        if text.contains('\0') {
            return Err(self.refuse("must not contain the character U+0000"));
        }
        Ok(text)
    }

    /// Reads text that is not empty.
    pub fn filled(&self) -> Result<&'a str, Problem> {
        match self.any_text()? {
            "" => Err(self.refuse("must not be empty")),
            text => Ok(text),
        }
    }

    /// Reads text of so many characters (Unicode scalar values).
    pub fn text(&self, bounds: RangeInclusive<usize>) -> Result<&'a str, Problem> {
        let text = self.any_text()?;
        let (min, max) = (*bounds.start(), *bounds.end());
        // A character has at most four bytes: most texts pass without being counted.
        let fits = text.len() <= max && text.len() >= min.saturating_mul(4);
        if fits {
            return Ok(text);
        }
        let count = text.chars().count();
        if bounds.contains(&count) {
            return Ok(text);
        }
        Err(self.refuse(format_args!(
            "must have {min} to {max} characters, not {count}"
        )))
    }

    /// Reads text of so many characters and keeps it.
    pub fn string(&self, bounds: RangeInclusive<usize>) -> Result<String, Problem> {
        self.text(bounds).map(str::to_owned)
    }

    /// Reads a whole number within bounds.
    pub fn int(&self, bounds: RangeInclusive<i64>) -> Result<i64, Problem> {
        let (min, max) = (bounds.start(), bounds.end());
        let expected = if *max == i64::MAX {
            format!("an integer of at least {min}")
        } else {
            format!("an integer from {min} to {max}")
        };
        match self.value.as_i64() {
            Some(number) if bounds.contains(&number) => Ok(number),
            Some(number) => {
                let instead = self.instead(number);
                Err(self.refuse(format_args!("must be {expected}{instead}")))
            }
            None => Err(self.wrong_type(&expected)),
        }
    }

    /// Reads `true` or `false`.
    pub fn boolean(&self) -> Result<bool, Problem> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wrong_type("true or false"))
    }

    /// Reads a moment.
    pub fn moment(&self) -> Result<Micros, Problem> {
        let text = self.any_text()?;
        Micros::parse(text).ok_or_else(|| {
            self.refuse(format_args!(
                "must be an RFC 3339 time such as `2026-01-31T12:00:00Z`{}",
                self.instead(format_args!("`{}`", excerpt(text)))
            ))
        })
    }

    /// Reads one of the words of `table`.
    pub fn word<T: Copy>(&self, table: &[(&str, T)]) -> Result<T, Problem> {
        let text = self.any_text()?;
        table
            .iter()
            .find_map(|(word, meaning)| (*word == text).then_some(*meaning))
            .ok_or_else(|| {
                self.refuse(format_args!(
                    "must be {}{}",
                    or(table.iter().map(|(word, _)| *word)),
                    self.instead(format_args!("`{}`", excerpt(text)))
                ))
            })
    }

    /// Reads a list of at most `bounds.end()` and at least `bounds.start()` entries.
    pub fn items(&self, bounds: RangeInclusive<usize>) -> Result<Vec<Self>, Problem> {
        let list = self
            .value
            .as_array()
            .ok_or_else(|| self.wrong_type("an array"))?;
        if !bounds.contains(&list.len()) {
            return Err(self.refuse(format_args!(
                "must have {} to {} entries, not {}",
                bounds.start(),
                bounds.end(),
                list.len()
            )));
        }
        Ok(list
            .iter()
            .enumerate()
            .map(|(index, value)| Self::new(join(&self.path, index), value, self.quoting))
            .collect())
    }

    /// Reads an object as it was sent, keys in their order.
    pub fn map(&self) -> Result<&'a Map<String, Value>, Problem> {
        self.value
            .as_object()
            .ok_or_else(|| self.wrong_type("an object"))
    }

    /// Reads an object field by field.
    pub fn object(&self) -> Result<Object<'a>, Problem> {
        Ok(Object::new(self.path.clone(), self.map()?, self.quoting))
    }

    /// Reads an id; one of another form names nothing, so it is the 404 of an unknown object.
    pub fn id<T: std::str::FromStr>(&self, code: ErrorCode, what: &str) -> Result<T, Problem> {
        let text = self.any_text()?;
        text.parse().map_err(|_| {
            let sent = match self.quoting {
                Quoting::Sent => format!(" `{}`", excerpt(text)),
                Quoting::Words => String::new(),
            };
            Problem::new(code, format!("{}: {what}{sent} not found", self.path))
        })
    }
}

/// Refuses U+0000 anywhere below `at`, whose path has no keys but those that look like words: it is not
/// known yet what the body is for.
pub(super) fn refuse_nul(at: &At<'_>) -> Result<(), Problem> {
    let below = |path: String, value| refuse_nul(&At::new(path, value, at.quoting));
    match at.value {
        Value::String(_) => at.any_text().map(|_| ()),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| below(join(&at.path, index), value)),
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            if key.contains('\0') {
                return Err(at.refuse("a key must not contain the character U+0000"));
            }
            let name = at.quoting.name(key);
            below(
                join(&at.path, name.unwrap_or_else(|| "*".to_owned())),
                value,
            )
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Names the JSON type of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Lists words for a person: `a`, `b` or `c`.
pub(crate) fn or<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let quoted: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

/// Cuts what a client sent to what an error message can carry.
pub(crate) fn excerpt(text: &str) -> String {
    const KEPT: usize = 64;
    let mut out: String = text.chars().take(KEPT).map(printable).collect();
    if text.chars().nth(KEPT).is_some() {
        out.push('…');
    }
    out
}

/// Keeps control characters out of messages and logs.
fn printable(c: char) -> char {
    if c.is_control() { '\u{fffd}' } else { c }
}
