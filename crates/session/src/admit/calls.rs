//! Calls are settled once; their results are told in the model's order.

use outlast_protocol::{CallResult, Outcome, id::EventId};

use crate::{Answer, Json, Kind, Phase, Refusal, body::Settled, decide::Desk, json};

use super::bodies;

/// Settles a call with a result made here.
pub(super) fn settle_with(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    call: EventId,
    result: &CallResult,
) -> Result<(), Refusal> {
    let event = desk.context.ids.event();
    let body = json(&bodies::tool_result(call, result));
    settle(desk, thread, call, result.outcome, event, body).map(drop)
}

/// Settles a call, the first time only, and tells every result whose turn has come.
pub(super) fn settle(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    call: EventId,
    outcome: Outcome,
    event: EventId,
    body: Json,
) -> Result<Answer, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(Answer::AlreadySettled);
    };
    match seen.call(call) {
        Some(open) if !matches!(open.phase, Phase::Settled(_)) => {}
        _ => return Ok(Answer::AlreadySettled),
    }
    let waits = seen
        .calls
        .iter()
        .take_while(|earlier| earlier.id != call)
        .any(|earlier| matches!(earlier.phase, Phase::Allowed | Phase::Intended(_)));
    desk.note(thread, Kind::Settled, &Settled { call, outcome })?;
    if waits {
        desk.put(thread, Kind::ArrivedToolResult, Some(event), body)?;
    } else {
        desk.put(thread, Kind::AgentToolResult, Some(event), body)?;
        tell(desk, thread)?;
    }
    Ok(Answer::Appended)
}

/// Tells the held results that no running call precedes any more.
fn tell(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(());
    };
    let ready: Vec<_> = seen
        .calls
        .iter()
        .take_while(|call| !matches!(call.phase, Phase::Allowed | Phase::Intended(_)))
        .filter_map(|call| call.held)
        .collect();
    for (position, event) in ready {
        desk.copy(thread, Kind::AgentToolResult, event, position)?;
    }
    Ok(())
}
