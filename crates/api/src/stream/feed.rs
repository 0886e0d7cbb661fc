//! What one connection is fed: the log first, then previews, then signs of life.
//!
//! It is pulled by the socket: nothing is read ahead of what the client takes, no task stands
//! behind it, and a reader that stops reading keeps a position and at most one page of frames.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::Stream;
use outlast_kernel::{Follower, Kernel, News};
use outlast_protocol::{
    Problem,
    id::{EventId, RequestId, SessionId},
};
use outlast_session::{Kind, Record};
use outlast_store::GONE;
use tokio::{
    sync::watch,
    task::coop::consume_budget,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{frame, previews::Watch};
use crate::{
    app::App,
    events::{self, Sight},
    metric_definitions::OpenStream,
};

/// One connection.
#[derive(Debug)]
pub(super) struct Feed {
    kernel: Kernel,
    session: SessionId,
    thread: u32,
    request: RequestId,
    follower: Follower,
    tail: watch::Receiver<u64>,
    previews: Option<Watch>,
    shutdown: CancellationToken,
    ping: Duration,
    /// When silence has lasted long enough.
    due: Instant,
    over: bool,
    _counted: OpenStream,
}

impl Feed {
    pub(super) fn new(
        app: &App,
        (session, thread): (SessionId, u32),
        follower: Follower,
        previews: Option<Watch>,
        request: RequestId,
    ) -> Self {
        Self {
            kernel: app.kernel.clone(),
            session,
            thread,
            request,
            tail: follower.tail(),
            follower,
            previews,
            shutdown: app.shutdown.clone(),
            ping: app.ping,
            due: Instant::now() + app.ping,
            over: false,
            _counted: OpenStream::new(),
        }
    }

    /// Feeds for as long as the connection takes it.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        futures::stream::unfold(self, |mut feed| async move {
            let frames = feed.next().await?;
            feed.due = Instant::now() + feed.ping;
            Some((Ok(Bytes::from(frames)), feed))
        })
    }

    /// Returns the next frames; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let mut out = String::new();
        while !self.over && !self.shutdown.is_cancelled() {
            // Seen before it is read: what comes in between wakes the wait below.
            self.tail.borrow_and_update();
            match self.follower.poll().await {
                Ok(Some(News::Records(records))) => self.records(&mut out, &records),
                Ok(Some(News::Deleted)) => self.deleted(&mut out),
                Ok(None) => self.wait(&mut out).await,
                Err(problem) => self.fail(&mut out, &problem),
            }
            if out.is_empty() && Instant::now() >= self.due {
                self.live(&mut out);
            }
            if !out.is_empty() {
                return Some(out);
            }
            // A long run of private records must not keep a thread to itself.
            consume_budget().await;
        }
        None
    }

    /// Writes the frames of records, with the previews that belong before each.
    fn records(&mut self, out: &mut String, records: &[Record]) {
        if let Some(previews) = &mut self.previews {
            previews.drain();
        }
        let thread = self.thread;
        for record in records.iter().filter(|record| record.thread == thread) {
            self.preview(out, record.position.saturating_sub(1));
            if self.is_shown(record) {
                frame::record(out, record);
            }
            if let Some(previews) = &mut self.previews {
                previews.passed(record);
            }
            self.over |= record.kind == Kind::SessionTerminated;
        }
        self.preview(out, self.follower.position());
    }

    fn is_shown(&self, record: &Record) -> bool {
        match events::shown(record.kind) {
            Some(Sight::Placed) => true,
            Some(Sight::Arrived(_)) => self.follower.shows(record),
            None => false,
        }
    }

    fn preview(&mut self, out: &mut String, position: u64) {
        if let Some(previews) = &mut self.previews {
            previews.show(out, position);
        }
    }

    /// Waits until there may be something to write.
    async fn wait(&mut self, out: &mut String) {
        if self.follower.is_over() {
            self.over = true;
            return;
        }
        let more = async {
            match &mut self.previews {
                Some(previews) => previews.more().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => {}
            changed = self.tail.changed() => self.over |= changed.is_err() && !self.is_gone(),
            () = more => {}
            () = sleep_until(self.due) => {}
        }
        self.preview(out, self.follower.position());
    }

    /// Tells the head of the log, so that a client can tell quiet from behind.
    fn live(&self, out: &mut String) {
        if !self.is_gone() {
            frame::ping(out, self.follower.head());
        }
    }

    fn is_gone(&self) -> bool {
        self.follower.head() == GONE
    }

    fn deleted(&mut self, out: &mut String) {
        self.over = true;
        let now = self.kernel.now();
        frame::deleted(out, EventId::mint(now, self.kernel.entropy()), now);
    }

    fn fail(&mut self, out: &mut String, problem: &Problem) {
        self.over = true;
        let (session, request) = (self.session, self.request);
        tracing::error!(
            session.id = %session, request.id = %request, code = ?problem.code,
            "a stream of `{session}` broke off"
        );
        frame::error(out, problem, request);
    }
}
