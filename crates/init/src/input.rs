//! Reads a tool's input and names the field that is wrong.

use serde_json::{Map, Value};

use crate::tools;

/// Characters of a field's name that are repeated to the model.
const NAME: usize = 64;

/// The fields of one input.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    tool: &'a str,
    map: Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads an object that has no field but those of the tool.
    pub(crate) fn parse(tool: &'a str, input: &str) -> Result<Self, String> {
        match serde_json::from_str(input) {
            Ok(Value::Object(map)) => {
                check(tool, &map)?;
                Ok(Self { tool, map })
            }
            Ok(other) => Err(format!(
                "{tool}: input must be an object, not {}",
                kind(&other)
            )),
            Err(error) => Err(format!("{tool}: input is not JSON: {error}")),
        }
    }

    /// Takes a field that may be missing or null.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Says what a field must be.
    fn wrong<T>(&self, name: &str, expected: &str, value: &Value) -> Result<T, String> {
        Err(format!(
            "{}: {name} must be {expected}, not {}",
            self.tool,
            kind(value)
        ))
    }

    /// Takes a string that may be missing.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => self.wrong(name, "a string", &other),
        }
    }

    /// Takes a string that must be there.
    pub(crate) fn required(&mut self, name: &str) -> Result<String, String> {
        self.text(name)?
            .ok_or_else(|| format!("{}: {name} is required", self.tool))
    }

    /// Takes a path that must be there: not empty, without NUL.
    pub(crate) fn path(&mut self, name: &str) -> Result<String, String> {
        let path = self.required(name)?;
        self.usable(name, path)
    }

    /// Takes a path that may be missing or empty.
    pub(crate) fn optional_path(&mut self, name: &str) -> Result<Option<String>, String> {
        let path = self.text(name)?.filter(|path| !path.is_empty());
        path.map(|path| self.usable(name, path)).transpose()
    }

    /// Checks that a text can be a path.
    fn usable(&self, name: &str, path: String) -> Result<String, String> {
        if path.is_empty() {
            return Err(format!("{}: {name} must not be empty", self.tool));
        }
        if path.contains('\0') {
            return Err(format!("{}: {name} must not contain NUL", self.tool));
        }
        Ok(path)
    }

    /// Takes a truth value; missing is false.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => self.wrong(name, "true or false", &other),
        }
    }

    /// Takes an integer that may be missing.
    pub(crate) fn integer(&mut self, name: &str) -> Result<Option<i64>, String> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match whole(&value) {
            Some(number) => Ok(Some(number)),
            None => self.wrong(name, "an integer", &value),
        }
    }

    /// Takes a pair of integers that may be missing.
    pub(crate) fn pair(&mut self, name: &str) -> Result<Option<[i64; 2]>, String> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let numbers: Option<Vec<i64>> = value
            .as_array()
            .and_then(|items| items.iter().map(whole).collect());
        match numbers.as_deref() {
            Some([first, last]) => Ok(Some([*first, *last])),
            Some(_) | None => Err(format!(
                "{}: {name} must be two integers, [start_line, end_line]",
                self.tool
            )),
        }
    }
}

/// Refuses what a tool does not know: a model that wrote it expects something of it.
fn check(tool: &str, map: &Map<String, Value>) -> Result<(), String> {
    let schema = tools::find(tool).map(tools::Tool::input_schema);
    let Some(Value::Object(known)) = schema.as_ref().and_then(|schema| schema.get("properties"))
    else {
        return Ok(());
    };
    let mut given = map.iter().filter(|(_, value)| !value.is_null());
    let Some((name, _)) = given.find(|(name, _)| !known.contains_key(*name)) else {
        return Ok(());
    };
    let name: String = name.chars().take(NAME).collect();
    let known: Vec<_> = known.keys().map(String::as_str).collect();
    Err(format!(
        "{tool}: unknown field `{}`; allowed: {}",
        name.escape_debug(),
        known.join(", ")
    ))
}

/// Reads a whole number, also if it was written as `3.0`.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        format!("{number:.0}").parse().ok()
    })
}

/// Names what a value is.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_names_tool_and_field() {
        let fields = |input| Fields::parse("t", input);
        assert_eq!(
            fields("[1]").unwrap_err(),
            "t: input must be an object, not an array"
        );
        let mut some = fields(r#"{"a": 3, "b": "", "c": [1], "d": "x\u0000", "e": null}"#).unwrap();
        assert_eq!(
            some.required("a").unwrap_err(),
            "t: a must be a string, not a number"
        );
        assert_eq!(some.path("b").unwrap_err(), "t: b must not be empty");
        assert_eq!(
            some.pair("c").unwrap_err(),
            "t: c must be two integers, [start_line, end_line]"
        );
        assert_eq!(some.path("d").unwrap_err(), "t: d must not contain NUL");
        assert_eq!(some.required("e").unwrap_err(), "t: e is required");
    }

    #[test]
    fn a_field_that_a_tool_does_not_know_is_named_with_those_that_it_does() {
        for (tool, input, words) in [
            (
                "bash",
                r#"{"command": "x", "timeout": 5}"#,
                "bash: unknown field `timeout`; allowed: command, restart, timeout_ms",
            ),
            (
                "read",
                r#"{"file_path": "x", "li\nmit": 5}"#,
                "read: unknown field `li\\nmit`; allowed: file_path, view_range",
            ),
        ] {
            assert_eq!(Fields::parse(tool, input).unwrap_err(), words);
        }
        let null = r#"{"command": "x", "timeout": null}"#;
        assert!(Fields::parse("bash", null).is_ok());
        for tool in tools::STANDARD {
            let input = r#"{"description": "what it is for"}"#;
            let told = Fields::parse(tool.name, input).unwrap_err();
            assert!(told.contains("unknown field `description`"), "{told}");
        }
    }

    #[test]
    fn whole_numbers_may_be_written_with_a_point() {
        let mut fields = Fields::parse("t", r#"{"a": 3.0, "b": 3.5}"#).unwrap();
        assert_eq!(fields.integer("a"), Ok(Some(3)));
        assert_eq!(
            fields.integer("b").unwrap_err(),
            "t: b must be an integer, not a number"
        );
    }
}
