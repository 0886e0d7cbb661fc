//! Deadlines: what holds, and what follows when one has run out.

use outlast_protocol::{
    deadlines::{Deadline, UpdateDeadlines},
    event::{ErrorKind, RetryStatus, SessionError},
};

use crate::{Answer, Call, Decision, Kind, Refusal, Route, body, decide::Desk};

use super::{calls, claim, close, status, turn};

/// Changes what holds.
pub(super) fn set(mut desk: Desk<'_, '_>, change: UpdateDeadlines) -> Result<Decision, Refusal> {
    close::refuse_ended(&desk.state)?;
    let deadlines = change.over(desk.state.deadlines);
    if deadlines == desk.state.deadlines {
        return Ok(desk.done(Answer::Nothing));
    }
    desk.note(0, Kind::Deadlines, &deadlines)?;
    Ok(desk.done(Answer::Appended))
}

/// Does what follows from the deadline that has run out, if one has.
///
/// Whoever was faster, a client with its answer or another node, leaves nothing to do.
pub(super) fn expire(mut desk: Desk<'_, '_>) -> Result<Decision, Refusal> {
    let (now, deadlines) = (desk.at(), desk.state.deadlines);
    let due = desk.state.next_deadline().filter(|next| next.at <= now);
    match due.map(|next| next.deadline) {
        None => return Ok(desk.done(Answer::Nothing)),
        Some(Deadline::Total) => too_old(&mut desk, deadlines.total_seconds.unwrap_or(0))?,
        Some(Deadline::Answer) => unanswered(&mut desk, deadlines.answer_seconds.unwrap_or(0))?,
        Some(Deadline::Idle) => close::end(&mut desk)?,
    }
    Ok(desk.done(Answer::Appended))
}

/// Interrupts what runs, tells why, and ends the session.
fn too_old(desk: &mut Desk<'_, '_>, seconds: u32) -> Result<(), Refusal> {
    for number in (0_u32..).take(desk.state.threads.len()) {
        turn::close_request(desk, number)?;
        turn::close_calls(desk, number)?;
    }
    let words = format!("the session reached its age of {seconds} seconds and was ended");
    let error = SessionError::new(ErrorKind::Unknown, words, RetryStatus::Terminal);
    desk.event(0, Kind::SessionError, &error)?;
    for number in (0_u32..).take(desk.state.threads.len()) {
        let leased = |thread: &crate::Thread| thread.lease.is_some();
        if desk.state.thread(number).is_some_and(leased) {
            claim::release(desk, number, None)?;
        }
    }
    close::terminate(desk)
}

/// Answers the calls that a client did not answer, and lets the turn go on.
fn unanswered(desk: &mut Desk<'_, '_>, seconds: u32) -> Result<(), Refusal> {
    for number in (0_u32..).take(desk.state.threads.len()) {
        let Some(thread) = desk.state.thread(number).filter(|seen| seen.is_blocked()) else {
            continue;
        };
        let asked: Vec<Call> = thread.asked().cloned().collect();
        for call in asked {
            let result = match call.route {
                Route::Hand => body::unanswered(&call.name, seconds),
                Route::Client => body::no_result(&call.name, seconds),
            };
            calls::settle_with(desk, number, call.id, &result)?;
        }
        status::running(desk, number)?;
    }
    Ok(())
}
