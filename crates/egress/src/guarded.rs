//! Ends an answer whose brain may have been replaced elsewhere.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream::BoxStream};
use outlast_kernel::{Asker, Kernel, LeaseError};

/// An answer that is handed on while its brain may have a request made.
pub(crate) struct Guarded<T, E> {
    kernel: Kernel,
    asker: Asker,
    /// Wakes whoever waits for an item that may not come.
    stop: BoxFuture<'static, LeaseError>,
    /// Gone once it was stopped.
    items: Option<BoxStream<'static, Result<T, E>>>,
    refused: fn(LeaseError) -> E,
}

impl<T, E> Guarded<T, E> {
    pub(crate) fn new(
        kernel: Kernel,
        asker: Asker,
        items: BoxStream<'static, Result<T, E>>,
        refused: fn(LeaseError) -> E,
    ) -> Self {
        let own = kernel.clone();
        Self {
            kernel,
            asker,
            stop: Box::pin(async move { own.stops(asker).await }),
            items: Some(items),
            refused,
        }
    }
}

impl<T, E> Stream for Guarded<T, E> {
    type Item = Result<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(items) = &mut self.items else {
            return Poll::Ready(None);
        };
        let next = items.poll_next_unpin(cx);
        // At each item too: after a stop of the process no timer may have come yet.
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
                self.items = None;
                Poll::Ready(Some(Err((self.refused)(error))))
            }
        }
    }
}
