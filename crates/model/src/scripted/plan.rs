//! What an answer will be, event by event, with its pauses.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use tokio::time::sleep;

use super::script::Fault;
use crate::{Error, Event, Events};

/// One thing to do.
#[derive(Clone, Debug)]
pub(super) enum Cue {
    /// Say nothing for a while.
    Wait(Duration),
    /// Send an event.
    Send {
        /// Its name.
        name: &'static str,
        /// Its JSON.
        data: String,
    },
    /// Break the connection.
    Drop,
}

/// An answer that is ready to be played.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    cues: VecDeque<Cue>,
}

impl Plan {
    /// Makes a plan of cues.
    pub(super) fn new(cues: Vec<Cue>) -> Self {
        Self { cues: cues.into() }
    }

    /// Ends the plan in its middle: with an `error` event, or by breaking the connection.
    pub(super) fn fail(mut self, fault: Option<&Fault>) -> Self {
        // `message_start` and half of what follows have been sent when trouble comes.
        let kept = self.cues.len().div_ceil(2).max(1);
        self.cues.truncate(kept);
        self.cues.push_back(match fault {
            Some(fault) => Cue::Send {
                name: "error",
                data: fault.rejection().body(None),
            },
            None => Cue::Drop,
        });
        self
    }

    /// Plays the plan as typed events.
    pub fn into_events(self) -> Events {
        let events = stream::unfold(Some(self), |plan| async move {
            let mut plan = plan?;
            let event = match plan.next().await? {
                Cue::Send { data, .. } => Event::parse(&data),
                Cue::Drop | Cue::Wait(_) => {
                    Err(Error::failed("the scripted model broke the connection"))
                }
            };
            let rest = event.is_ok().then_some(plan);
            Some((event, rest))
        });
        Box::pin(events.fuse())
    }

    /// Plays the plan as server-sent events; a broken connection is an error of the stream.
    pub fn into_frames(self) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send {
        stream::unfold(self, |mut plan| async move {
            let frame = match plan.next().await? {
                Cue::Send { name, data } => Ok(frame(name, &data)),
                Cue::Drop | Cue::Wait(_) => Err(std::io::Error::other(
                    "the scripted model broke the connection",
                )),
            };
            Some((frame, plan))
        })
    }

    /// Waits out pauses and returns the next cue that is none.
    async fn next(&mut self) -> Option<Cue> {
        loop {
            match self.cues.pop_front()? {
                Cue::Wait(pause) => sleep(pause).await,
                cue @ (Cue::Send { .. } | Cue::Drop) => return Some(cue),
            }
        }
    }
}

/// Writes one server-sent event. JSON written here has no line ends.
fn frame(name: &str, data: &str) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
