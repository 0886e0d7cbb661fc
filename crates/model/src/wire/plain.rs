//! Answers that are not streamed.

use axum::response::Response;
use serde::Serialize as _;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::json_response;
use crate::accumulate::{self, Response as Answer};
use crate::fields::Fields;
use crate::scripted::{Plan, Rejection};
use crate::{Error, RetryKind, Usage};

/// Plays a plan to its end and returns the message it comes to.
///
/// # Errors
/// A scripted failure in the middle, as the status it would have had at the start.
pub(super) async fn message(plan: Plan) -> Result<Response, Rejection> {
    let answer = accumulate::collect(plan.into_events())
        .await
        .map_err(rejection)?;
    let body = body(&answer).map_err(|error| failed(500, "api_error", error.to_string()))?;
    let mut response = json_response(&Value::Null);
    *response.body_mut() = body.into();
    Ok(response)
}

/// Writes the message; its blocks keep their bytes.
fn body(answer: &Answer) -> serde_json::Result<String> {
    let mut fields = Fields::default();
    fields.put("id", &answer.id)?;
    fields.put("type", &"message")?;
    fields.put("role", &"assistant")?;
    fields.put("model", &answer.model)?;
    fields.put("content", &answer.blocks)?;
    fields.put("stop_reason", &answer.stop_reason.as_str())?;
    fields.put("stop_sequence", &answer.stop_sequence)?;
    let details: Option<&RawValue> = answer.stop_details.as_deref();
    fields.put("stop_details", &details)?;
    fields.put("usage", &usage(&answer.usage))?;
    let mut bytes = Vec::new();
    fields.serialize(&mut serde_json::Serializer::new(&mut bytes))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn usage(usage: &Usage) -> Value {
    let mut fields = json!({
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.ephemeral_5m,
            "ephemeral_1h_input_tokens": usage.ephemeral_1h,
        },
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    });
    if let (Some(fields), Some(speed)) = (fields.as_object_mut(), usage.speed) {
        fields.insert("speed".to_owned(), json!(speed));
    }
    if let (Some(fields), Some(geo)) = (fields.as_object_mut(), &usage.inference_geo) {
        fields.insert("inference_geo".to_owned(), json!(geo));
    }
    fields
}

fn rejection(error: Error) -> Rejection {
    let (status, kind) = match &error {
        Error::Retry { kind, .. } => match kind {
            RetryKind::Overloaded => (529, "overloaded_error"),
            RetryKind::RateLimited => (429, "rate_limit_error"),
            RetryKind::Failed => (500, "api_error"),
        },
        Error::Withdrawn { .. } => (503, "api_error"),
        Error::Overflow { .. } | Error::Refused { .. } => (400, "invalid_request_error"),
        Error::NoModel { .. } => (404, "not_found_error"),
        Error::Billing { .. } => (402, "billing_error"),
        Error::Fatal { .. } => (403, "permission_error"),
    };
    failed(status, kind, error.to_string())
}

fn failed(status: u16, kind: &str, message: String) -> Rejection {
    Rejection {
        status,
        kind: kind.to_owned(),
        message,
        retry_after: None,
    }
}
