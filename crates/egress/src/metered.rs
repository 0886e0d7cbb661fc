//! Counts what passes: each request that started ends exactly once in the log.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt as _};
use outlast_kernel::{Asker, Kernel};
use outlast_model::{Error, Event, Events, Speed, Usage, event::Kind, facts::ModelFacts};
use outlast_protocol::id::EventId;
use outlast_session::body::{RequestEnded, Tokens};

use crate::metric_definitions as metrics;

/// A request that was started and whose end is not recorded yet.
#[derive(Debug)]
pub(crate) struct Meter {
    kernel: Kernel,
    asker: Asker,
    request: EventId,
    facts: ModelFacts,
    usage: Usage,
    done: bool,
}

impl Meter {
    pub(crate) fn new(kernel: Kernel, asker: Asker, request: EventId, facts: ModelFacts) -> Self {
        Self {
            kernel,
            asker,
            request,
            facts,
            usage: Usage::default(),
            done: false,
        }
    }

    /// Meters the events of the answer.
    pub(crate) fn over(self, events: Events) -> Events {
        Box::pin(Metered {
            meter: self,
            events,
        })
    }

    /// Records that nothing came of the request.
    pub(crate) fn failed(mut self) {
        self.end(true);
    }

    /// Records what came of the request.
    pub(crate) fn came_to(mut self, usage: &Usage, complete: bool) {
        self.usage = usage.clone();
        self.end(!complete);
    }

    fn count(&mut self, event: &Event) {
        match &event.kind {
            Kind::MessageStart { usage, .. } | Kind::MessageDelta { usage, .. } => {
                self.usage.update(usage);
            }
            // Recorded before the reader sees the end, so that it precedes the response.
            Kind::MessageStop => self.end(false),
            Kind::BlockStart { .. }
            | Kind::BlockDelta { .. }
            | Kind::BlockStop { .. }
            | Kind::Ping
            | Kind::Other { .. } => {}
        }
    }

    /// Records the end; submitted here, in the order of the log, and awaited by nobody.
    fn end(&mut self, failed: bool) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        let outcome = if failed { "failed" } else { "answered" };
        ::metrics::counter!(metrics::REQUESTS, "outcome" => outcome).increment(1);
        let tokens = tokens(&self.usage);
        for (kind, count) in [("input", tokens.input), ("output", tokens.output)] {
            ::metrics::counter!(metrics::TOKENS, "kind" => kind).increment(count);
        }
        let speed = self.usage.speed.map(|speed| match speed {
            Speed::Fast => "fast".to_owned(),
            Speed::Standard => "standard".to_owned(),
        });
        let cost = self.facts.cost(&self.usage);
        let ended = RequestEnded {
            request: self.request,
            tokens,
            cost,
            failed,
            speed,
        };
        drop(self.kernel.request_ended(self.asker, ended));
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.end(true);
    }
}

/// An answer whose usage is counted as it passes.
struct Metered {
    meter: Meter,
    events: Events,
}

impl Stream for Metered {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.events.poll_next_unpin(cx);
        match &next {
            Poll::Ready(Some(Ok(event))) => self.meter.count(event),
            Poll::Ready(Some(Err(_)) | None) => self.meter.end(true),
            Poll::Pending => {}
        }
        next
    }
}

fn tokens(usage: &Usage) -> Tokens {
    let cache_1h = usage.ephemeral_1h.min(usage.cache_creation_input_tokens);
    Tokens {
        input: usage.input_tokens,
        output: usage.output_tokens,
        cache_read: usage.cache_read_input_tokens,
        cache_5m: usage.cache_creation_input_tokens - cache_1h,
        cache_1h,
        searches: usage.web_search_requests,
    }
}
