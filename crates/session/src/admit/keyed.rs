//! What kernel and gateway write for a brain: fenced by its epoch, known by a key.

use outlast_protocol::id::{CredentialId, EventId, IncarnationId};

use crate::{
    Answer, Decision, Fact, Kind, Phase, Refusal, Thread,
    body::{Cloned, Intended, RequestEnded, Unreachable},
    decide::Desk,
};

use super::{
    brain::{exists, leased},
    calls, turn,
};

/// Decides one fact.
pub(super) fn propose(
    mut desk: Desk<'_, '_>,
    thread: u32,
    epoch: u64,
    key: EventId,
    fact: &Fact,
) -> Result<Decision, Refusal> {
    // What a request used is spent whoever holds the lease, and is counted by the request's id.
    if let Fact::RequestEnded(ended) = fact {
        let answer = request_ended(&mut desk, thread, ended)?;
        return Ok(desk.done(answer));
    }
    leased(&desk, thread, epoch)?;
    let answer = match fact {
        Fact::RequestEnded(_) => Answer::AlreadySettled,
        Fact::RequestStarted => started(&mut desk, thread, key)?,
        Fact::Intended(hand) => intended(&mut desk, thread, key, *hand)?,
        Fact::Settled(outcome, event, body) => {
            allowed(&desk, thread, key)?;
            calls::settle(&mut desk, thread, key, *outcome, *event, body.clone())?
        }
        Fact::HandWanted(wanted) => match desk.state.hand {
            Some(hand) if !hand.lost || hand.incarnation == wanted.incarnation => {
                Answer::AlreadySettled
            }
            _ => appended(desk.note(thread, Kind::HandWanted, wanted))?,
        },
        Fact::HandLost(lost) => match desk.state.hand {
            Some(hand) if !hand.lost && hand.incarnation == lost.incarnation => {
                appended(desk.note(thread, Kind::HandLost, lost))?
            }
            _ => Answer::AlreadySettled,
        },
        Fact::Cloned(cloned, error) => tried(&mut desk, thread, key, cloned, error.as_ref())?,
        Fact::Unreachable(all) => unreachable(&mut desk, thread, all)?,
    };
    Ok(desk.done(answer))
}

/// A repository is tried once for each epoch in a hand, and what came of it is told once.
fn tried(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    key: EventId,
    cloned: &Cloned,
    error: Option<&crate::Json>,
) -> Result<Answer, Refusal> {
    let known = desk.state.cloned.iter();
    let mut known = known.filter(|known| known.resource == cloned.resource);
    if known.any(|known| (known.hand, known.epoch) == (cloned.hand, cloned.epoch)) {
        return Ok(Answer::AlreadySettled);
    }
    desk.note(thread, Kind::Cloned, cloned)?;
    if let Some(error) = error {
        desk.put(thread, Kind::SessionError, Some(key), error.clone())?;
    }
    Ok(Answer::Appended)
}

/// A credential that names a host which the environment does not allow is told once, until it names none.
fn unreachable(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    all: &[(CredentialId, EventId, crate::Json)],
) -> Result<Answer, Refusal> {
    let credentials: Vec<_> = all.iter().map(|(credential, ..)| *credential).collect();
    let known = desk.state.unreachable.clone();
    if credentials == known {
        return Ok(Answer::AlreadySettled);
    }
    desk.note(thread, Kind::Unreachable, &Unreachable { credentials })?;
    for (credential, event, error) in all {
        if !known.contains(credential) {
            desk.put(thread, Kind::SessionError, Some(*event), error.clone())?;
        }
    }
    Ok(Answer::Appended)
}

fn appended(done: Result<(), Refusal>) -> Result<Answer, Refusal> {
    done.map(|()| Answer::Appended)
}

/// A request may leave while a turn is open and all its calls are settled.
fn started(desk: &mut Desk<'_, '_>, thread: u32, id: EventId) -> Result<Answer, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(Answer::Nothing);
    };
    if seen.newest_request == Some(id) {
        return Ok(Answer::AlreadySettled);
    }
    if !seen.interrupts.is_empty() {
        return Ok(Answer::Interrupted);
    }
    if seen.turn.is_none() || !settled(seen) {
        return Err(Refusal::Illegal("no turn is open that waits for the model"));
    }
    turn::close_request(desk, thread)?;
    desk.put(
        thread,
        Kind::RequestStart,
        Some(id),
        crate::json(&super::bodies::Empty {}),
    )?;
    Ok(Answer::Appended)
}

fn settled(seen: &Thread) -> bool {
    seen.calls
        .iter()
        .all(|call| matches!(call.phase, Phase::Settled(_)))
}

/// The end of a request counts once, even if its span was closed before.
fn request_ended(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    ended: &RequestEnded,
) -> Result<Answer, Refusal> {
    let seen = exists(desk, thread)?;
    let open = seen
        .request
        .filter(|open| open.id == ended.request && open.ended.is_none());
    if open.is_none() && !seen.uncounted.contains(&ended.request) {
        return Ok(Answer::AlreadySettled);
    }
    desk.note(thread, Kind::RequestEnded, ended)?;
    if open.is_some_and(|open| open.answered) {
        turn::close_request(desk, thread)?;
    }
    Ok(Answer::Appended)
}

/// A call may be handed over once it is allowed and no interrupt waits.
fn intended(
    desk: &mut Desk<'_, '_>,
    thread: u32,
    call: EventId,
    hand: IncarnationId,
) -> Result<Answer, Refusal> {
    let Some(seen) = desk.state.thread(thread) else {
        return Ok(Answer::Nothing);
    };
    if !seen.interrupts.is_empty() {
        return Ok(Answer::Interrupted);
    }
    match seen.call(call).map(|open| open.phase) {
        Some(Phase::Allowed) => {
            appended(desk.note(thread, Kind::Intended, &Intended { call, hand }))
        }
        // An incarnation that says it never had the call leaves it to the next one.
        Some(Phase::Intended(last)) if last != hand => {
            appended(desk.note(thread, Kind::Intended, &Intended { call, hand }))
        }
        Some(Phase::Intended(_) | Phase::Settled(_)) => Ok(Answer::AlreadySettled),
        Some(Phase::Asked) => Err(Refusal::Illegal(UNASKED)),
        // A call of a turn that was interrupted while the kernel was on its way.
        None => Ok(Answer::AlreadySettled),
    }
}

/// What is said to a kernel that would run a call without a client's leave.
const UNASKED: &str = "the call is not allowed to run";

/// Refuses a result of a call that waits for a client.
fn allowed(desk: &Desk<'_, '_>, thread: u32, call: EventId) -> Result<(), Refusal> {
    match exists(desk, thread)?.call(call).map(|open| open.phase) {
        Some(Phase::Asked) => Err(Refusal::Illegal(UNASKED)),
        Some(Phase::Allowed | Phase::Intended(_) | Phase::Settled(_)) | None => Ok(()),
    }
}
