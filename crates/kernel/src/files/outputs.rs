//! What agents leave for people: read from their hands, and kept as files of the session.
//!
//! Nothing here fails a turn. What cannot be read or stored now is tried again at the next call, at
//! idle, and whenever somebody lists the files of the session.

mod left;
mod names;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use outlast_blobs::Reader;
use outlast_hands::files::Published;
use outlast_protocol::{
    Micros,
    id::{FileId, IncarnationId, SessionId},
    mime,
};
use outlast_session::State;
use outlast_store::{Output, StoredFile};
use tokio::{io::AsyncReadExt as _, sync::Mutex as Turn, time::timeout};

use super::{Loose, key};
use crate::{kernel::Inner, per_session::PerSession, sweep::Finder};
use left::{Bounds, Left, Told, Weight};
use names::Names;

/// How long a list of files waits for what is being published.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who publishes what at the moment, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    sessions: PerSession<Entry>,
    left: Told,
}

impl Publisher {
    /// Returns since when outputs of a session are left out, if some are.
    pub(crate) fn left_out_since(&self, session: SessionId) -> Option<Micros> {
        self.left.since(session)
    }
}

/// One session's turn to publish.
#[derive(Debug, Default)]
struct Entry {
    turn: Turn<()>,
    /// Whether somebody waits for the turn already, who will see all there is by then.
    waiting: AtomicBool,
}

impl Inner {
    /// Publishes what a hand has left, by and by.
    pub(crate) fn publish_soon(self: &Arc<Self>, session: SessionId, hand: IncarnationId) {
        let entry = self.publisher.sessions.get(session);
        if entry.waiting.swap(true, Ordering::SeqCst) {
            return;
        }
        let inner = self.clone();
        self.tasks.spawn(async move {
            let _one = entry.turn.lock().await;
            entry.waiting.store(false, Ordering::SeqCst);
            inner.publish(session, hand).await;
        });
    }

    /// Publishes what the hand of a session has left, and waits for it a while.
    pub(crate) async fn publish_now(self: &Arc<Self>, session: SessionId) {
        let Ok(state) = self.store.head(session).await else {
            return;
        };
        self.publish_of(&state).await;
    }

    /// Publishes what the hand of a session has left, and waits for it a while.
    pub(crate) async fn publish_of(self: &Arc<Self>, state: &State) {
        let Some(hand) = state.hand else { return };
        let (inner, session) = (self.clone(), state.id);
        // It goes on if nobody waits any more.
        let publishing = self.tasks.spawn(async move {
            let entry = inner.publisher.sessions.get(session);
            let _one = entry.turn.lock().await;
            inner.publish(session, hand.incarnation).await;
        });
        drop(timeout(PATIENCE, publishing).await);
    }

    async fn publish(self: &Arc<Self>, session: SessionId, hand: IncarnationId) {
        let listing = self.hands.provisioner().outputs(hand);
        let mut listed = match self.hands.heard_io(listing).await {
            Ok(listed) => listed,
            Err(fault) => {
                let none = matches!(
                    fault.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::Unsupported
                );
                if !none {
                    tracing::warn!(session.id = %session, "outputs cannot be listed: {fault}");
                }
                return;
            }
        };
        if listed.is_empty() {
            return self
                .publisher
                .left
                .tell(session, Left::default(), self.clock.now());
        }
        let known = match self.store.outputs(session).await {
            Ok(known) => known,
            Err(fault) => {
                tracing::warn!(session.id = %session, "outputs cannot be published: {fault}");
                return;
            }
        };
        let bounds = Bounds {
            each: self.options.file_bytes,
            all: self.options.output_bytes,
        };
        let finder = match self.finder_of(session).await {
            Ok(finder) => finder,
            Err(fault) => {
                tracing::warn!(session.id = %session, "outputs cannot be published: {fault}");
                return;
            }
        };
        let names = match Names::sweep(&finder, &mut listed).await {
            Ok(names) => names,
            Err(fault) => {
                tracing::warn!(session.id = %session, "outputs cannot be published: {fault}");
                return;
            }
        };
        let (wanted, mut left) = left::choose(listed, &known, bounds);
        let mut weight = Weight::of(&known);
        for output in wanted {
            let path = output.path.clone();
            let room = weight.room(&path, bounds);
            let opening = self.hands.provisioner().output(hand, names.inside(&path));
            let content = self.hands.heard_io(opening).await;
            match self
                .publish_one(session, output, content, room, &finder)
                .await
            {
                Ok(bytes) => weight.take(&path, bytes),
                // It has grown since it was listed.
                Err(fault) if fault.kind() == io::ErrorKind::FileTooLarge => {
                    if room < bounds.each {
                        left.heavy += 1;
                    } else {
                        left.large += 1;
                    }
                }
                Err(fault) => left.failed(&fault),
            }
        }
        self.publisher.left.tell(session, left, self.clock.now());
    }

    /// Publishes one that may have so many bytes; returns how many it has.
    async fn publish_one(
        self: &Arc<Self>,
        session: SessionId,
        output: Published,
        content: io::Result<Reader>,
        most: u64,
        finder: &Finder,
    ) -> io::Result<u64> {
        // Words of a hand may name the output.
        let content = content.map_err(|fault| io::Error::from(fault.kind()))?;
        let blob = FileId::mint(self.clock.now(), &*self.entropy);
        let begun = Loose::begin(self, blob.into()).await;
        let loose = begun.map_err(io::Error::other)?;
        // It may grow while it is read.
        let content = finder.reader(content);
        let content = Box::pin(content.take(most.saturating_add(1)));
        let closing = self.closing.clone().cancelled_owned();
        let filled = loose.fill(&key(blob), content, closing).await;
        let (loose, bytes) = filled.map_err(io::Error::other)?;
        if bytes > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let now = self.clock.now();
        let file = StoredFile {
            id: FileId::mint(now, &*self.entropy),
            created_at: now,
            mime_type: mime::of_name(&output.path).to_owned(),
            name: output.path.clone(),
            bytes,
            downloadable: true,
            expires_at: None,
            scope: Some(session),
            mounted: false,
            output: Some(Output {
                path: output.path,
                version: output.version,
            }),
            blob: Some(blob),
        };
        let published = self.store.publish_file(file).await;
        let published = published.map_err(io::Error::other)?;
        if published.is_some() {
            loose.named();
        }
        Ok(bytes)
    }
}
