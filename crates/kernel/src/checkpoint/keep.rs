//! From a hand to a blob that the log names.
//!
//! A blob is noted as loose before its first byte is written, and the append that names it ends the
//! note: what a crash leaves between the two is removed by the next process.

use std::{io, sync::Arc, time::Duration};

use outlast_blobs::{BadKey, Key};
use outlast_hands::files::{Packed, Sum};
use outlast_protocol::{
    Micros,
    id::{IncarnationId, SessionId},
};
use outlast_session::{Proposal, State, Status, body};
use outlast_store::{AppendError, Blob, ReadError, WriteError};

use super::{Due, Outcome};
use crate::{
    files::{self, Loose},
    kernel::Inner,
};

/// Takes a checkpoint and has the log name it.
pub(super) async fn take(inner: &Arc<Inner>, due: Due) -> Outcome {
    let (session, incarnation) = (due.session, due.incarnation);
    let state = match inner.store.head(session).await {
        Ok(state) => state,
        Err(ReadError::NotFound(_)) => return Outcome::Pointless,
        Err(
            fault @ (ReadError::Unreadable(_) | ReadError::Overloaded | ReadError::Unavailable(_)),
        ) => {
            return failed(incarnation, &fault, None);
        }
    };
    if due.at_rest && !is_at_rest(&state) {
        return Outcome::NotNow;
    }
    if state
        .hand
        .is_none_or(|hand| hand.incarnation != incarnation)
    {
        return Outcome::Pointless;
    }
    let since = match inner.checkpoints.hands().get_mut(&incarnation) {
        Some(hand) => hand.dirty.take(),
        None => return Outcome::Pointless,
    };
    let at = moment(&state, inner.clock.now());
    let packed = match inner.hands.checkpoint(incarnation).await {
        Ok(packed) => packed,
        Err(error) if is_pointless(&error) => return Outcome::Pointless,
        Err(error) => return failed(incarnation, &error, since),
    };
    // Packed: calls go on while it is stored.
    let Due { alone, _slot, .. } = due;
    drop(alone);
    match keep(inner, session, incarnation, packed, at).await {
        Ok(outcome) => outcome,
        Err(fault) => failed(incarnation, &fault, since),
    }
}

/// Why a pack was not kept.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Key(#[from] BadKey),
    #[error("its key is not that of a checkpoint")]
    Name,
    #[error(transparent)]
    Note(#[from] WriteError),
    #[error(transparent)]
    Blob(#[from] outlast_blobs::Error),
    #[error("{stored} bytes were stored of {packed}")]
    Short { stored: u64, packed: u64 },
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// Stores a pack, has the log name it, and removes what the log keeps no more.
async fn keep(
    inner: &Arc<Inner>,
    session: SessionId,
    incarnation: IncarnationId,
    packed: Packed,
    at: Micros,
) -> Result<Outcome, Fault> {
    let key = key(inner, session, incarnation)?;
    let blob = Blob::of_session(key.as_str()).ok_or(Fault::Name)?;
    let loose = Loose::begin(inner, blob.clone()).await?;
    let Packed { sum, content } = packed;
    let closing = inner.closing.clone().cancelled_owned();
    let (loose, stored) = loose.fill(&key, content, closing).await?;
    if stored != sum.bytes {
        let packed = sum.bytes;
        return Err(Fault::Short { stored, packed });
    }
    ::metrics::counter!(crate::metric_definitions::CHECKPOINT_BYTES).increment(stored);
    let before = inner.store.head(session).await.ok();
    let new = body::Checkpointed {
        incarnation,
        blob: key.to_string(),
        sum: recorded(sum),
        at,
    };
    let proposal = Proposal::Checkpoint(new);
    // If this fails nobody knows whether the log names it. Then it is given up, which comes to nothing
    // if it is named by now, and else sees to it that it never is.
    let appended = inner.append(session, proposal, None, None).await;
    let outcome = match appended.unwrap_or_else(|died| Err(AppendError::Failed(died.to_string()))) {
        Ok(outcome) => outcome,
        Err(AppendError::NotFound(_)) => return Ok(Outcome::Pointless),
        Err(fault) => return Err(fault.into()),
    };
    if !Blob::needed_by(&outcome.state).contains(&blob) {
        return Ok(Outcome::Pointless);
    }
    loose.named();
    // At once, so that no session has more for long; if it fails the note of it stays.
    if let Some(before) = before {
        for old in Blob::needed_only_by(&before, Some(&outcome.state)) {
            files::remove(inner, old).await;
        }
    }
    Ok(Outcome::Taken)
}

/// Returns when a checkpoint is taken: after everything that the log knows, whatever the clock says.
fn moment(state: &State, now: Micros) -> Micros {
    let known = state.checkpoints.first().map(|known| known.taken.at);
    let after = known.map_or(now, |known| known.after(Duration::from_micros(1)));
    now.max(state.at).max(after)
}

/// Draws the key of a new checkpoint: no other one ever has it.
fn key(inner: &Inner, session: SessionId, incarnation: IncarnationId) -> Result<Key, BadKey> {
    let mut bytes = [0; 8];
    inner.entropy.fill(&mut bytes);
    let number = u64::from_be_bytes(bytes);
    Key::new(format!(
        "sessions/{session}/checkpoints/{incarnation}-{number:016x}"
    ))
}

/// Removes the checkpoints of a session that is over.
pub(crate) async fn remove(inner: &Inner, over: &State) {
    for known in &over.checkpoints {
        if let Some(blob) = Blob::of_session(&known.taken.blob) {
            // The append that ended the session has loosened it: after a failure it goes later.
            files::remove(inner, blob).await;
        }
    }
}

/// Tells whether nothing works on a session and nothing is about to.
fn is_at_rest(state: &State) -> bool {
    state.shown() != Status::Running && state.threads.iter().all(|thread| thread.lease.is_none())
}

/// Tells whether trying again would come to the same.
fn is_pointless(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::NotFound
    )
}

fn failed(
    incarnation: IncarnationId,
    fault: &dyn std::fmt::Display,
    since: Option<tokio::time::Instant>,
) -> Outcome {
    tracing::warn!(hand.id = %incarnation, "no checkpoint of `{incarnation}` for now: {fault}");
    Outcome::Failed { since }
}

/// Returns a sum as the log has it.
fn recorded(sum: Sum) -> body::Sum {
    let Sum {
        entries,
        bytes,
        digest,
    } = sum;
    body::Sum {
        entries,
        bytes,
        digest,
    }
}
