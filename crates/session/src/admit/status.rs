//! Statuses are derived here and nowhere else.

use crate::{Json, Kind, Refusal, Status, decide::Desk};

use super::{bodies, calls};

/// Why a thread goes idle.
#[derive(Clone, Debug)]
pub(super) enum Reason {
    EndTurn,
    RetriesExhausted,
    Refusal(Json),
}

/// Tells that a thread, and with it the session, works.
pub(super) fn running(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    if desk.state.status != Status::Running {
        desk.event(0, Kind::SessionRunning, &bodies::Empty {})?;
    }
    if desk
        .state
        .thread(thread)
        .is_some_and(|seen| seen.status != Status::Running)
    {
        let body = bodies::thread(&desk.state, thread);
        desk.event(thread, Kind::ThreadRunning, &body)?;
    }
    calls::tell(desk, thread)
}

/// Tells that a thread stopped, and the session with it if no other works.
pub(super) fn idle(desk: &mut Desk<'_, '_>, thread: u32, reason: &Reason) -> Result<(), Refusal> {
    let body = bodies::thread_idle(&desk.state, thread, reason);
    desk.event(thread, Kind::ThreadIdle, &body)?;
    let busy =
        |other: &crate::Thread| matches!(other.status, Status::Running | Status::Rescheduling);
    if desk.state.threads.iter().any(busy) {
        return Ok(());
    }
    session_idle(desk, Some(reason))
}

/// Tells usage, then that the session waits; calls that a client owes an answer outrank the rest.
pub(super) fn session_idle(
    desk: &mut Desk<'_, '_>,
    reason: Option<&Reason>,
) -> Result<(), Refusal> {
    let usage = bodies::usage(&desk.state, desk.at(), desk.context.rules.hour_price);
    desk.event(0, Kind::SessionUsage, &usage)?;
    let body = bodies::session_idle(&desk.state, reason.unwrap_or(&Reason::EndTurn));
    desk.event(0, Kind::SessionIdle, &body)?;
    Ok(())
}

/// Tells that thread and session will try again.
pub(super) fn rescheduled(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    let body = bodies::thread(&desk.state, thread);
    desk.event(0, Kind::SessionRescheduled, &bodies::Empty {})?;
    desk.event(thread, Kind::ThreadRescheduled, &body)?;
    Ok(())
}
