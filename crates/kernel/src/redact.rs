//! Erasing what events say, wherever a copy of it stands: in the log, in blobs, in snapshots.
//!
//! What may go is decided by `admit`; the append that records it takes bodies and salts out of their
//! rows. Blobs and the store's own files follow, and a repeat of the request makes sure of them.

use std::collections::{BTreeMap, BTreeSet};

use outlast_blobs::Blobs;
use outlast_protocol::{
    ErrorCode, Problem,
    agent::tools::Gate,
    id::{ApiKeyId, EventId, SessionId},
    redaction::{RedactSession, SessionRedaction},
};
use outlast_session::{Erase, Erasure, Kind, Proposal, Record, State, remains};
use outlast_store::{Append, Blob, Order, Outcome, Slice, Store};

use crate::{Kernel, clients::join, error, files};

impl Kernel {
    /// Erases what events of a session say; repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// If the session or an event does not exist, says nothing, or is still worked with: nothing is
    /// erased then. [`ErrorCode::Unavailable`] if it is erased from the log and some file still has
    /// it: a repeat makes sure.
    pub async fn redact(
        &self,
        by: ApiKeyId,
        session: SessionId,
        wish: &RedactSession,
    ) -> Result<SessionRedaction, Problem> {
        let inner = &self.0;
        let found = gather(&*inner.store, session, wish).await?;
        let outcome = match found.proposal(wish, Some(by)) {
            Some(proposal) => Some(join(inner.append(session, proposal, None, None)).await?),
            None => None,
        };
        found.clear(&*inner.store, &*inner.blobs, session).await?;
        Ok(found.told(session, wish, outcome.as_ref()))
    }
}

/// Does what [`Kernel::redact`] does on a store that no server has.
///
/// # Errors
///
/// As [`Kernel::redact`].
pub async fn redact_alone(
    store: &dyn Store,
    blobs: &dyn Blobs,
    session: SessionId,
    wish: &RedactSession,
) -> Result<SessionRedaction, Problem> {
    let found = gather(store, session, wish).await?;
    let outcome = match found.proposal(wish, None) {
        Some(proposal) => {
            let receipt = None;
            let appended = store.append(session, Append { proposal, receipt }).await;
            Some(appended.map_err(error::append)?)
        }
        None => None,
    };
    found.clear(store, blobs, session).await?;
    Ok(found.told(session, wish, outcome.as_ref()))
}

/// What has to go.
#[derive(Debug, Default)]
struct Gathered {
    /// Bodies that are there, by position.
    erasures: BTreeMap<u64, Erasure>,
    /// Digests of all bodies, those that went before too.
    digests: BTreeSet<[u8; 32]>,
}

/// Finds every record that says what the events say.
async fn gather(
    store: &dyn Store,
    session: SessionId,
    wish: &RedactSession,
) -> Result<Gathered, Problem> {
    let state = store.head(session).await;
    let state = state.map_err(|fault| error::of(session, &fault))?;
    let mut found = Gathered::default();
    for event in &wish.event_ids {
        let records = records(store, session, *event).await?;
        found.add(&state, *event, &records)?;
    }
    Ok(found)
}

/// Returns the records of an event, and the response that it was made from.
async fn records(
    store: &dyn Store,
    session: SessionId,
    event: EventId,
) -> Result<Vec<Record>, Problem> {
    let found = store.of_event(session, event).await;
    let mut records = found.map_err(|fault| error::of(session, &fault))?;
    let Some(newest) = records.iter().max_by_key(|record| record.kind.is_public()) else {
        return Err(Problem::not_found(format_args!(
            "event_ids: event `{event}`"
        )));
    };
    if newest.kind == Kind::SessionUpdated {
        let words = format!(
            "event_ids: `{event}` is part of what the session runs with and cannot be erased; \
             change it by an update"
        );
        return Err(Problem::invalid(words));
    }
    let made = matches!(
        newest.kind,
        Kind::AgentMessage | Kind::AgentThinking | Kind::AgentToolUse | Kind::AgentCustomToolUse
    );
    if made {
        let response = response(store, session, newest).await?;
        records.extend(response);
    }
    Ok(records)
}

/// Returns the response whose append an event came with: the last one before it.
async fn response(
    store: &dyn Store,
    session: SessionId,
    event: &Record,
) -> Result<Option<Record>, Problem> {
    let slice = Slice {
        order: Order::Backwards,
        kinds: vec![Kind::Response],
        thread: Some(event.thread),
        ..Slice::after(event.position, 1)
    };
    let found = store.read(session, slice).await;
    let found = found.map_err(|fault| error::of(session, &fault))?;
    Ok(found
        .into_iter()
        .find(|response| response.origin == event.origin))
}

impl Gathered {
    fn add(&mut self, state: &State, event: EventId, records: &[Record]) -> Result<(), Problem> {
        let knows = |name: &str| {
            let config = state.config.as_deref();
            config.is_some_and(|config| config.agent.tools.gate(name) != Gate::Unknown)
        };
        let mut says = false;
        for record in records {
            let (position, kind) = (record.position, record.kind);
            self.digests.insert(record.digest);
            if record.body.is_erased() {
                says = true;
            } else if let Some(remains) = remains(kind, record.body.text(), &knows) {
                says = true;
                let erasure = Erasure {
                    position,
                    kind,
                    event,
                    remains,
                };
                self.erasures.insert(position, erasure);
            }
        }
        if says {
            return Ok(());
        }
        let kind = records.first().map_or("", |record| record.kind.text());
        let words = format!("event_ids: `{event}`, a `{kind}`, says nothing that could be erased");
        Err(Problem::invalid(words))
    }

    /// Makes the proposal; `None` if nothing is left to erase.
    fn proposal(&self, wish: &RedactSession, by: Option<ApiKeyId>) -> Option<Proposal> {
        let erasures: Vec<Erasure> = self.erasures.values().cloned().collect();
        let because = wish.because.clone();
        (!erasures.is_empty()).then_some(Proposal::Erase(Erase {
            erasures,
            because,
            by,
        }))
    }

    /// Removes blobs that had the bodies, and what files of the store's own still have.
    async fn clear(
        &self,
        store: &dyn Store,
        blobs: &dyn Blobs,
        session: SessionId,
    ) -> Result<(), Problem> {
        for digest in &self.digests {
            let blob = Blob::of_body(session, digest);
            if !files::discard(store, blobs, blob).await {
                return Err(late("a blob cannot be removed now"));
            }
        }
        let scrubbed = store.scrub().await;
        scrubbed.map_err(|fault| late(&fault.to_string()))
    }

    fn told(
        &self,
        session_id: SessionId,
        wish: &RedactSession,
        outcome: Option<&Outcome>,
    ) -> SessionRedaction {
        SessionRedaction {
            session_id,
            event_ids: wish.event_ids.clone(),
            positions: self.erasures.keys().copied().collect(),
            at: outcome.map(|outcome| outcome.state.at),
        }
    }
}

/// Says that it is erased, and not yet everywhere.
fn late(why: &str) -> Problem {
    tracing::warn!(why, "what was erased is not gone everywhere: {why}");
    let words = format!(
        "it is erased from the log, and not yet from every file, because {why}; repeat the request"
    );
    Problem::new(ErrorCode::Unavailable, words)
}
