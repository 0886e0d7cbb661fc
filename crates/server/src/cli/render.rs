//! Events as people read them.

use serde_json::Value;

use super::{
    console::Tone,
    words::{head, one_line},
};

/// Characters of a call's input, or of an event's summary, on one line.
const LINE: usize = 160;

/// Lines of a result that are shown.
const LINES: usize = 12;

/// Returns a text of an object; empty if it has none.
pub(crate) fn text<'v>(event: &'v Value, pointer: &str) -> &'v str {
    event
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Joins the text blocks of an event's content; other blocks are named.
pub(crate) fn content(event: &Value) -> String {
    let blocks = event.get("content").and_then(Value::as_array);
    let parts = blocks
        .into_iter()
        .flatten()
        .map(|block| match text(block, "/type") {
            "text" => text(block, "/text").to_owned(),
            other => format!("[{other}]"),
        });
    parts.collect::<Vec<_>>().join("\n")
}

/// Describes a call on one line: what matters of a standard tool, the input of others.
pub(crate) fn call(event: &Value) -> String {
    let name = text(event, "/name");
    let of = |key| text(event, &format!("/input/{key}"));
    let said = match name {
        "bash" if !of("command").is_empty() => of("command").to_owned(),
        "bash" => "restart".to_owned(),
        "read" | "write" | "edit" => of("file_path").to_owned(),
        "glob" | "grep" => [of("pattern"), of("path")].join(" "),
        _ => event.get("input").map(Value::to_string).unwrap_or_default(),
    };
    format!("{name}  {}", one_line(&said, LINE))
}

/// Returns what a person sees of an event as it happens; `None` for what is only bookkeeping.
pub(crate) fn live(event: &Value) -> Option<(Tone, String)> {
    let line = match text(event, "/type") {
        "agent.tool_use" => match text(event, "/evaluated_permission") {
            "deny" => (Tone::Wrong, format!("> {} (not permitted)", call(event))),
            _ => (Tone::Action, format!("> {}", call(event))),
        },
        "agent.custom_tool_use" => (Tone::Action, format!("> {} (the client's)", call(event))),
        "agent.tool_result" | "user.custom_tool_result" => result(event),
        "session.error" => (Tone::Wrong, format!("! {}", failure(event))),
        "session.status_rescheduled" => (Tone::Dim, "waiting to try again".to_owned()),
        "session.status_terminated" => (Tone::Wrong, "the session is over".to_owned()),
        "session.deleted" => (Tone::Wrong, "the session was deleted".to_owned()),
        _ => return None,
    };
    Some(line)
}

fn result(event: &Value) -> (Tone, String) {
    let shown = head(&content(event), LINES, "  ");
    let shown = if shown.is_empty() {
        "  (no output)".to_owned()
    } else {
        shown
    };
    let failed = event
        .get("is_error")
        .and_then(Value::as_bool)
        .unwrap_or_default();
    (if failed { Tone::Wrong } else { Tone::Dim }, shown)
}

/// Describes a `session.error`.
pub(crate) fn failure(event: &Value) -> String {
    let kind = text(event, "/error/type");
    let next = match text(event, "/error/retry_status/type") {
        "retrying" => "; it is tried again",
        "exhausted" => "; the turn is given up",
        "terminal" => "; the session is over",
        _ => "",
    };
    format!(
        "{kind}: {}{next}",
        one_line(text(event, "/error/message"), 1_000)
    )
}

/// Describes why a session went idle.
pub(crate) fn stop(event: &Value) -> String {
    let kind = text(event, "/stop_reason/type");
    match kind {
        "requires_action" => {
            let ids = event
                .pointer("/stop_reason/event_ids")
                .and_then(Value::as_array);
            let ids: Vec<_> = ids
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            format!("{kind}: {}", ids.join(" "))
        }
        "refusal" => {
            let category = text(event, "/stop_details/category");
            let words = text(event, "/stop_details/explanation");
            let parts = [kind, category, words];
            parts
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(": ")
        }
        kind => kind.to_owned(),
    }
}

/// Describes any event on one line.
pub(crate) fn summary(event: &Value) -> String {
    let said = match text(event, "/type") {
        "user.message" | "agent.message" | "system.message" => content(event),
        "agent.tool_use" | "agent.custom_tool_use" => call(event),
        "agent.tool_result" | "user.custom_tool_result" => content(event),
        "user.tool_confirmation" => {
            let parts = [
                text(event, "/result"),
                text(event, "/tool_use_id"),
                text(event, "/deny_message"),
            ];
            parts.join(" ")
        }
        "session.error" => failure(event),
        "session.status_idle" | "session.thread_status_idle" => stop(event),
        "session.usage" => usage(event.get("usage").unwrap_or(&Value::Null)),
        "span.model_request_end" => usage(event.get("model_usage").unwrap_or(&Value::Null)),
        _ => String::new(),
    };
    one_line(&said, LINE)
}

/// Describes figures of use.
pub(crate) fn usage(usage: &Value) -> String {
    let count = |pointer| {
        usage
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    let cached = count("/cache_read_input_tokens");
    let made = count("/cache_creation_input_tokens")
        + count("/cache_creation/ephemeral_5m_input_tokens")
        + count("/cache_creation/ephemeral_1h_input_tokens");
    let input = count("/input_tokens") + cached + made;
    let mut words = format!("{input} tokens in, {} out", count("/output_tokens"));
    if cached > 0 {
        words.push_str(&format!(", {cached} from cache"));
    }
    if let Some(cost) = cost(usage) {
        words.push_str(&format!(", {cost}"));
    }
    words
}

/// Returns the list price, if there is one worth showing.
pub(crate) fn cost(usage: &Value) -> Option<String> {
    let cents: u64 = text(usage, "/list_cost/amount").parse().ok()?;
    let currency = text(usage, "/list_cost/currency");
    (cents > 0).then(|| format!("{}.{:02} {currency}", cents / 100, cents % 100))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_show_what_matters() {
        for (input, shown) in [
            (
                json!({"name": "bash", "input": {"command": "echo hi\nls"}}),
                "bash  echo hi ls",
            ),
            (
                json!({"name": "bash", "input": {"restart": true}}),
                "bash  restart",
            ),
            (
                json!({"name": "read", "input": {"file_path": "/a"}}),
                "read  /a",
            ),
            (
                json!({"name": "grep", "input": {"pattern": "x", "path": "/"}}),
                "grep  x /",
            ),
            (json!({"name": "ask", "input": {"q": 1}}), "ask  {\"q\":1}"),
        ] {
            assert_eq!(call(&input), shown);
        }
    }

    #[test]
    fn results_are_cleaned_and_cut() {
        let lines: Vec<_> = (0..40).map(|n| n.to_string()).collect();
        let content = json!([{"type": "text", "text": format!("\u{1b}[2J{}", lines.join("\n"))}]);
        let event = json!({"type": "agent.tool_result", "content": content, "is_error": true});
        let (tone, text) = live(&event).unwrap();
        assert_eq!(tone, Tone::Wrong);
        assert!(
            !text.contains('\u{1b}') && text.ends_with("… 28 more lines"),
            "{text}"
        );
    }

    #[test]
    fn summaries_fit_on_a_line() {
        let usage = json!({"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3,
            "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 0},
            "list_cost": {"amount": "205", "currency": "USD"}});
        for (event, shown) in [
            (
                json!({"type": "session.usage", "usage": usage}),
                "15 tokens in, 5 out, 3 from cache, 2.05 USD",
            ),
            (
                json!({"type": "session.status_idle",
                    "stop_reason": {"type": "requires_action", "event_ids": ["a", "b"]}}),
                "requires_action: a b",
            ),
            (
                json!({"type": "session.status_idle", "stop_reason": {"type": "refusal"},
                    "stop_details": {"type": "refusal", "category": "bio", "explanation": "no"}}),
                "refusal: bio: no",
            ),
            (
                json!({"type": "session.error", "error": {"type": "billing_error",
                    "message": "no credit", "retry_status": {"type": "exhausted"}}}),
                "billing_error: no credit; the turn is given up",
            ),
            (json!({"type": "session.status_running"}), ""),
            (json!({}), ""),
        ] {
            assert_eq!(summary(&event), shown);
        }
    }
}
