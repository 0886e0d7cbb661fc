//! Erasing: what of a log may go, and what it is still worked with.

use outlast_protocol::Problem;

use crate::{
    Answer, Decision, Erase, Erasure, Kind, Refusal, State,
    body::{Erased, Remains},
    decide::Desk,
};

/// Records that bodies are erased; the store takes them away with it.
///
/// A repeat of what was erased already is harmless, so it is not looked for here.
pub(super) fn propose(mut desk: Desk<'_, '_>, wish: &Erase) -> Result<Decision, Refusal> {
    refuse_working(&desk.state)?;
    for erasure in &wish.erasures {
        refuse_needed(&desk.state, erasure)?;
    }
    if wish.erasures.is_empty() {
        return Ok(desk.done(Answer::Nothing));
    }
    let remains = |erasure: &Erasure| Remains {
        position: erasure.position,
        body: (*erasure.remains).to_owned(),
    };
    let erased = Erased {
        because: wish.because.clone(),
        erased: wish.erasures.iter().map(remains).collect(),
    };
    desk.note(0, Kind::Erased, &erased)?;
    Ok(desk.done(Answer::Appended))
}

/// Refuses while a brain has the words in its memory.
fn refuse_working(state: &State) -> Result<(), Refusal> {
    if state.threads.iter().all(|thread| thread.lease.is_none()) {
        return Ok(());
    }
    let words = format!(
        "session `{}` is running and nothing of it can be erased; send `user.interrupt` and wait \
         for idle",
        state.id
    );
    Err(Problem::invalid(words).into())
}

/// Refuses what the session still works with, and what is no event's.
fn refuse_needed(state: &State, erasure: &Erasure) -> Result<(), Refusal> {
    let own = matches!(
        erasure.kind,
        Kind::Response
            | Kind::ArrivedMessage
            | Kind::ArrivedSystem
            | Kind::ArrivedInterrupt
            | Kind::ArrivedToolResult
    );
    if erasure.position > state.tail || !(own || erasure.kind.is_public()) {
        return Err(Refusal::Illegal("this record cannot be erased"));
    }
    let event = erasure.event;
    for thread in &state.threads {
        let mut waiting = thread.queue.iter().chain(&thread.interrupts);
        if waiting.any(|queued| queued.event == event) {
            let words = format!(
                "event_ids: `{event}` waits to be taken in and cannot be erased; send \
                 `user.interrupt`, or wait until it is processed"
            );
            return Err(Problem::invalid(words).into());
        }
        let open = thread.turn.map(|turn| turn.since);
        if open.is_some_and(|since| erasure.position >= since) {
            let words = format!(
                "event_ids: `{event}` belongs to a turn that is not over, which goes on from it; \
                 send `user.interrupt`, or wait for the turn's end"
            );
            return Err(Problem::invalid(words).into());
        }
    }
    Ok(())
}
