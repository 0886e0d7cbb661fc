//! What begins and ends a turn.

use crate::{Kind, Refusal, Status, body, decide::Desk};

use super::{
    bodies, calls,
    status::{self, Reason},
};

/// Places the inputs that wait up to `last`, in order of arrival, and tells that work begins.
pub(super) fn take_in(desk: &mut Desk<'_, '_>, thread: u32, last: u64) -> Result<(), Refusal> {
    place(desk, thread, last)?;
    status::running(desk, thread)
}

/// Places the inputs that wait up to `last`; an operator's turn goes with the message before it.
pub(super) fn place(desk: &mut Desk<'_, '_>, thread: u32, last: u64) -> Result<(), Refusal> {
    while let Some(next) = desk
        .state
        .thread(thread)
        .and_then(|seen| seen.queue.front())
    {
        if next.position > last && next.kind != Kind::SystemMessage {
            break;
        }
        let next = *next;
        desk.copy(thread, next.kind, next.event, next.position)?;
    }
    Ok(())
}

/// Takes the interrupts in, ends the turn they met and begins the next one if an input waits.
pub(super) fn interrupt(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(());
    };
    let works = seen.turn.is_some() || matches!(seen.status, Status::Running);
    for queued in seen.interrupts.clone() {
        desk.copy(thread, queued.kind, queued.event, queued.position)?;
    }
    close_request(desk, thread)?;
    close_calls(desk, thread)?;
    if works {
        status::idle(desk, thread, &Reason::EndTurn)?;
    }
    if desk
        .state
        .thread(thread)
        .is_some_and(|seen| !seen.queue.is_empty())
    {
        take_in(desk, thread, u64::MAX)?;
    }
    Ok(())
}

/// Tells the end of a request that is still open, and the results that waited for it.
pub(super) fn close_request(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    let Some(open) = desk.state.thread(thread).and_then(|seen| seen.request) else {
        return Ok(());
    };
    desk.event(thread, Kind::RequestEnd, &bodies::request_end(&open))?;
    calls::tell(desk, thread)
}

/// Settles the calls that are still open as interrupted.
pub(super) fn close_calls(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    calls::close(desk, thread, &body::interrupted())
}
