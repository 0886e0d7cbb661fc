//! Readers: they follow a session, lose their connection, and go on with `Last-Event-ID`.

use std::time::Duration;

use futures::{StreamExt as _, future::join_all};
use outlast_protocol::id::SessionId;
use outlast_session::{Kind, Record};
use outlast_testkit::random::Seeded;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    net::{Net, alive},
    watch::Watcher,
};

/// A reader, and what it was shown.
pub(crate) struct Reader {
    pub(crate) session: SessionId,
    net: Net,
    watcher: Watcher,
    chance: Seeded,
    /// What it saw last; its first look begins behind it.
    last: u64,
    frames: Vec<Frame>,
    over: bool,
}

/// One frame of a logged event.
#[derive(Clone, Debug)]
struct Frame {
    position: u64,
    id: String,
    placed: bool,
}

impl Reader {
    /// Makes a reader that begins with the first event.
    pub(crate) fn new(session: SessionId, net: Net, watcher: Watcher, chance: Seeded) -> Self {
        Self {
            session,
            net,
            watcher,
            chance,
            last: 0,
            frames: Vec::new(),
            over: false,
        }
    }

    /// Reads until the session is over; whoever has enough drops this future.
    pub(crate) async fn read(&mut self) {
        while !self.over {
            let patience = Duration::from_millis(self.chance.below(20_000));
            // A connection that is cut at any moment.
            drop(timeout(patience, self.follow()).await);
            sleep(Duration::from_millis(self.chance.below(1_000))).await;
        }
    }

    /// Follows over one connection until it breaks.
    async fn follow(&mut self) {
        let path = format!("/v1/sessions/{}/events/stream", self.session);
        let headers = [("last-event-id", self.last.to_string())];
        let Ok((mut body, faults)) = self.net.open(&self.chance, &path, &headers).await else {
            return;
        };
        let mut text = String::new();
        while let Ok(Some(Ok(chunk))) = alive(&faults, body.next()).await {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((frame, rest)) = text.split_once("\n\n") {
                self.frame(frame);
                text = rest.to_owned();
            }
        }
    }

    fn frame(&mut self, text: &str) {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        self.over |= field("event: ") == Some("session.deleted");
        let Some(position) = field("id: ").and_then(|id| id.parse().ok()) else {
            return;
        };
        let data: Value = serde_json::from_str(field("data: ").unwrap()).unwrap();
        if position <= self.last {
            self.wrong(&format!("{position} was shown behind {}", self.last));
        }
        self.last = position;
        self.over |= data["type"] == Kind::SessionTerminated.text();
        self.frames.push(Frame {
            position,
            id: data["id"].as_str().unwrap().to_owned(),
            placed: !data["processed_at"].is_null(),
        });
    }

    fn wrong(&self, what: &str) {
        self.watcher
            .wrong(format!("session `{}`: a reader: {what}", self.session));
    }

    /// Compares what it was shown with the log, up to what it saw last.
    ///
    /// Every event was shown once in its place, in order. One that waited was shown as that, unless
    /// it had its place by the time that it was read.
    pub(crate) fn check(&self, log: &[Record], deleted: bool) {
        let placed = |record: &&Record| record.kind.is_public() && record.position <= self.last;
        let there: Vec<_> = log
            .iter()
            .filter(placed)
            .map(|record| record.position)
            .collect();
        let shown = self.frames.iter().filter(|frame| frame.placed);
        let shown: Vec<_> = shown.map(|frame| frame.position).collect();
        if shown != there {
            self.wrong(&format!("was shown {shown:?} of {there:?}"));
        }
        let newest = log.iter().rfind(|record| record.kind.is_public());
        if !deleted && newest.is_some_and(|newest| newest.position > self.last) {
            self.wrong(&format!("saw {} last, and not the end", self.last));
        }
        for frame in &self.frames {
            let index = usize::try_from(frame.position).unwrap() - 1;
            let record = log.get(index);
            let id = record
                .and_then(|record| record.event)
                .map(|id| id.to_string());
            if id.as_deref() != Some(&*frame.id) {
                self.wrong(&format!("was shown `{}` at {}", frame.id, frame.position));
            }
        }
    }

    /// Returns how many frames it was shown.
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Returns what it was shown, for a comparison of two runs.
    pub(crate) fn told(&self) -> String {
        format!("{:?}", self.frames)
    }
}

/// Lets every session have two readers until they are to stop; returns them all.
pub(crate) async fn of_all(
    net: Net,
    watcher: Watcher,
    chance: Seeded,
    stop: CancellationToken,
) -> Vec<Reader> {
    let (mut reading, mut known) = (Vec::new(), Vec::new());
    while !stop.is_cancelled() {
        for session in watcher.ids() {
            if known.contains(&session) {
                continue;
            }
            known.push(session);
            for number in 0..2 {
                let chance = chance.branch(&format!("{session} {number}"));
                let mut reader = Reader::new(session, net.clone(), watcher.clone(), chance);
                let stop = stop.clone();
                reading.push(TaskTracker::new().spawn(async move {
                    stop.run_until_cancelled(reader.read()).await;
                    reader
                }));
            }
        }
        drop(timeout(Duration::from_millis(200), stop.cancelled()).await);
    }
    let readers = join_all(reading).await;
    readers.into_iter().map(Result::unwrap).collect()
}
