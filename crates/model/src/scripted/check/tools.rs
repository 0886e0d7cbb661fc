//! Checks of the tools of a request.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Rejection, at};

/// The longest name of a tool.
const LONGEST_NAME: usize = 128;

/// Returns the names of the tools that may be called: none if `tool_choice` says so.
pub(super) fn names(body: &Map<String, Value>) -> Result<Vec<String>, Rejection> {
    let tools = match body.get("tools") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(tools)) => tools.as_slice(),
        Some(_) => return Err(at("tools", "Input should be a valid list")),
    };
    let mut names = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        names.push(name(tool, &format!("tools.{index}"))?);
    }
    let mut seen = HashSet::new();
    if !names.iter().all(|name| seen.insert(name.as_str())) {
        return Err(at("tools", "Tool names must be unique."));
    }
    choice(body, &names)
}

fn name(tool: &Value, path: &str) -> Result<String, Rejection> {
    let Value::Object(tool) = tool else {
        return Err(at(path, "Input should be a valid dictionary"));
    };
    let is_custom = matches!(
        tool.get("type").and_then(Value::as_str),
        None | Some("custom")
    );
    let path = if is_custom {
        format!("{path}.custom")
    } else {
        path.to_owned()
    };
    let name = match tool.get("name") {
        Some(Value::String(name)) => name,
        Some(_) => {
            return Err(at(
                &format!("{path}.name"),
                "Input should be a valid string",
            ));
        }
        None => return Err(at(&format!("{path}.name"), "Field required")),
    };
    if !is_name(name) {
        let what = format!("String should match pattern '^[a-zA-Z0-9_-]{{1,{LONGEST_NAME}}}$'");
        return Err(at(&format!("{path}.name"), &what));
    }
    if is_custom {
        schema(tool, &path)?;
    }
    Ok(name.clone())
}

fn schema(tool: &Map<String, Value>, path: &str) -> Result<(), Rejection> {
    let path = format!("{path}.input_schema");
    let Some(schema) = tool.get("input_schema") else {
        return Err(at(&path, "Field required"));
    };
    let Value::Object(schema) = schema else {
        return Err(at(&path, "Input should be a valid dictionary"));
    };
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => Ok(()),
        Some(_) => Err(at(&format!("{path}.type"), "Input should be 'object'")),
        None => Err(at(&format!("{path}.type"), "Field required")),
    }
}

/// Tells whether a text may be the name of a tool.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(allowed)
}

fn choice(body: &Map<String, Value>, names: &[String]) -> Result<Vec<String>, Rejection> {
    let choice = match body.get("tool_choice") {
        None | Some(Value::Null) => return Ok(names.to_owned()),
        Some(choice) => choice,
    };
    match choice.get("type").and_then(Value::as_str) {
        Some("none") => Ok(Vec::new()),
        Some(_) if names.is_empty() => Err(Rejection::invalid(
            "tool_choice may only be specified while providing tools.",
        )),
        Some("auto" | "any") => Ok(names.to_owned()),
        Some("tool") => match choice.get("name").and_then(Value::as_str) {
            Some(name) if names.iter().any(|known| known == name) => Ok(names.to_owned()),
            Some(name) => Err(Rejection::invalid(format!(
                "Tool '{name}' not found in provided tools"
            ))),
            None => Err(at("tool_choice.tool.name", "Field required")),
        },
        Some(_) | None => Err(at(
            "tool_choice.type",
            "Input should be one of 'auto', 'any', 'tool', 'none'",
        )),
    }
}
