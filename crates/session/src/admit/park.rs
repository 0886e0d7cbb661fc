//! Threads on which one brain after another comes to nothing.
//!
//! After so many claims without progress a thread is worked on alone, so that what it does to its
//! process meets no other suspect; after as many again nobody works on it until somebody asks for that.

use crate::{
    After, Answer, Claim, Decision, Kind, Refusal, Waker,
    body::{Claimed, Parked},
    decide::Desk,
};

use super::{bodies, brain, claim, status, turn};

/// Gives up a turn, so that it does not end one process after another.
///
/// An interrupt that waits needs no brain: it ends the turn in its own way, and nothing is parked.
pub(super) fn park(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(());
    };
    let (attempts, held) = (seen.attempts, seen.lease.is_some());
    if !seen.interrupts.is_empty() {
        turn::interrupt(desk, thread)?;
        return if held {
            claim::release(desk, thread, None)
        } else {
            Ok(())
        };
    }
    let after = seen.turn.map_or(After::Input, |turn| turn.after);
    if seen.turn.is_none() {
        // So that the client sees it run and fail.
        turn::take_in(desk, thread, u64::MAX)?;
    }
    turn::close_request(desk, thread)?;
    desk.event(thread, Kind::SessionError, &bodies::no_progress(attempts))?;
    brain::give_up(desk, thread)?;
    // The next input is tried once: what is wrong may have been mended, or may be met again.
    let left = desk
        .context
        .rules
        .attempts
        .saturating_mul(2)
        .saturating_sub(1);
    let parked = Parked {
        attempts,
        left,
        after,
    };
    desk.note(thread, Kind::Parked, &parked)
}

/// Takes up again what was given up, because an operator wants it.
pub(super) fn revive(
    mut desk: Desk<'_, '_>,
    thread: u32,
    claim: Claim,
) -> Result<Decision, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Err(Refusal::Illegal("the thread does not exist"));
    };
    if seen.waker() != Waker::Parked {
        return Ok(desk.done(Answer::Nothing));
    }
    let claimed = Claimed {
        epoch: seen.epoch + 1,
        process: claim.process,
        attempt: 1,
        revived: true,
    };
    desk.note(thread, Kind::Claimed, &claimed)?;
    status::running(&mut desk, thread)?;
    Ok(desk.done(Answer::Appended))
}
