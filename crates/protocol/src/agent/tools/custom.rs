//! Custom tools: the client runs them and sends the result.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::policy::Builtin;
use crate::read::{At, Object};
use crate::{Problem, limits};

/// A custom tool, as it was sent.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CustomTool {
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its input, keys in the client's order.
    pub input_schema: Map<String, Value>,
    /// Its name, unique in the agent.
    pub name: String,
}

/// Beginnings of names that the server keeps for itself.
const RESERVED: [&str; 2] = ["ant__", "mcp__"];

/// Keywords that point elsewhere: a model's provider does not follow them.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

impl CustomTool {
    pub(super) fn parse(object: &mut Object<'_>) -> Result<Self, Problem> {
        let name = name(&object.field("name").required()?)?;
        let description = object.field("description").required()?;
        let input_schema = schema(&object.field("input_schema").required()?)?;
        Ok(Self {
            description: description.filled()?.to_owned(),
            input_schema,
            name,
        })
    }
}

fn name(at: &At<'_>) -> Result<String, Problem> {
    let name = at.text(1..=limits::TOOL_NAME)?;
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    {
        return Err(at.refuse("must be letters, digits, `_` and `-` only"));
    }
    if Builtin::parse(name).is_some() {
        return Err(at.refuse(format_args!("`{name}` is the name of a built-in tool")));
    }
    if let Some(prefix) = RESERVED.iter().find(|prefix| name.starts_with(**prefix)) {
        return Err(at.refuse(format_args!("must not begin with `{prefix}`")));
    }
    Ok(name.to_owned())
}

fn schema(at: &At<'_>) -> Result<Map<String, Value>, Problem> {
    let map = at.map()?;
    let mut object = at.object()?;
    object.field("type").required()?.word(&[("object", ())])?;
    for keyword in ["oneOf", "anyOf", "allOf"] {
        if map.contains_key(keyword) {
            return Err(at.refuse(format_args!("must not have `{keyword}` at the top level")));
        }
    }
    if let Some(properties) = object.field("properties").optional() {
        for name in properties.map()?.keys() {
            check_property(&properties, name)?;
        }
    }
    if let Some(required) = object.field("required").optional() {
        for item in required.items(0..=usize::MAX)? {
            item.any_text()?;
        }
    }
    refuse_references(at, at.raw())?;
    Ok(map.clone())
}

fn check_property(at: &At<'_>, name: &str) -> Result<(), Problem> {
    let is_good = (1..=limits::PROPERTY_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if is_good {
        return Ok(());
    }
    Err(at.refuse(format_args!(
        "the name `{}` must match [A-Za-z0-9_.-]{{1,{}}}",
        crate::read::excerpt(name),
        limits::PROPERTY_NAME
    )))
}

fn refuse_references(at: &At<'_>, value: &Value) -> Result<(), Problem> {
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            if REFERENCES.contains(&key.as_str()) {
                return Err(at.refuse(format_args!("must not contain `{key}` anywhere")));
            }
            refuse_references(at, value)
        }),
        Value::Array(list) => list
            .iter()
            .try_for_each(|value| refuse_references(at, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}
