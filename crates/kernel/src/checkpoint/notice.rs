//! Hands of the processes before this one that did something which no checkpoint has.

use std::{collections::BTreeMap, sync::Arc};

use outlast_protocol::{
    Micros,
    id::{IncarnationId, SessionId},
};
use outlast_session::Kind;
use outlast_store::{Order, ReadError, Slice};
use tokio::time::Instant;

use super::{Schedule, Watched};
use crate::kernel::Inner;

/// Takes note of them, so that a checkpoint of each is taken once its session rests, whether or not it
/// is ever used again.
pub(crate) async fn notice(inner: Arc<Inner>, named: BTreeMap<IncarnationId, SessionId>) {
    if inner.options.checkpoints == Schedule::NEVER {
        return;
    }
    for (incarnation, session) in named {
        if inner.closing.is_cancelled() {
            return;
        }
        match is_unsaved(&inner, session, incarnation).await {
            Ok(true) => inner.checkpoints.note(session, incarnation),
            Ok(false) => {}
            Err(fault) => {
                tracing::warn!(session.id = %session, "cannot tell what was saved: {fault}");
            }
        }
    }
}

/// Tells whether a session's newest hand has what its newest checkpoint lacks.
async fn is_unsaved(
    inner: &Inner,
    session: SessionId,
    incarnation: IncarnationId,
) -> Result<bool, ReadError> {
    let state = match inner.store.head(session).await {
        Ok(state) => state,
        Err(ReadError::NotFound(_)) => return Ok(false),
        Err(
            fault @ (ReadError::Unreadable(_) | ReadError::Overloaded | ReadError::Unavailable(_)),
        ) => return Err(fault),
    };
    let newest = state.hand.map(|hand| hand.incarnation);
    if newest != Some(incarnation) {
        return Ok(false);
    }
    let last = last_call(inner, session, state.tail).await?;
    let saved = state.checkpoint().map(|known| known.at);
    // Whatever was in the workspace came by a call, of this hand or of one before it.
    Ok(match (last, saved) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(last), Some(saved)) => last >= saved,
    })
}

/// Returns when a call was last handed to a hand of a session, or came back from it.
async fn last_call(
    inner: &Inner,
    session: SessionId,
    tail: u64,
) -> Result<Option<Micros>, ReadError> {
    let slice = Slice {
        order: Order::Backwards,
        kinds: vec![Kind::Intended, Kind::Settled],
        ..Slice::after(tail.saturating_add(1), 1)
    };
    let found = inner.store.read(session, slice).await?;
    Ok(found.first().map(|record| record.at))
}

impl super::Checkpoints {
    /// Notes that a hand did something, unless it was used meanwhile: then that is known.
    fn note(&self, session: SessionId, incarnation: IncarnationId) {
        let mut hands = self.hands();
        let hand = hands.entry(incarnation);
        let hand = hand.or_insert_with(|| Watched::new(session));
        hand.dirty.get_or_insert_with(Instant::now);
    }
}
