//! From a hand to a blob that the log names; what the log does not name goes.

use std::{io, sync::Arc};

use outlast_blobs::Key;
use outlast_hands::files::{Packed, Sum};
use outlast_protocol::id::{IncarnationId, SessionId};
use outlast_session::{Proposal, State, Status, body};
use outlast_store::ReadError;

use super::{Due, Outcome};
use crate::{kernel::Inner, lease::joined};

/// Keys that are listed at once.
const PAGE: usize = 500;

/// What stands between session and checkpoint in a key.
const FOLDER: &str = "/checkpoints";

/// Returns what the checkpoints of a session lie below.
#[expect(clippy::expect_used, reason = "an id is a part of a key")]
fn folder(session: SessionId) -> Key {
    Key::new(format!("sessions/{session}{FOLDER}")).expect("an id is a part of a key")
}

/// Takes a checkpoint and has the log name it.
pub(super) async fn take(inner: &Arc<Inner>, due: Due) -> Outcome {
    let (session, incarnation) = (due.session, due.incarnation);
    let state = match inner.store.head(session).await {
        Ok(state) => state,
        Err(ReadError::NotFound(_)) => return Outcome::Pointless,
        Err(fault @ (ReadError::Unreadable(_) | ReadError::Unavailable(_))) => {
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
    let at = inner.clock.now();
    let packed = match inner.hands.checkpoint(incarnation).await {
        Ok(packed) => packed,
        Err(error) if is_pointless(&error) => return Outcome::Pointless,
        Err(error) => return failed(incarnation, &error, since),
    };
    // Packed: calls go on while it is stored.
    let Due { alone, _slot, .. } = due;
    drop(alone);
    let number = state.checkpoint.as_ref().map_or(0, number) + 1;
    let key = match Key::new(format!("{}/{incarnation}-{number}", folder(session))) {
        Ok(key) => key,
        Err(fault) => return failed(incarnation, &fault, since),
    };
    match keep(inner, session, incarnation, &key, packed, at).await {
        Ok(outcome) => outcome,
        Err(fault) => failed(incarnation, &fault, since),
    }
}

/// Why a pack was not kept.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Blob(#[from] outlast_blobs::Error),
    #[error("{stored} bytes were stored of {packed}")]
    Short { stored: u64, packed: u64 },
    #[error(transparent)]
    Append(#[from] crate::LeaseError),
}

/// Stores a pack, has the log name it, and removes the ones before.
async fn keep(
    inner: &Arc<Inner>,
    session: SessionId,
    incarnation: IncarnationId,
    key: &Key,
    packed: Packed,
    at: outlast_protocol::Micros,
) -> Result<Outcome, Fault> {
    let blobs = &inner.blobs;
    let Packed { sum, content } = packed;
    let stored = blobs.put_from(key, content).await?;
    if stored != sum.bytes {
        blobs.delete(key).await?;
        let packed = sum.bytes;
        return Err(Fault::Short { stored, packed });
    }
    ::metrics::counter!(crate::metric_definitions::CHECKPOINT_BYTES).increment(stored);
    let new = body::Checkpointed {
        incarnation,
        blob: key.to_string(),
        sum: recorded(sum),
        at,
    };
    let proposal = Proposal::Checkpoint(new);
    // If this fails nobody knows whether the log names it; the next one has the same name then.
    let outcome = match joined(inner.append(session, proposal, None, None)).await {
        Ok(outcome) => outcome,
        // The session is gone.
        Err(crate::LeaseError::Over(_)) => {
            blobs.delete(key).await?;
            return Ok(Outcome::Pointless);
        }
        Err(fault) => return Err(fault.into()),
    };
    let named = outcome.state.checkpoint.as_ref();
    if named.is_none_or(|named| named.blob != key.as_str()) {
        blobs.delete(key).await?;
        return Ok(Outcome::Pointless);
    }
    remove_older(inner, session, key).await?;
    Ok(Outcome::Taken)
}

/// Removes the checkpoints of a session that are no newer than the one under `key`, but for that.
async fn remove_older(inner: &Inner, session: SessionId, key: &Key) -> Result<(), Fault> {
    let blobs = &inner.blobs;
    let newest = number_of(key.as_str());
    for old in blobs.list(&folder(session), None, PAGE).await? {
        if old != *key && number_of(old.as_str()) <= newest {
            blobs.delete(&old).await?;
        }
    }
    Ok(())
}

/// Removes every checkpoint of a session: it is over.
pub(crate) async fn remove_all(inner: &Inner, session: SessionId) {
    let prefix = folder(session);
    // A failure leaves them to the session's purge.
    while let Ok(PAGE) = inner.blobs.delete_prefix(&prefix, PAGE).await {}
}

/// Removes checkpoints that no log names: a crash came between blob and record. Once per start.
pub(crate) async fn sweep(inner: Arc<Inner>) {
    let gone = tokio::select! {
        gone = unnamed(&inner) => gone,
        () = inner.closing.cancelled() => return,
    };
    match gone {
        Ok(0) => {}
        Ok(gone) => tracing::info!(gone, "removed {gone} checkpoints that no log names"),
        Err(fault) => tracing::warn!(%fault, "cannot look for checkpoints without a log: {fault}"),
    }
}

async fn unnamed(inner: &Inner) -> Result<usize, outlast_blobs::Error> {
    let blobs = &inner.blobs;
    let Ok(prefix) = Key::new("sessions") else {
        return Ok(0);
    };
    let (mut after, mut gone) = (None, 0);
    loop {
        let keys = blobs.list(&prefix, after.as_ref(), PAGE).await?;
        for key in &keys {
            if is_unnamed(inner, key).await {
                blobs.delete(key).await?;
                gone += 1;
            }
        }
        match keys.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(gone),
        }
    }
}

/// Tells whether a key is that of a checkpoint which no log names and nobody is taking.
async fn is_unnamed(inner: &Inner, key: &Key) -> bool {
    let rest = key.as_str().strip_prefix("sessions/");
    let Some((session, _)) = rest.and_then(|rest| rest.split_once(FOLDER)) else {
        return false;
    };
    let Some(session) = SessionId::parse(session) else {
        return false;
    };
    // Before the log is read: one that is taken from now on is not listed yet.
    if inner.checkpoints.is_busy(session) {
        return false;
    }
    match inner.store.head(session).await {
        Ok(state) => {
            let named = state.checkpoint.as_ref();
            named.is_none_or(|named| named.blob != key.as_str())
        }
        Err(ReadError::NotFound(_)) => true,
        Err(ReadError::Unreadable(_) | ReadError::Unavailable(_)) => false,
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

/// Returns the number at the end of a checkpoint's name.
fn number(known: &body::Checkpointed) -> u64 {
    number_of(&known.blob)
}

fn number_of(key: &str) -> u64 {
    let end = key.rsplit('-').next().and_then(|end| end.parse().ok());
    end.unwrap_or(0)
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
