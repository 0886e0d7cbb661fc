//! Leases: at most one brain per thread, and a fence that only rises.

use crate::{
    Answer, Claim, Decision, Kind, Refusal, Status, Waker,
    body::{Claimed, Released},
    decide::Desk,
};

use super::{park, status, turn};

/// Decides a claim of its own; `alone` says that the claimant works on no other suspect.
pub(super) fn propose(
    mut desk: Desk<'_, '_>,
    thread: u32,
    claim: Claim,
    alone: bool,
) -> Result<Decision, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Err(Refusal::Illegal("the thread does not exist"));
    };
    match seen.waker() {
        // A process that finds its own name there has a brain at work, unless it says otherwise.
        Waker::Lease(holder) if claim.dead == Some(holder) => {}
        Waker::Lease(holder) if holder == claim.process => return Ok(desk.done(Answer::Nothing)),
        Waker::Lease(holder) => return Err(Refusal::Held { holder }),
        waker if desk.is_due(&waker) => {}
        Waker::Ended
        | Waker::Input
        | Waker::Parked
        | Waker::Answers(_)
        | Waker::Brain
        | Waker::Timer(_) => {
            return Ok(desk.done(Answer::Nothing));
        }
    }
    let (attempts, most) = (seen.attempts, desk.context.rules.attempts);
    if attempts >= most.saturating_mul(2) {
        park::park(&mut desk, thread)?;
        return Ok(desk.done(Answer::Parked));
    }
    if attempts >= most && !alone {
        return Ok(desk.done(Answer::Suspect));
    }
    take(&mut desk, thread, claim)?;
    Ok(desk.done(Answer::Appended))
}

/// Claims the primary thread along with a client's inputs, if a brain is wanted now that need not work
/// on it alone.
pub(super) fn with(desk: &mut Desk<'_, '_>, claim: Option<Claim>) -> Result<(), Refusal> {
    let (seen, most) = (desk.state.thread(0), desk.context.rules.attempts);
    let wanted = seen.is_some_and(|seen| desk.is_due(&seen.waker()) && seen.attempts < most);
    match claim {
        Some(claim) if wanted => take(desk, 0, claim),
        Some(_) | None => Ok(()),
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
            revived: false,
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
    let broken = false;
    let released = Released {
        epoch,
        retry_at,
        broken,
    };
    desk.note(thread, Kind::Released, &released)
}

/// Gives the lease back after a fault.
pub(super) fn break_off(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    let epoch = desk.state.thread(thread).map_or(0, |seen| seen.epoch);
    let released = Released {
        epoch,
        retry_at: None,
        broken: true,
    };
    desk.note(thread, Kind::Released, &released)
}
