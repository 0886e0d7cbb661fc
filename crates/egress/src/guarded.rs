//! Ends an answer whose brain may have been replaced elsewhere.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture};
use outlast_kernel::{Asker, Kernel, LeaseError};
use outlast_model::{Error, Event, Events};

use crate::gateway::refused;

/// An answer that is handed on while its brain may have a request made.
pub(crate) struct Guarded {
    kernel: Kernel,
    asker: Asker,
    /// Wakes whoever waits for an event that may not come.
    stop: BoxFuture<'static, LeaseError>,
    /// Gone once it was stopped.
    events: Option<Events>,
}

impl Guarded {
    pub(crate) fn new(kernel: Kernel, asker: Asker, events: Events) -> Self {
        let own = kernel.clone();
        Self {
            kernel,
            asker,
            stop: Box::pin(async move { own.stops(asker).await }),
            events: Some(events),
        }
    }
}

impl Stream for Guarded {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(events) = &mut self.events else {
            return Poll::Ready(None);
        };
        let next = events.poll_next_unpin(cx);
        // At each event too: after a stop of the process no timer may have come yet.
        let stopped = match self.kernel.may_ask(self.asker) {
            Ok(()) => match self.stop.poll_unpin(cx) {
                Poll::Ready(error) => Some(error),
                Poll::Pending => None,
            },
            Err(error) => Some(error),
        };
        match stopped {
            None => next,
            Some(error) => {
                self.events = None;
                Poll::Ready(Some(Err(refused(error))))
            }
        }
    }
}
