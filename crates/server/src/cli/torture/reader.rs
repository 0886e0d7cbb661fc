//! A reader that is cut off again and again, and must see every event once, in order.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{ear::Ear, random::Random};
use crate::client::{Client, Frame};

/// The longest that a reader stays connected.
const STAY: Duration = Duration::from_secs(3);

/// How long a reader may take to see what is there already.
const CATCH_UP: Duration = Duration::from_secs(20);

/// One reader, and what it saw.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) session: String,
    ear: Ear,
    random: Random,
    /// Positions and ids of events in their place, as they came.
    pub(super) events: Vec<(u64, String)>,
    /// Times it broke its connection itself; others were broken by kills.
    pub(super) cuts: u64,
}

impl Reader {
    pub(super) fn new(session: &str, ear: Ear, random: Random) -> Self {
        Self {
            session: session.to_owned(),
            ear,
            random,
            events: Vec::new(),
            cuts: 0,
        }
    }

    /// Reads until nothing more will come, and then to the last event there is.
    pub(super) async fn read(mut self, plain: Client, end: CancellationToken) -> Self {
        let mut until = Instant::now() + self.random.time(STAY);
        loop {
            tokio::select! {
                frame = self.ear.next() => match frame {
                    Some(frame) => self.note(&frame),
                    None => return self,
                },
                () = sleep_until(until) => {
                    self.ear.cut();
                    self.cuts += 1;
                    until = Instant::now() + self.random.time(STAY);
                }
                () = end.cancelled() => break,
            }
        }
        // Whether it got there is judged by its log.
        drop(timeout(CATCH_UP, self.catch_up(&plain)).await);
        self
    }

    async fn catch_up(&mut self, plain: &Client) {
        let path = format!("/v1/sessions/{}/events", self.session);
        let newest = [("order", "desc"), ("limit", "1")];
        let last = plain.list(&path, &newest, 1).await.unwrap_or_default();
        let last = last.first().and_then(|event| event.get("id")?.as_str());
        while last != self.events.last().map(|(_, id)| id.as_str()) {
            match self.ear.next().await {
                Some(frame) => self.note(&frame),
                None => return,
            }
        }
    }

    /// Notes an event, unless it is an input that still waits: that one comes again in its place.
    fn note(&mut self, frame: &Frame) {
        let waits = frame.event.get("processed_at").is_none_or(Value::is_null);
        let id = frame.event.get("id").and_then(Value::as_str);
        if let (Some(position), Some(id), false) = (frame.position, id, waits) {
            self.events.push((position, id.to_owned()));
        }
    }
}
