//! Calls: asked or allowed, handed over, settled once, told in order.

use std::borrow::Cow;

use outlast_protocol::{Outcome, id::EventId};
use serde::Deserialize;

use crate::{Call, Checkpoint, Entry, FoldError, Hand, Kind, Phase, Route, State, body};

/// How many checkpoints a session keeps.
const CHECKPOINTS: usize = 2;

/// What `fold` reads of a tool-use event.
#[derive(Deserialize)]
struct Use<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    evaluated_permission: Option<Cow<'a, str>>,
}

/// What `fold` reads of a confirmation.
#[derive(Deserialize)]
struct Confirmation<'a> {
    tool_use_id: EventId,
    #[serde(borrow)]
    result: Cow<'a, str>,
}

/// What `fold` reads of a custom result.
#[derive(Deserialize)]
struct CustomResult {
    custom_tool_use_id: EventId,
}

/// What `fold` reads of a built-in result.
#[derive(Deserialize)]
struct BuiltinResult {
    tool_use_id: EventId,
}

/// A call appears.
pub(super) fn called(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let used: Use<'_> = entry.read()?;
    let custom = entry.kind == Kind::AgentCustomToolUse;
    let route = if custom { Route::Client } else { Route::Hand };
    let allowed = used.evaluated_permission.as_deref() == Some("allow");
    let phase = if allowed {
        Phase::Allowed
    } else {
        Phase::Asked
    };
    let (id, name) = (entry.id()?, used.name.into_owned());
    let call = Call {
        id,
        position: entry.position,
        name,
        route,
        phase,
        held: None,
    };
    entry.thread(state)?.calls.push(call);
    Ok(())
}

/// A client lets a call run; a denial is a settlement of its own.
pub(super) fn confirmed(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let confirmation: Confirmation<'_> = entry.read()?;
    let allow = confirmation.result == "allow";
    let call = find(state, entry, confirmation.tool_use_id)?;
    if allow && call.phase == Phase::Asked {
        call.phase = Phase::Allowed;
    }
    Ok(())
}

/// A client answers a custom call.
pub(super) fn answered(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let result: CustomResult = entry.read()?;
    settle(state, entry, result.custom_tool_use_id, Outcome::Done)
}

/// A call is about to be handed over.
pub(super) fn intended(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let intended: body::Intended = entry.read()?;
    find(state, entry, intended.call)?.phase = Phase::Intended(intended.hand);
    if let Some(hand) = &mut state.hand {
        hand.begun |= hand.incarnation == intended.hand;
    }
    Ok(())
}

/// A call is over.
pub(super) fn settled(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let settled: body::Settled = entry.read()?;
    settle(state, entry, settled.call, settled.outcome)
}

/// A result waits for those of earlier calls.
pub(super) fn held(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let result: BuiltinResult = entry.read()?;
    let held = Some((entry.position, entry.id()?));
    find(state, entry, result.tool_use_id)?.held = held;
    Ok(())
}

/// A result is told.
pub(super) fn told(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let event = entry.id()?;
    for call in &mut entry.thread(state)?.calls {
        if call.held.is_some_and(|(_, held)| held == event) {
            call.held = None;
        }
    }
    Ok(())
}

/// A hand comes or goes.
pub(super) fn hand(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    if entry.kind == Kind::HandWanted {
        let wanted: body::HandWanted = entry.read()?;
        state
            .past_hands
            .retain(|past| !wanted.forgotten.contains(past));
        state
            .past_hands
            .extend(state.hand.map(|old| old.incarnation));
        let ended = |old: Hand| old.used || old.fresh;
        let fresh = state.hand.is_some_and(ended);
        let untold = state.hand.and_then(|old| old.unreadable);
        let unreadable = state.unreadable().or(untold);
        state.hand = Some(Hand {
            incarnation: wanted.incarnation,
            predecessor: wanted.predecessor,
            lost: false,
            begun: false,
            loss: wanted.loss,
            unreadable: wanted.loss.and(unreadable),
            used: false,
            fresh,
        });
        return Ok(());
    }
    let lost: body::HandLost = entry.read()?;
    for known in &mut state.checkpoints {
        known.unreadable |= Some(known.taken.at) == lost.unreadable;
    }
    if let Some(hand) = state
        .hand
        .as_mut()
        .filter(|hand| hand.incarnation == lost.incarnation)
    {
        hand.lost = true;
    }
    Ok(())
}

/// A workspace is in a blob.
///
/// The one before stays, for the case that this one cannot be read when it is needed.
pub(super) fn checkpointed(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let new = Checkpoint {
        taken: entry.read()?,
        unreadable: false,
    };
    state.checkpoints.retain(|known| !known.unreadable);
    state.checkpoints.insert(0, new);
    state.checkpoints.truncate(CHECKPOINTS);
    Ok(())
}

/// Notes that a call which was handed to a hand is over.
///
/// Its result says what the hand came without; one that was cut off has the same words whatever
/// happened. One that was lost with its hand says what the next hand comes without.
fn ran(hand: &mut Hand, outcome: Outcome) {
    if outcome != Outcome::Interrupted {
        hand.loss = None;
        hand.unreadable = None;
        hand.fresh = false;
    }
    hand.used = match outcome {
        Outcome::NotStarted => hand.used,
        Outcome::MayHaveRun => !hand.lost,
        Outcome::Done | Outcome::Limit | Outcome::Interrupted | Outcome::Denied => true,
    };
}

/// Settles a call, the first time only.
fn settle(
    state: &mut State,
    entry: &Entry<'_>,
    id: EventId,
    outcome: Outcome,
) -> Result<(), FoldError> {
    let call = find(state, entry, id)?;
    let before = call.phase;
    if !matches!(before, Phase::Settled(_)) {
        call.phase = Phase::Settled(outcome);
    }
    if let Some(hand) = &mut state.hand
        && before == Phase::Intended(hand.incarnation)
    {
        ran(hand, outcome);
    }
    entry.thread(state)?.progress();
    Ok(())
}

fn find<'s>(
    state: &'s mut State,
    entry: &Entry<'_>,
    id: EventId,
) -> Result<&'s mut Call, FoldError> {
    let calls = &mut entry.thread(state)?.calls;
    calls
        .iter_mut()
        .find(|call| call.id == id)
        .ok_or_else(|| entry.fault("it names no call of the last response"))
}
