//! Checks of the settings of a request.

use serde_json::{Map, Value};

use super::super::request::Thoughts;
use super::{Dialect, Rejection, at};

/// The least thinking budget.
const LEAST_BUDGET: u64 = 1_024;

/// Reads `max_tokens`.
pub(super) fn max_tokens(body: &Map<String, Value>, most: u64) -> Result<u64, Rejection> {
    let path = "max_tokens";
    let value = body.get(path).ok_or_else(|| at(path, "Field required"))?;
    match value.as_u64() {
        Some(0) => Err(at(path, "Input should be greater than or equal to 1")),
        Some(tokens) if tokens > most => Err(Rejection::invalid(format!(
            "max_tokens: {tokens} > {most}, which is the maximum allowed number of output tokens \
             for this model"
        ))),
        Some(tokens) => Ok(tokens),
        None => Err(at(path, "Input should be a valid integer")),
    }
}

/// Checks sampling parameters and the switches around them.
pub(super) fn sampling(body: &Map<String, Value>, dialect: Dialect) -> Result<(), Rejection> {
    for name in ["temperature", "top_p", "top_k"] {
        match body.get(name) {
            None | Some(Value::Null) => {}
            Some(_) if dialect == Dialect::V2026 => {
                return Err(at(name, "not supported with this anthropic-version"));
            }
            Some(Value::Number(_)) => {}
            Some(_) => return Err(at(name, "Input should be a valid number")),
        }
    }
    match body.get("stream") {
        None | Some(Value::Null | Value::Bool(_)) => {}
        Some(_) => return Err(at("stream", "Input should be a valid boolean")),
    }
    one_of(body, "speed", &["standard", "fast"])?;
    one_of(body, "inference_geo", &["us", "global"])?;
    effort(body)
}

fn effort(body: &Map<String, Value>) -> Result<(), Rejection> {
    let levels = ["low", "medium", "high", "xhigh", "max"];
    match body.get("output_config") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(config)) => one_of(config, "effort", &levels)
            .map_err(|error| Rejection::invalid(format!("output_config.{error}"))),
        Some(_) => Err(at("output_config", "Input should be a valid dictionary")),
    }
}

fn one_of(object: &Map<String, Value>, name: &str, words: &[&str]) -> Result<(), Rejection> {
    let known = match object.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(word)) => words.contains(&word.as_str()),
        Some(_) => false,
    };
    if known {
        return Ok(());
    }
    Err(at(
        name,
        &format!("Input should be one of '{}'", words.join("', '")),
    ))
}

/// Reads what is to become of thinking.
pub(super) fn thinking(body: &Map<String, Value>, max_tokens: u64) -> Result<Thoughts, Rejection> {
    let thinking = match body.get("thinking") {
        None | Some(Value::Null) => return Ok(Thoughts::Shown),
        Some(Value::Object(thinking)) => thinking,
        Some(_) => return Err(at("thinking", "Input should be a valid dictionary")),
    };
    one_of(thinking, "display", &["summarized", "omitted"])
        .map_err(|error| Rejection::invalid(format!("thinking.{error}")))?;
    match thinking.get("type").and_then(Value::as_str) {
        Some("disabled") => return Ok(Thoughts::Off),
        Some("enabled") => budget(thinking, max_tokens)?,
        Some("adaptive" | "between_tools") => {}
        Some(_) | None => {
            return Err(at(
                "thinking.type",
                "Input should be one of 'adaptive', 'enabled', 'disabled', 'between_tools'",
            ));
        }
    }
    match thinking.get("display").and_then(Value::as_str) {
        Some("omitted") => Ok(Thoughts::Omitted),
        Some(_) | None => Ok(Thoughts::Shown),
    }
}

fn budget(thinking: &Map<String, Value>, max_tokens: u64) -> Result<(), Rejection> {
    let path = "thinking.enabled.budget_tokens";
    match thinking.get("budget_tokens").and_then(Value::as_u64) {
        None => Err(at(path, "Field required")),
        Some(budget) if budget < LEAST_BUDGET => {
            Err(at(path, "Input should be greater than or equal to 1024"))
        }
        Some(budget) if budget >= max_tokens => Err(Rejection::invalid(
            "`max_tokens` must be greater than `thinking.budget_tokens`",
        )),
        Some(_) => Ok(()),
    }
}
