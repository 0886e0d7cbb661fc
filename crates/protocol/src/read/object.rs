//! An object of a request body, and its fields as absent, null or a value.

use serde_json::{Map, Value};

use super::{
    At,
    at::{self, Quoting},
    join,
};
use crate::{ErrorCode, Problem};

/// What is said where a name may be a secret.
const NOT_REPEATED: &str = ", whose name is not repeated because it may be a secret";

/// An object whose fields are taken one by one.
#[derive(Debug)]
pub struct Object<'a> {
    path: String,
    map: &'a Map<String, Value>,
    known: Vec<&'static str>,
    quoting: Quoting,
}

impl<'a> Object<'a> {
    pub(super) fn new(path: String, map: &'a Map<String, Value>, quoting: Quoting) -> Self {
        Self {
            path,
            map,
            known: Vec::new(),
            quoting,
        }
    }

    /// Takes a field, there or not.
    pub fn field(&mut self, name: &'static str) -> Slot<'a> {
        self.known.push(name);
        Slot {
            path: join(&self.path, name),
            value: self.map.get(name),
            quoting: self.quoting,
        }
    }

    /// Refuses fields that were never taken, by the full path of the first.
    pub fn finish(self) -> Result<(), Problem> {
        let unknown = self.map.keys();
        let unknown: Vec<&String> = unknown
            .filter(|key| !self.known.contains(&key.as_str()))
            .collect();
        let Some(first) = unknown.first() else {
            return Ok(());
        };
        let (at, its_name) = match self.quoting.name(first) {
            Some(name) => (join(&self.path, name), ""),
            None if self.path.is_empty() => ("the body".to_owned(), NOT_REPEATED),
            None => (self.path, NOT_REPEATED),
        };
        let known = at::or(self.known.iter().copied());
        let more = match unknown.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        Err(Problem::invalid(format!(
            "{at}: unknown field{its_name}{more}; allowed: {known}"
        )))
    }
}

/// A field that may be absent or null.
#[derive(Clone, Debug)]
pub struct Slot<'a> {
    path: String,
    value: Option<&'a Value>,
    quoting: Quoting,
}

/// What an update says about a field.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Patch<T> {
    /// Left out: unchanged.
    #[default]
    Keep,
    /// Null: cleared.
    Clear,
    /// The new value.
    Set(T),
}

impl<T> Patch<T> {
    /// Converts the new value, if there is one.
    pub fn try_map<U>(
        self,
        with: impl FnOnce(T) -> Result<U, Problem>,
    ) -> Result<Patch<U>, Problem> {
        Ok(match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(with(value)?),
        })
    }

    /// Applies the patch to a clearable value.
    pub fn over(self, stored: Option<T>) -> Option<T> {
        match self {
            Self::Keep => stored,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }
}

impl<'a> Slot<'a> {
    /// Returns the value; absent and null are refused.
    pub fn required(self) -> Result<At<'a>, Problem> {
        match self.value {
            None => Err(Problem::invalid(format!("{}: is required", self.path))),
            Some(Value::Null) => Err(Problem::invalid(format!(
                "{}: is required and must not be null",
                self.path
            ))),
            Some(value) => Ok(At::new(self.path, value, self.quoting)),
        }
    }

    /// Returns the value; absent and null are both nothing.
    pub fn optional(self) -> Option<At<'a>> {
        match self.patch() {
            Patch::Keep | Patch::Clear => None,
            Patch::Set(at) => Some(at),
        }
    }

    /// Reads the value with `with`; absent and null are both nothing.
    pub fn read<T>(
        self,
        with: impl FnOnce(&At<'a>) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        self.optional().map(|at| with(&at)).transpose()
    }

    /// Returns the value if it was sent; null is refused because the field cannot be cleared.
    pub fn not_clearable(self) -> Result<Option<At<'a>>, Problem> {
        match self.value {
            None => Ok(None),
            Some(Value::Null) => Err(Problem::invalid(format!(
                "{}: must not be null, it cannot be cleared; leave it out to keep it",
                self.path
            ))),
            Some(value) => Ok(Some(At::new(self.path, value, self.quoting))),
        }
    }

    /// Tells absent, null and a value apart.
    pub fn patch(self) -> Patch<At<'a>> {
        match self.value {
            None => Patch::Keep,
            Some(Value::Null) => Patch::Clear,
            Some(value) => Patch::Set(At::new(self.path, value, self.quoting)),
        }
    }

    /// Refuses a field of a later part of the API; absent, null, `[]` and `{}` pass.
    pub fn not_supported(self) -> Result<(), Problem> {
        let empty = match self.value {
            None | Some(Value::Null) => true,
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => false,
        };
        if empty {
            return Ok(());
        }
        Err(Problem::new(
            ErrorCode::NotSupported,
            format!(
                "{}: not_supported: this server does not have this part of the API yet; leave it out or send null",
                self.path
            ),
        ))
    }
}
