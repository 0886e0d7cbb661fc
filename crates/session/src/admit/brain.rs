//! What a brain may say, and in which order.

use crate::{
    After, Answer, Decision, Failure, Fence, Kind, Refusal, Step, Stop, Then, Thread, decide::Desk,
};

use super::{
    claim, close, respond,
    status::{self, Reason},
    turn,
};

/// Decides one step under a lease.
pub(super) fn propose(
    mut desk: Desk<'_, '_>,
    thread: u32,
    fence: Fence,
    step: &Step,
) -> Result<Decision, Refusal> {
    let seen = exists(&desk, thread)?;
    if let Some(answer) = order(seen, fence)? {
        return Ok(desk.done(answer));
    }
    let answer = match step {
        Step::TakeIn { last } => take_in(&mut desk, thread, *last)?,
        Step::Respond(response) => respond::respond(&mut desk, thread, response)?,
        Step::EndTurn(stop) => end_turn(&mut desk, thread, stop)?,
        Step::Fail(failure) => fail(&mut desk, thread, failure)?,
        Step::Interrupt => interrupt(&mut desk, thread)?,
        Step::Release => {
            hand_back(&mut desk, thread)?;
            claim::release(&mut desk, thread, None)?;
            Answer::Appended
        }
        Step::Break => {
            hand_back(&mut desk, thread)?;
            claim::break_off(&mut desk, thread)?;
            Answer::Appended
        }
        Step::Pin(pinned) => note(&mut desk, thread, Kind::Pinned, crate::json(pinned))?,
        Step::Prefix(prefix) => note(&mut desk, thread, Kind::Prefix, prefix.clone())?,
        Step::Note(words) => note(&mut desk, thread, Kind::Noted, words.clone())?,
    };
    Ok(desk.done(answer))
}

/// Returns the thread, if `epoch` still holds its lease.
pub(super) fn leased<'d>(
    desk: &'d Desk<'_, '_>,
    thread: u32,
    epoch: u64,
) -> Result<&'d Thread, Refusal> {
    let seen = exists(desk, thread)?;
    if seen.epoch != epoch || seen.lease.is_none() {
        return Err(Refusal::Stale {
            epoch,
            current: seen.epoch,
        });
    }
    Ok(seen)
}

/// Returns the thread.
pub(super) fn exists<'d>(desk: &'d Desk<'_, '_>, thread: u32) -> Result<&'d Thread, Refusal> {
    let seen = desk.state.thread(thread);
    seen.ok_or(Refusal::Illegal("the thread does not exist"))
}

/// Checks lease and order of a brain's appends; a repeat is answered at once, also one of the
/// append that gave the lease back.
fn order(seen: &Thread, fence: Fence) -> Result<Option<Answer>, Refusal> {
    let stale = Refusal::Stale {
        epoch: fence.epoch,
        current: seen.epoch,
    };
    let lease = match seen.lease.as_ref().or(seen.past.as_ref()) {
        Some(lease) if seen.epoch == fence.epoch => lease,
        Some(_) | None => return Err(stale),
    };
    let known = lease.recent.iter().find(|(seq, _, _)| *seq == fence.seq);
    if let Some((_, first, last)) = known {
        return Ok(Some(Answer::Repeated {
            first: *first,
            last: *last,
        }));
    }
    if seen.lease.is_none() {
        return Err(stale);
    }
    let known = lease.seq.max(fence.acked);
    let follows = fence.seq > lease.seq && fence.seq - 1 <= known;
    if follows {
        Ok(None)
    } else {
        Err(Refusal::Gap {
            seq: fence.seq,
            last: lease.seq,
        })
    }
}

/// Places what waits, where a turn may begin.
fn take_in(desk: &mut Desk<'_, '_>, thread: u32, last: u64) -> Result<Answer, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(Answer::Nothing);
    };
    if !seen.interrupts.is_empty() {
        return Ok(Answer::Interrupted);
    }
    let between = seen.turn.is_none_or(|turn| over(turn.after));
    if seen
        .queue
        .front()
        .is_none_or(|queued| queued.position > last)
        || !between
    {
        return Ok(Answer::Nothing);
    }
    turn::take_in(desk, thread, last)?;
    Ok(Answer::Appended)
}

/// Tells whether nothing of a turn is left to do.
pub(super) fn over(after: After) -> bool {
    match after {
        After::Answer | After::Refusal | After::Overflow => true,
        After::Input | After::Pause | After::Calls => false,
    }
}

/// Ends the turn, unless an input can be taken in; or waits for the client.
fn end_turn(desk: &mut Desk<'_, '_>, thread: u32, stop: &Stop) -> Result<Answer, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(Answer::Nothing);
    };
    if !seen.interrupts.is_empty() {
        return Ok(Answer::Interrupted);
    }
    let Some(open) = seen.turn else {
        return Err(Refusal::Illegal("no turn is open"));
    };
    let waits = seen.asked().next().is_some();
    if !over(open.after) {
        if open.after != After::Calls || seen.request.is_some_and(|open| !open.answered) {
            return Err(Refusal::Illegal("the model has not answered yet"));
        }
        // A client may have answered since the brain looked: that is no fault of the brain's.
        if !waits || seen.runnable().next().is_some() {
            return Ok(Answer::InputArrived);
        }
    }
    let queued = !seen.queue.is_empty() && !waits;
    let reason = match stop {
        Stop::EndTurn if queued => return Ok(Answer::InputArrived),
        Stop::EndTurn => Reason::EndTurn,
        Stop::Refusal(details) => Reason::Refusal(details.clone()),
    };
    turn::close_request(desk, thread)?;
    status::idle(desk, thread, &reason)?;
    if queued {
        turn::take_in(desk, thread, u64::MAX)?;
        return Ok(Answer::Appended);
    }
    claim::release(desk, thread, None)?;
    Ok(Answer::Appended)
}

/// Tells a failure and what follows from it.
fn fail(desk: &mut Desk<'_, '_>, thread: u32, failure: &Failure) -> Result<Answer, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(Answer::Nothing);
    };
    if !seen.interrupts.is_empty() {
        return Ok(Answer::Interrupted);
    }
    match (&seen.turn, seen.queue.is_empty(), failure.then) {
        // Who cannot even begin fails in a turn of its own, so that the client sees it run and fail.
        (None, false, _) => turn::take_in(desk, thread, u64::MAX)?,
        (None, true, Then::Retry(_) | Then::Exhausted) => {
            return Err(Refusal::Illegal("no turn is open"));
        }
        (None, true, Then::Terminal) | (Some(_), _, _) => {}
    }
    turn::close_request(desk, thread)?;
    let id = desk.context.ids.event();
    desk.put(thread, Kind::SessionError, Some(id), failure.error.clone())?;
    match failure.then {
        Then::Retry(at) => {
            status::rescheduled(desk, thread)?;
            claim::release(desk, thread, Some(at))?;
        }
        Then::Exhausted => exhaust(desk, thread)?,
        Then::Terminal => {
            claim::release(desk, thread, None)?;
            close::terminate(desk)?;
        }
    }
    Ok(Answer::Appended)
}

/// Ends a turn that failed and whose request is closed: what waits is taken in unanswered, and the
/// next turn sees it.
pub(super) fn exhaust(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    give_up(desk, thread)?;
    claim::release(desk, thread, None)
}

/// The same of a thread that nobody holds.
pub(super) fn give_up(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    turn::close_calls(desk, thread)?;
    turn::place(desk, thread, u64::MAX)?;
    status::idle(desk, thread, &Reason::RetriesExhausted)
}

/// Stops for the interrupts that wait.
fn interrupt(desk: &mut Desk<'_, '_>, thread: u32) -> Result<Answer, Refusal> {
    if desk
        .state
        .thread(thread)
        .is_none_or(|seen| seen.interrupts.is_empty())
    {
        return Ok(Answer::Nothing);
    }
    turn::interrupt(desk, thread)?;
    if desk
        .state
        .thread(thread)
        .is_some_and(|seen| seen.turn.is_none())
    {
        claim::release(desk, thread, None)?;
    }
    Ok(Answer::Appended)
}

/// Closes what a brain leaves open; whoever claims next goes on. An interrupt that waits needs no
/// brain.
fn hand_back(desk: &mut Desk<'_, '_>, thread: u32) -> Result<(), Refusal> {
    if !exists(desk, thread)?.interrupts.is_empty() {
        turn::interrupt(desk, thread)?;
    }
    turn::close_request(desk, thread)
}

fn note(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    kind: Kind,
    body: crate::Json,
) -> Result<Answer, Refusal> {
    desk.put(thread, kind, None, body)?;
    Ok(Answer::Appended)
}
