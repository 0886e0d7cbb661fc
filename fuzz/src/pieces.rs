//! Bytes as they arrive: in pieces that nobody chose.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Cuts bytes in several ways: not at all, behind each one, and by chance.
pub(crate) fn cuts(data: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut ways = vec![vec![data], data.chunks(1).collect()];
    ways.extend([3, 11, 90].map(|most| by_chance(data, most)));
    ways
}

/// Cuts into pieces of at most so many bytes. Chance follows from the bytes, so that they are cut in the
/// same way whenever they are looked at.
fn by_chance(data: &[u8], most: usize) -> Vec<&[u8]> {
    let mut state = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    }) | 1;
    let (mut rest, mut pieces) = (data, Vec::new());
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let length = 1 + usize::try_from(state % most as u64).unwrap();
        let (piece, later) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = later;
    }
    pieces
}

/// A connection: pieces come, one for each time it is read, and what is written goes nowhere.
pub(crate) struct Wire {
    pieces: VecDeque<Vec<u8>>,
    read: Arc<AtomicUsize>,
}

impl Wire {
    /// Makes one, and a count of the bytes that were read of it.
    pub(crate) fn new(pieces: &[&[u8]]) -> (Self, Arc<AtomicUsize>) {
        let read = Arc::new(AtomicUsize::new(0));
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        let wire = Self {
            pieces,
            read: read.clone(),
        };
        (wire, read)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.pieces.pop_front() {
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            buf.put_slice(&piece);
            self.read.fetch_add(piece.len(), SeqCst);
            if !rest.is_empty() {
                self.pieces.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
