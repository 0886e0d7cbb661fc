//! A connection that ends when its peer stops taking what is written to it.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream of bytes whose writes fail once none of them got on for a while.
///
/// Without it a peer that holds its end open and reads nothing keeps its connection, and what waits
/// for it, for ever.
#[derive(Debug)]
pub(super) struct Stalling<S> {
    stream: S,
    limit: Duration,
    /// Set while a write waits.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            until: None,
        }
    }

    /// Lets a write go on that got on, and fails one that has waited too long.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let limit = self.limit;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(until.as_mut().poll(context));
        let words = "the peer takes nothing of what is written to it";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, words)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_cut_off() {
        let (near, _far) = duplex(16);
        let mut near = Stalling::new(near, LIMIT);
        near.write_all(&[0; 16]).await.unwrap();
        let began = tokio::time::Instant::now();
        let error = near.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_is_waited_for_and_silence_is_no_stall() {
        let (near, mut far) = duplex(16);
        let mut near = Stalling::new(near, LIMIT);
        let reads = async {
            let mut bytes = [0; 16];
            for _ in 0..8 {
                tokio::time::sleep(LIMIT / 2).await;
                far.read_exact(&mut bytes).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(near.write_all(&[0; 128]), reads);
        written.unwrap();
        tokio::time::sleep(LIMIT * 3).await;
        near.write_all(&[0; 8]).await.unwrap();
    }
}
