//! Statuses as they were told, and the stopwatches behind them.

use serde::Deserialize;

use crate::{Entry, FoldError, Kind, State, Status};

/// What `fold` reads of an idle event.
#[derive(Deserialize)]
struct Idle {
    stop_reason: Reason,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(rename = "type")]
    kind: String,
}

/// The session's status was told.
pub(super) fn session(state: &mut State, entry: &Entry<'_>, told: Status) -> Result<(), FoldError> {
    state.status = told;
    state.idle_since = (told == Status::Idle).then_some(entry.at);
    match state.status {
        Status::Running => state.active.start(entry.at),
        Status::Idle | Status::Rescheduling => state.active.stop(entry.at),
        Status::Terminated => {
            state.active.stop(entry.at);
            state.terminated_at = Some(entry.at);
        }
    }
    Ok(())
}

/// A thread's status was told; idle for any reason but a client's answer ends its turn.
pub(super) fn thread(state: &mut State, entry: &Entry<'_>, told: Status) -> Result<(), FoldError> {
    let waits = entry.kind == Kind::ThreadIdle
        && entry.read::<Idle>()?.stop_reason.kind == "requires_action";
    let thread = entry.thread(state)?;
    thread.status = told;
    thread.asked_since = waits.then_some(entry.at);
    match thread.status {
        Status::Running => thread.active.start(entry.at),
        Status::Idle | Status::Rescheduling | Status::Terminated => thread.active.stop(entry.at),
    }
    if matches!(thread.status, Status::Idle | Status::Terminated) && !waits {
        thread.turn = None;
        thread.progress();
        thread.calls.clear();
    }
    Ok(())
}
