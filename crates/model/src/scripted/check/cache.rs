//! Checks of cache breakpoints.

use serde_json::{Map, Value};

use super::{Rejection, at};

/// The most breakpoints of a request.
const MOST: usize = 4;

/// How long what stands before a breakpoint is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lifetime {
    FiveMinutes,
    Hour,
}

/// Checks the number, the form and the order of all breakpoints.
pub(super) fn check(body: &Map<String, Value>) -> Result<(), Rejection> {
    let mut found = Vec::new();
    // The order in which the prefix is built.
    for name in ["tools", "system", "messages"] {
        if let Some(value) = body.get(name) {
            collect(value, name, &mut found)?;
        }
    }
    if let Some(automatic) = body.get("cache_control") {
        found.extend(lifetime(automatic, "cache_control")?);
    }
    if found.len() > MOST {
        return Err(Rejection::invalid(format!(
            "A maximum of {MOST} blocks with cache_control may be provided. Found {}.",
            found.len()
        )));
    }
    let short = found.iter().position(|life| *life == Lifetime::FiveMinutes);
    let long = found.iter().rposition(|life| *life == Lifetime::Hour);
    match (short, long) {
        (Some(short), Some(long)) if short < long => Err(Rejection::invalid(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
        )),
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

/// Collects breakpoints in the order of the text, but not those within a tool's input or schema,
/// which are the user's own data.
fn collect(value: &Value, path: &str, found: &mut Vec<Lifetime>) -> Result<(), Rejection> {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{path}.{index}"), found)?;
            }
        }
        Value::Object(fields) => {
            if let Some(content) = fields.get("content") {
                collect(content, &format!("{path}.content"), found)?;
            }
            if let Some(control) = fields.get("cache_control") {
                let path = format!("{path}.cache_control");
                let kind = fields.get("type").and_then(Value::as_str);
                if matches!(kind, Some("thinking" | "redacted_thinking")) {
                    return Err(at(&path, "Extra inputs are not permitted"));
                }
                found.extend(lifetime(control, &path)?);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn lifetime(control: &Value, path: &str) -> Result<Option<Lifetime>, Rejection> {
    if control.is_null() {
        return Ok(None);
    }
    if control.get("type").and_then(Value::as_str) != Some("ephemeral") {
        return Err(at(&format!("{path}.type"), "Input should be 'ephemeral'"));
    }
    match control.get("ttl") {
        None | Some(Value::Null) => Ok(Some(Lifetime::FiveMinutes)),
        Some(Value::String(ttl)) if ttl == "5m" => Ok(Some(Lifetime::FiveMinutes)),
        Some(Value::String(ttl)) if ttl == "1h" => Ok(Some(Lifetime::Hour)),
        Some(_) => Err(at(
            &format!("{path}.ephemeral.ttl"),
            "Input should be '5m' or '1h'",
        )),
    }
}
