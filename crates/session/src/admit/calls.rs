//! Calls are settled once; their results are told in the model's order.

use outlast_protocol::{CallResult, Outcome, id::EventId};

use crate::{
    Answer, Call, Json, Kind, Phase, Refusal, Status, Thread, body::Settled, decide::Desk, json,
};

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
    let waits = is_silent(seen)
        || seen
            .calls
            .iter()
            .take_while(|earlier| earlier.id != call)
            .any(runs);
    desk.note(thread, Kind::Settled, &Settled { call, outcome })?;
    if waits {
        desk.put(thread, Kind::ArrivedToolResult, Some(event), body)?;
    } else {
        desk.put(thread, Kind::AgentToolResult, Some(event), body)?;
        tell(desk, thread)?;
    }
    Ok(Answer::Appended)
}

/// Settles every call that is open with the same result, and tells all that is not told.
pub(super) fn close(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    result: &CallResult,
) -> Result<(), Refusal> {
    let calls = desk.state.thread(thread).map(|seen| seen.calls.clone());
    for call in calls.unwrap_or_default() {
        match (call.phase, call.held) {
            (Phase::Settled(_), None) => {}
            (Phase::Settled(_), Some((position, event))) => {
                desk.copy(thread, Kind::AgentToolResult, event, position)?;
            }
            (Phase::Asked | Phase::Allowed | Phase::Intended(_), _) => {
                let (call, outcome) = (call.id, result.outcome);
                desk.note(thread, Kind::Settled, &Settled { call, outcome })?;
                let body = bodies::tool_result(call, result);
                desk.event(thread, Kind::AgentToolResult, &body)?;
            }
        }
    }
    Ok(())
}

fn runs(call: &Call) -> bool {
    matches!(call.phase, Phase::Allowed | Phase::Intended(_))
}

/// Tells whether results have to wait: for the end of the span that the calls came in, or until
/// a thread that rests works again.
fn is_silent(seen: &Thread) -> bool {
    seen.request.is_some() || seen.status == Status::Idle
}

/// Tells the held results that no running call precedes any more.
///
/// A call that waits for a client holds nothing back: it may wait for days.
pub(super) fn tell(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    let Some(seen) = desk.state.thread(thread).filter(|seen| !is_silent(seen)) else {
        return Ok(());
    };
    let ready: Vec<_> = seen
        .calls
        .iter()
        .take_while(|call| !runs(call))
        .filter_map(|call| call.held)
        .collect();
    for (position, event) in ready {
        desk.copy(thread, Kind::AgentToolResult, event, position)?;
    }
    Ok(())
}
