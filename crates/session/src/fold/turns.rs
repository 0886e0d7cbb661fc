//! Leases, model requests and what a turn stands at.

use std::collections::VecDeque;

use serde::Deserialize;

use crate::{
    After, Ended, Entry, FoldError, Kind, Lease, Parked, RECENT, Request, State, Thread, Turn, body,
};

/// A lease is taken or given back.
pub(super) fn lease(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let thread = entry.thread(state)?;
    if entry.kind == Kind::Claimed {
        let claimed: body::Claimed = entry.read()?;
        thread.epoch = claimed.epoch;
        thread.attempts = claimed.attempt;
        thread.past = None;
        thread.lease = Some(Lease {
            process: claimed.process,
            seq: 0,
            recent: VecDeque::new(),
        });
        if let Some(turn) = &mut thread.turn {
            turn.retry_at = None;
        }
        // What was given up is taken up again where it stood.
        if let Some(parked) = thread.parked.take_if(|_| claimed.revived) {
            let after = parked.after;
            thread.turn = Some(Turn {
                after,
                ..Turn::new(entry.position)
            });
        }
        return Ok(());
    }
    let released: body::Released = entry.read()?;
    if !released.broken {
        thread.attempts = thread.attempts.saturating_sub(1);
    }
    thread.past = thread.lease.take();
    if let Some(turn) = &mut thread.turn {
        turn.retry_at = released.retry_at;
    }
    Ok(())
}

/// Nobody works on a thread any more.
pub(super) fn parked(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let parked: body::Parked = entry.read()?;
    let thread = entry.thread(state)?;
    (thread.lease, thread.past) = (None, None);
    thread.attempts = parked.left;
    thread.parked = Some(Parked {
        at: entry.at,
        attempts: parked.attempts,
        after: parked.after,
    });
    Ok(())
}

/// A request begins.
pub(super) fn started(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let (id, thread) = (entry.id()?, entry.thread(state)?);
    thread.newest_request = Some(id);
    thread.request = Some(Request {
        id,
        ended: None,
        answered: false,
    });
    thread.calls.clear();
    Ok(())
}

/// The end of a request is told; its usage may come later.
pub(super) fn told(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let thread = entry.thread(state)?;
    if let Some(open) = thread.request.take().filter(|open| open.ended.is_none()) {
        thread.uncounted.push_back(open.id);
    }
    if thread.uncounted.len() > RECENT {
        thread.uncounted.pop_front();
    }
    Ok(())
}

/// Notes what a request used.
pub(super) fn ended(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let ended: body::RequestEnded = entry.read()?;
    state.usage.add(&ended.tokens, ended.cost);
    let thread = entry.thread(state)?;
    thread.usage.add(&ended.tokens, ended.cost);
    thread.uncounted.retain(|open| *open != ended.request);
    if let Some(request) = thread
        .request
        .as_mut()
        .filter(|open| open.id == ended.request)
    {
        let fast = ended.speed.as_deref().map(|speed| speed == "fast");
        request.ended = Some(Ended {
            tokens: ended.tokens,
            failed: ended.failed,
            fast,
        });
    }
    Ok(())
}

/// What `fold` reads of a response: never its blocks.
#[derive(Deserialize)]
struct Seen {
    after: After,
    calls: Vec<body::Called>,
}

/// A response is stored: progress.
pub(super) fn response(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let seen: Seen = entry.read()?;
    let thread = entry.thread(state)?;
    thread.progress();
    if let Some(request) = &mut thread.request {
        request.answered = true;
    }
    advance(thread, &seen);
    Ok(())
}

/// Moves the turn on.
fn advance(thread: &mut Thread, seen: &Seen) {
    let Some(turn) = &mut thread.turn else { return };
    turn.retries = 0;
    turn.after = seen.after;
    if !seen.calls.is_empty() || seen.after == After::Pause {
        turn.rounds += 1;
    }
    let only_cut = matches!(seen.calls.as_slice(), [call] if call.cut);
    turn.cut = if only_cut { turn.cut + 1 } else { 0 };
}

/// A failure counts against the turn's retries.
pub(super) fn failed(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    if let Some(turn) = &mut entry.thread(state)?.turn {
        turn.retries += 1;
    }
    Ok(())
}
