//! Records to state: the one reading of the log that everything else trusts.

mod calls;
mod inputs;
mod mounts;
mod status;
mod turns;

use std::borrow::Cow;

use serde::Deserialize;

use crate::{Entry, Kind, Lease, Origin, RECENT, State, Status, body};

/// A record does not follow from those before it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("record {position} of kind `{kind}` cannot be folded: {reason}")]
pub struct FoldError {
    /// Its position.
    pub position: u64,
    /// Its kind.
    pub kind: Kind,
    /// What is wrong.
    pub reason: Cow<'static, str>,
}

/// Adds one record to the state.
///
/// # Errors
///
/// If the record is out of order, names a thread that does not exist, or has a body of another
/// shape than its kind. The state is then of no use.
pub fn fold(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    if entry.position != state.tail + 1 {
        return Err(entry.fault("out of order"));
    }
    state.tail = entry.position;
    state.at = entry.at;
    apply(state, entry)?;
    remember(state, entry);
    Ok(())
}

/// Hands the record to the fold of its family.
fn apply(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    match entry.kind {
        Kind::Created => created(state, entry),
        Kind::Updated => {
            state.config = Some(entry.read::<body::Updated>()?.config);
            Ok(())
        }
        Kind::ResourceAdded => mounts::added(state, entry),
        Kind::ResourceRemoved => mounts::removed(state, entry),
        Kind::ResourceUpdated => mounts::updated(state, entry),
        Kind::Cloned => mounts::cloned(state, entry),
        Kind::Unreachable => {
            state.unreachable = entry.read::<body::Unreachable>()?.credentials;
            Ok(())
        }
        Kind::ArrivedMessage | Kind::ArrivedSystem | Kind::ArrivedInterrupt => {
            inputs::arrived(state, entry)
        }
        Kind::UserMessage | Kind::SystemMessage | Kind::UserInterrupt => {
            inputs::placed(state, entry)
        }
        Kind::UserToolConfirmation => calls::confirmed(state, entry),
        Kind::UserCustomToolResult => calls::answered(state, entry),
        Kind::AgentToolUse | Kind::AgentCustomToolUse => calls::called(state, entry),
        Kind::Intended => calls::intended(state, entry),
        Kind::Settled => calls::settled(state, entry),
        Kind::ArrivedToolResult => calls::held(state, entry),
        Kind::AgentToolResult => calls::told(state, entry),
        Kind::HandWanted | Kind::HandLost => calls::hand(state, entry),
        Kind::Checkpointed => calls::checkpointed(state, entry),
        Kind::Claimed | Kind::Released => turns::lease(state, entry),
        Kind::Parked => turns::parked(state, entry),
        Kind::RequestStart => turns::started(state, entry),
        Kind::RequestEnded => turns::ended(state, entry),
        Kind::RequestEnd => turns::told(state, entry),
        Kind::Response => turns::response(state, entry),
        Kind::Pinned => {
            entry.thread(state)?.pinned = Some(entry.position);
            Ok(())
        }
        Kind::Prefix => {
            entry.thread(state)?.prefix = Some(entry.position);
            Ok(())
        }
        Kind::SessionRunning => status::session(state, entry, Status::Running),
        Kind::SessionIdle => status::session(state, entry, Status::Idle),
        Kind::SessionRescheduled => status::session(state, entry, Status::Rescheduling),
        Kind::SessionTerminated => status::session(state, entry, Status::Terminated),
        Kind::ThreadRunning => status::thread(state, entry, Status::Running),
        Kind::ThreadIdle => status::thread(state, entry, Status::Idle),
        Kind::ThreadRescheduled => status::thread(state, entry, Status::Rescheduling),
        Kind::ThreadTerminated => status::thread(state, entry, Status::Terminated),
        Kind::Archived => {
            state.archived_at = Some(entry.at);
            Ok(())
        }
        Kind::Deleted => {
            state.deleted = true;
            // Nobody is told, but nothing may wake it again.
            for thread in &mut state.threads {
                thread.status = Status::Terminated;
            }
            Ok(())
        }
        Kind::Deadlines => {
            state.deadlines = entry.read()?;
            Ok(())
        }
        Kind::SessionError => turns::failed(state, entry),
        Kind::AgentMessage
        | Kind::AgentThinking
        | Kind::SessionUpdated
        | Kind::SessionUsage
        | Kind::Erased
        | Kind::Noted => Ok(()),
    }
}

/// Begins a session.
fn created(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let created: body::Created = entry.read()?;
    state.created_at = entry.at;
    state.idle_since = Some(entry.at);
    state.config = Some(created.config);
    state.threads = vec![crate::Thread::new(created.thread)];
    Ok(())
}

/// Keeps what a brain's append became, so that a repeat can be answered.
fn remember(state: &mut State, entry: &Entry<'_>) {
    let Origin::Brain { epoch, seq } = *entry.origin else {
        return;
    };
    let Some(thread) = state.thread_mut(entry.thread) else {
        return;
    };
    if thread.epoch != epoch {
        return;
    }
    // What is written behind the release belongs to the append that gave the lease back.
    if let Some(lease) = thread.lease.as_mut().or(thread.past.as_mut()) {
        note(lease, seq, entry.position);
    }
}

/// Extends the newest remembered append, or begins the next.
fn note(lease: &mut Lease, seq: u64, position: u64) {
    lease.seq = seq;
    match lease.recent.back_mut() {
        Some((last, _, end)) if *last == seq => *end = position,
        _ => lease.recent.push_back((seq, position, position)),
    }
    if lease.recent.len() > RECENT {
        lease.recent.pop_front();
    }
}

impl Entry<'_> {
    /// Reads the body as the shape of its kind.
    pub(crate) fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, FoldError> {
        let text = self
            .body
            .ok_or_else(|| self.fault("its body is not at hand"))?;
        serde_json::from_str(text).map_err(|error| self.fault(error.to_string()))
    }

    /// Returns the event id, which the kind needs.
    pub(crate) fn id(&self) -> Result<outlast_protocol::id::EventId, FoldError> {
        self.event.ok_or_else(|| self.fault("it has no event id"))
    }

    /// Makes the error that this record is wrong.
    pub(crate) fn fault(&self, reason: impl Into<Cow<'static, str>>) -> FoldError {
        FoldError {
            position: self.position,
            kind: self.kind,
            reason: reason.into(),
        }
    }

    /// Returns the thread that the record belongs to.
    pub(crate) fn thread<'s>(
        &self,
        state: &'s mut State,
    ) -> Result<&'s mut crate::Thread, FoldError> {
        state
            .thread_mut(self.thread)
            .ok_or_else(|| self.fault("its thread does not exist"))
    }
}
