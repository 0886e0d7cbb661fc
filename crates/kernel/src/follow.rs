//! Following a log: everything after a position, then live, without gap or double.

use std::{collections::HashSet, sync::Arc};

use outlast_protocol::{
    Problem,
    id::{EventId, SessionId},
};
use outlast_session::{Record, State, Status};
use outlast_store::{GONE, Slice, Store};
use tokio::sync::watch;

use crate::{Kernel, Previews, error};

/// Records that one step of a follower reads.
const PAGE: usize = 256;

/// Bytes that one step of a follower reads, about: what a reader that stopped reading keeps.
const BYTES: usize = 256 << 10;

/// A reader's place in a log.
#[derive(Debug)]
pub struct Follower {
    store: Arc<dyn Store>,
    session: SessionId,
    position: u64,
    tail: watch::Receiver<u64>,
    /// The state at the moment of subscription.
    pub start: Arc<State>,
    queued: HashSet<EventId>,
}

/// What a follower finds next.
#[derive(Debug)]
pub enum News {
    /// The next records, in order.
    Records(Vec<Record>),
    /// The session was deleted; nothing follows.
    Deleted,
}

impl Kernel {
    /// Follows a log from behind `position`, or from its head on.
    ///
    /// # Errors
    ///
    /// If the session does not exist, or `position` lies beyond the head.
    pub async fn follow(
        &self,
        session: SessionId,
        position: Option<u64>,
    ) -> Result<Follower, Problem> {
        // Register before looking: what is appended in between is seen twice rather than never.
        let watched = self.0.store.watch(session).await;
        let tail = watched.map_err(|fault| error::read(&fault))?;
        let start = self.state(session).await?;
        let position = position.unwrap_or(start.tail);
        if position > start.tail {
            return Err(Problem::invalid(format!(
                "Last-Event-ID: {position} lies beyond the newest event, {}",
                start.tail
            )));
        }
        let waiting = start.threads.iter().flat_map(|thread| {
            thread
                .queue
                .iter()
                .chain(&thread.interrupts)
                .map(|queued| queued.event)
        });
        let queued = waiting.collect();
        let store = self.0.store.clone();
        Ok(Follower {
            store,
            session,
            position,
            tail,
            start,
            queued,
        })
    }

    /// Watches the previews of a thread.
    pub fn previews(&self, session: SessionId, thread: u32) -> Previews {
        self.0.previews.subscribe(session, thread)
    }
}

impl Follower {
    /// Waits for what comes next. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<News, Problem> {
        loop {
            if let Some(news) = self.poll().await? {
                return Ok(news);
            }
            if self.tail.changed().await.is_err() {
                return Ok(News::Deleted);
            }
        }
    }

    /// Returns what has come already.
    pub async fn poll(&mut self) -> Result<Option<News>, Problem> {
        let tail = *self.tail.borrow_and_update();
        if tail == GONE {
            return Ok(Some(News::Deleted));
        }
        if tail <= self.position {
            return Ok(None);
        }
        let slice = Slice {
            bytes: BYTES,
            ..Slice::after(self.position, PAGE)
        };
        let records = match self.store.read(self.session, slice).await {
            Ok(records) => records,
            Err(outlast_store::ReadError::NotFound(_)) => return Ok(Some(News::Deleted)),
            Err(fault) => return Err(error::read(&fault)),
        };
        let Some(last) = records.last() else {
            return Ok(None);
        };
        self.position = last.position;
        // Data may be left: let the next call look again without waiting.
        Ok(Some(News::Records(records)))
    }

    /// Returns a watch of the newest position, to wait on beside other things.
    ///
    /// Mark it as seen before [`Follower::poll`], so that nothing falls in between.
    pub fn tail(&self) -> watch::Receiver<u64> {
        self.tail.clone()
    }

    /// Returns the last position that was handed out.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the newest position of the log.
    pub fn head(&self) -> u64 {
        *self.tail.borrow()
    }

    /// Tells whether a client sees this arrival: live ones, and replayed ones that still wait.
    pub fn shows(&self, arrival: &Record) -> bool {
        let waits = arrival
            .event
            .is_some_and(|event| self.queued.contains(&event));
        arrival.position > self.start.tail || waits
    }

    /// Tells whether the session was over when this follower subscribed, and all of it was read.
    pub fn is_over(&self) -> bool {
        self.start.status == Status::Terminated && self.position >= self.start.tail
    }
}
