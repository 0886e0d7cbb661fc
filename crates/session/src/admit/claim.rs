//! Leases: at most one brain per thread, and a fence that only rises.

use crate::{
    Answer, Claim, Decision, Kind, Refusal, Status,
    body::{Claimed, Released},
    decide::Desk,
};

use super::{status, turn};

/// Decides a claim of its own.
pub(super) fn propose(
    mut desk: Desk<'_, '_>,
    thread: u32,
    claim: Claim,
) -> Result<Decision, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Err(Refusal::Illegal("the thread does not exist"));
    };
    if let Some(lease) = &seen.lease
        && lease.process != claim.process
        && claim.dead != Some(lease.process)
    {
        return Err(Refusal::Held {
            holder: lease.process,
        });
    }
    let waits = seen
        .turn
        .and_then(|turn| turn.retry_at)
        .is_some_and(|at| at > desk.at());
    if !seen.has_work() || (waits && !seen.has_input()) {
        return Ok(desk.done(Answer::Nothing));
    }
    take(&mut desk, thread, claim)?;
    Ok(desk.done(Answer::Appended))
}

/// Claims the primary thread along with a client's inputs, if there is work and nobody has it.
pub(super) fn with(desk: &mut Desk<'_, '_>, claim: Option<Claim>) -> Result<(), Refusal> {
    let free = |thread: &&crate::Thread| thread.lease.is_none() && thread.has_work();
    match (claim, desk.state.thread(0).filter(free)) {
        (Some(claim), Some(_)) => take(desk, 0, claim),
        _ => Ok(()),
    }
}

/// Raises the epoch and closes what the holder before left open.
fn take(desk: &mut Desk<'_, '_>, thread: u32, claim: Claim) -> Result<(), Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(());
    };
    let (epoch, attempt) = (seen.epoch + 1, seen.attempts + 1);
    desk.note(
        thread,
        Kind::Claimed,
        &Claimed {
            epoch,
            process: claim.process,
            attempt,
        },
    )?;
    turn::close_request(desk, thread)?;
    let retries = desk.state.thread(thread).is_some_and(|seen| {
        seen.status == Status::Rescheduling && seen.turn.is_some() && seen.interrupts.is_empty()
    });
    if retries {
        status::running(desk, thread)?;
    }
    Ok(())
}

/// Gives the lease back.
pub(super) fn release(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    retry_at: Option<outlast_protocol::Micros>,
) -> Result<(), Refusal> {
    let epoch = desk.state.thread(thread).map_or(0, |seen| seen.epoch);
    desk.note(thread, Kind::Released, &Released { epoch, retry_at })
}
