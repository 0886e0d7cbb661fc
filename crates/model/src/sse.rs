//! From the bytes of an HTTP answer to events.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;

use crate::event::Kind;
use crate::{Error, Event, Failure};

/// How long the end of the body is waited for once the answer is complete.
///
/// Reading it to its end is what lets the connection serve the next request.
const DRAIN: Duration = Duration::from_millis(500);

/// Bounds on a streamed answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The longest silence.
    pub(crate) idle: Duration,
    /// The most bytes.
    pub(crate) bytes: u64,
}

/// A failure of the byte stream, in words that may be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The connection failed.
    #[error("{0}")]
    Connection(String),
    /// The answer is longer than the bound.
    #[error("the answer is longer than {0} bytes")]
    TooLong(u64),
}

/// Decodes a body into events.
///
/// Ends after `message_stop`, or after the first error. Data of `[DONE]`, which some servers send
/// last, and blocks without data are passed over.
pub(crate) fn events<S>(body: S, bounds: Bounds) -> impl Stream<Item = Result<Event, Error>> + Send
where
    S: Stream<Item = Result<Bytes, Broken>> + Send + 'static,
{
    let mut left = bounds.bytes;
    let counted = body.and_then(move |chunk| {
        let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let fits = length <= left;
        left = left.saturating_sub(length);
        futures::future::ready(if fits {
            Ok(chunk)
        } else {
            Err(Broken::TooLong(bounds.bytes))
        })
    });
    let reader = Reader {
        blocks: SseByteStream::new(counted).boxed(),
        idle: bounds.idle,
        state: State::Open,
    };
    stream::unfold(reader, |mut reader| async move {
        let item = reader.next().await?;
        Some((item, reader))
    })
    .fuse()
}

struct Reader {
    blocks: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    idle: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Open,
    Complete,
    Over,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Event, Error>> {
        match self.state {
            State::Open => {}
            State::Complete => {
                // Best effort: a server that keeps the body open only costs its connection.
                let rest = async { while let Some(Ok(_)) = self.blocks.next().await {} };
                drop(timeout(DRAIN, rest).await);
                self.state = State::Over;
                return None;
            }
            State::Over => return None,
        }
        let item = self.read().await;
        self.state = match &item {
            Ok(event) if matches!(event.kind, Kind::MessageStop) => State::Complete,
            Ok(_) => State::Open,
            Err(_) => State::Over,
        };
        Some(item)
    }

    async fn read(&mut self) -> Result<Event, Error> {
        loop {
            let Ok(block) = timeout(self.idle, self.blocks.next()).await else {
                let seconds = self.idle.as_secs_f32();
                return Err(Error::failed(format!(
                    "the model's provider was silent for {seconds} s in the middle of its answer"
                )));
            };
            match block {
                Some(Ok(Sse {
                    event,
                    data: Some(data),
                    ..
                })) if has_event(&data) => {
                    // Some gateways name the event and leave the type out of its data.
                    return match event.as_deref() {
                        Some("error") => Err(Failure::from_body(&data).classify()),
                        Some(_) | None => Event::parse(&data),
                    };
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    return Err(Error::failed(format!(
                        "the model's answer broke off: {error}"
                    )));
                }
                None => {
                    return Err(Error::failed(
                        "the model's answer ended before message_stop",
                    ));
                }
            }
        }
    }
}

/// Tells whether data is more than filler.
fn has_event(data: &str) -> bool {
    let data = data.trim();
    !data.is_empty() && data != "[DONE]"
}

#[cfg(test)]
mod tests;
