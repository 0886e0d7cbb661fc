//! The bodies of the events that `admit` derives, filled from the state.

use outlast_protocol::{
    CallResult, Micros,
    agent::{Speed, tools::Policy},
    event::{
        AgentToolResult, ErrorKind, Evaluation, ModelRequestEnd, ModelUsage, Permission,
        RetryStatus, SessionError, SessionUsage, StatusIdle, StopDetails, StopReason, ThreadIdle,
        ThreadRunning,
    },
    id::EventId,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Request, State, view};

use super::status::Reason;

/// The body of an event that says nothing more.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Empty {}

/// A tool-use event with the model's input as it came.
#[derive(Debug, Serialize)]
pub(super) struct ToolUse<'a> {
    name: &'a str,
    input: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    evaluated_permission: Option<Permission>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evaluation: Option<Evaluation>,
}

/// A call of a built-in tool, with what its policy says.
pub(super) fn tool_use<'a>(name: &'a str, input: &'a RawValue, policy: Policy) -> ToolUse<'a> {
    let (permission, evaluation) = Evaluation::of(policy);
    let (evaluated_permission, evaluation) = (Some(permission), Some(evaluation));
    ToolUse {
        name,
        input,
        evaluated_permission,
        evaluation,
    }
}

/// A call that is refused before any policy applies.
pub(super) fn refused_use<'a>(name: &'a str, input: &'a RawValue) -> ToolUse<'a> {
    ToolUse {
        name,
        input,
        evaluated_permission: Some(Permission::Deny),
        evaluation: None,
    }
}

/// A call that the client answers.
pub(super) fn custom_use<'a>(name: &'a str, input: &'a RawValue) -> ToolUse<'a> {
    ToolUse {
        name,
        input,
        evaluated_permission: None,
        evaluation: None,
    }
}

/// The result of a built-in call.
pub(super) fn tool_result(call: EventId, result: &CallResult) -> AgentToolResult {
    AgentToolResult::new(call, result.clone())
}

/// The body that names a thread; running, rescheduled and terminated share it.
pub(super) fn thread(state: &State, number: u32) -> Option<ThreadRunning> {
    let session_thread_id = state.thread(number)?.id;
    Some(ThreadRunning {
        session_thread_id,
        agent_name: agent_name(state),
    })
}

/// The idle event of a thread: calls that wait for the client outrank the reason given.
pub(super) fn thread_idle(state: &State, number: u32, reason: &Reason) -> Option<ThreadIdle> {
    let thread = state.thread(number)?;
    let (stop_reason, stop_details) = stop(thread.asked().map(|call| call.id).collect(), reason);
    let session_thread_id = thread.id;
    Some(ThreadIdle {
        session_thread_id,
        agent_name: agent_name(state),
        stop_reason,
        stop_details,
    })
}

/// The idle event of the session: calls of any thread that wait outrank the reason given.
pub(super) fn session_idle(state: &State, reason: &Reason) -> StatusIdle {
    let asked = state
        .threads
        .iter()
        .flat_map(crate::Thread::asked)
        .map(|call| call.id)
        .collect();
    let (stop_reason, stop_details) = stop(asked, reason);
    StatusIdle {
        stop_reason,
        stop_details,
    }
}

fn stop(event_ids: Vec<EventId>, reason: &Reason) -> (StopReason, Option<StopDetails>) {
    if !event_ids.is_empty() {
        return (StopReason::RequiresAction { event_ids }, None);
    }
    match reason {
        Reason::EndTurn => (StopReason::EndTurn, None),
        Reason::RetriesExhausted => (StopReason::RetriesExhausted, None),
        Reason::Refusal(details) => (
            StopReason::Refusal,
            serde_json::from_str(details.get()).ok(),
        ),
    }
}

fn agent_name(state: &State) -> String {
    state
        .config
        .as_ref()
        .map(|config| config.agent.name.clone())
        .unwrap_or_default()
}

/// What the session used up to now.
pub(super) fn usage(state: &State, now: Micros, hour_price: u64) -> SessionUsage {
    SessionUsage::new(view::session_usage(state, now, hour_price))
}

/// The end of a request: an error unless its response is stored.
pub(super) fn request_end(open: &Request) -> ModelRequestEnd {
    let tokens = open.ended.map(|ended| ended.tokens).unwrap_or_default();
    let fast = open.ended.and_then(|ended| ended.fast);
    ModelRequestEnd {
        model_request_start_id: open.id,
        is_error: !open.answered || open.ended.is_some_and(|ended| ended.failed),
        model_usage: ModelUsage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cache_creation_input_tokens: tokens.cache_5m.saturating_add(tokens.cache_1h),
            cache_read_input_tokens: tokens.cache_read,
            speed: fast.map(|fast| if fast { Speed::Fast } else { Speed::Standard }),
        },
    }
}

/// The error of a turn that calls tools without end.
pub(super) fn tool_limit(words: &str) -> SessionError {
    SessionError::new(
        ErrorKind::ToolUseLimitReached,
        words,
        RetryStatus::Exhausted,
    )
}

/// The error of a turn that no brain gets on with.
pub(super) fn no_progress(attempts: u32) -> SessionError {
    let words = format!(
        "the turn was started {attempts} times without getting on and is given up; send a message to \
         begin another, or have an operator wake the session to go on with it"
    );
    SessionError::new(ErrorKind::Unknown, words, RetryStatus::Exhausted)
}
