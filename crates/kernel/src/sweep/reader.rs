//! Bytes of a hand on their way into a file.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use outlast_blobs::Reader;
use outlast_scrub::Stream;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// A reader without the secrets of what it reads.
pub(super) struct Swept {
    inner: Reader,
    /// What is left of the stream; gone once its end was given.
    stream: Option<Stream>,
    /// What is sure, from `given` on.
    sure: Vec<u8>,
    given: usize,
    piece: Vec<u8>,
}

impl Swept {
    pub(super) fn new(stream: Stream, inner: Reader) -> Self {
        Self {
            inner,
            stream: Some(stream),
            sure: Vec::new(),
            given: 0,
            piece: vec![0; PIECE],
        }
    }

    /// Reads the next piece; what is sure by then may be nothing.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Ok(()));
        };
        let mut piece = ReadBuf::new(&mut self.piece);
        ready!(self.inner.as_mut().poll_read(context, &mut piece))?;
        self.given = 0;
        if piece.filled().is_empty() {
            self.sure = self.stream.take().map(Stream::finish).unwrap_or_default();
        } else {
            self.sure = stream.push(piece.filled());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Swept {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.given == self.sure.len() && self.stream.is_some() {
            ready!(self.poll_piece(context))?;
        }
        let rest = self.sure.get(self.given..).unwrap_or_default();
        let part = rest.len().min(buffer.remaining());
        buffer.put_slice(rest.get(..part).unwrap_or_default());
        self.given += part;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Secret;
    use outlast_scrub::Scrubber;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_without_secrets_wherever_it_is_cut() {
        let secret = Secret::from("a-secret-of-the-session");
        let scrubber = Scrubber::new([&secret]);
        for before in [0, 1, PIECE - 10, PIECE, 3 * PIECE - 1] {
            let text = format!(
                "{}a-secret-of-the-session{}",
                "x".repeat(before),
                "y".repeat(PIECE)
            );
            let inner: Reader = Box::pin(std::io::Cursor::new(text.clone().into_bytes()));
            let mut read = String::new();
            let mut swept = Swept::new(scrubber.stream(), inner);
            swept.read_to_string(&mut read).await.unwrap();
            assert_eq!(
                read,
                text.replace("a-secret-of-the-session", "[secret removed]")
            );
        }
    }
}
