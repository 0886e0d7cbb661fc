//! A response becomes events; permission is decided here, so no brain can skip it.

use outlast_protocol::{CallResult, Outcome, agent::tools::Gate, id::EventId};
use serde_json::value::RawValue;

use crate::{
    After, Answer, Kind, Refusal, Respond, Said,
    body::{self, Called, Response},
    decide::Desk,
};

use super::{
    bodies,
    brain::{self, over},
    calls, turn,
};

/// Stores a response with everything that follows from it at once.
pub(super) fn respond(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    response: &Respond,
) -> Result<Answer, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(Answer::Nothing);
    };
    if !seen.interrupts.is_empty() {
        return Ok(Answer::Interrupted);
    }
    let open = seen
        .request
        .filter(|open| open.id == response.request && !open.answered);
    let Some(open) = open else {
        return Err(Refusal::Illegal("no such request is open"));
    };
    store(desk, thread, response)?;
    let mut refused = Vec::new();
    for said in &response.events {
        refused.extend(say(desk, thread, said)?);
    }
    if open.ended.is_some() {
        turn::close_request(desk, thread)?;
    }
    for (call, result) in &refused {
        calls::settle_with(desk, thread, *call, result)?;
    }
    limit(desk, thread)
}

/// Writes the private record that the next request is made from.
fn store(desk: &mut Desk<'_, '_>, thread: u32, response: &Respond) -> Result<(), Refusal> {
    let calls: Vec<_> = response.events.iter().filter_map(called).collect();
    let after = if calls.is_empty() {
        response.after
    } else {
        After::Calls
    };
    let record = Response {
        request: response.request,
        blocks: response.blocks.clone(),
        stop: response.stop.clone(),
        details: response.details.clone(),
        after,
        calls,
    };
    desk.note(thread, Kind::Response, &record)
}

fn called(said: &Said) -> Option<Called> {
    match said {
        Said::Call {
            id, tool_use, cut, ..
        } => Some(Called {
            call: *id,
            tool_use: tool_use.clone(),
            cut: *cut,
        }),
        Said::Thinking(_) | Said::Message(..) => None,
    }
}

/// Drafts one event; returns the result of a call that will not run.
fn say(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    said: &Said,
) -> Result<Option<(EventId, CallResult)>, Refusal> {
    match said {
        Said::Thinking(id) => {
            let body = crate::json(&bodies::Empty {});
            desk.put(thread, Kind::AgentThinking, Some(*id), body)?;
            Ok(None)
        }
        Said::Message(id, body) => {
            desk.put(thread, Kind::AgentMessage, Some(*id), body.clone())?;
            Ok(None)
        }
        Said::Call {
            id,
            name,
            input,
            cut,
            ..
        } => call(desk, thread, *id, name, input, *cut),
    }
}

/// Evaluates the policy of a call.
fn call(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    id: EventId,
    name: &str,
    input: &RawValue,
    cut: bool,
) -> Result<Option<(EventId, CallResult)>, Refusal> {
    let gate = match &desk.state.config {
        Some(config) => config.agent.tools.gate(name),
        None => Gate::Unknown,
    };
    if cut {
        deny(desk, thread, id, name, input)?;
        return Ok(Some((id, body::cut(name))));
    }
    match gate {
        Gate::Custom => {
            let body = crate::json(&bodies::custom_use(name, input));
            desk.put(thread, Kind::AgentCustomToolUse, Some(id), body)?;
            Ok(None)
        }
        Gate::Builtin { policy } => {
            let body = crate::json(&bodies::tool_use(name, input, policy));
            desk.put(thread, Kind::AgentToolUse, Some(id), body)?;
            Ok(None)
        }
        Gate::Disabled => {
            deny(desk, thread, id, name, input)?;
            Ok(Some((
                id,
                body::denied(name, Some("the tool is not enabled for this agent")),
            )))
        }
        Gate::Unknown => {
            deny(desk, thread, id, name, input)?;
            Ok(Some((
                id,
                body::denied(name, Some("this agent has no such tool")),
            )))
        }
    }
}

/// Drafts a call that is refused before any policy applies.
fn deny(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    id: EventId,
    name: &str,
    input: &RawValue,
) -> Result<(), Refusal> {
    let body = crate::json(&bodies::refused_use(name, input));
    desk.put(thread, Kind::AgentToolUse, Some(id), body)
}

/// Ends a turn that calls tools without end.
fn limit(desk: &mut Desk<'_, '_>, thread: u32) -> Result<Answer, Refusal> {
    let Some(open) = desk.state.thread(thread).and_then(|seen| seen.turn) else {
        return Ok(Answer::Appended);
    };
    let rules = desk.context.rules;
    let words = if over(open.after) {
        return Ok(Answer::Appended);
    } else if open.rounds > rules.rounds {
        format!(
            "the turn made more than {} rounds of tool calls",
            rules.rounds
        )
    } else if open.cut > rules.cut {
        format!(
            "more than {} responses in a row had their only call cut off",
            rules.cut
        )
    } else {
        return Ok(Answer::Appended);
    };
    let result = CallResult::error(
        Outcome::NotStarted,
        format!("the call did not run: {words}"),
    );
    turn::close_request(desk, thread)?;
    calls::close(desk, thread, &result)?;
    desk.event(thread, Kind::SessionError, &bodies::tool_limit(&words))?;
    brain::exhaust(desk, thread)?;
    Ok(Answer::LimitReached)
}
