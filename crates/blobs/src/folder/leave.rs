//! A blob on its way from its file to whoever reads it.

use std::{
    fs::File,
    io::{self, Read as _},
};

use bytes::Bytes;
use futures::stream;
use rustix::fs::{Advice, fadvise};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::io::StreamReader;

use crate::Reader;

/// Bytes that are read at once. One piece is read while one is taken: all that a reader holds of
/// memory.
const PIECE: usize = 1 << 20;

/// Reads a file from where it stands, a piece ahead of whoever takes it.
///
/// A thread is taken for each piece and not for the whole, because takers can be slow.
pub(super) fn read(file: File) -> Reader {
    // Only advice: a file system that does not take it reads all the same.
    let _ = fadvise(&file, 0, None, Advice::Sequential);
    let pieces = stream::try_unfold(next(file), |ahead| async move {
        let (piece, file) = ahead.await.map_err(io::Error::other)??;
        io::Result::Ok((!piece.is_empty()).then(|| (piece, next(file))))
    });
    Box::pin(StreamReader::new(pieces))
}

fn next(file: File) -> JoinHandle<io::Result<(Bytes, File)>> {
    spawn_blocking(move || {
        let mut piece = Vec::with_capacity(PIECE);
        (&file).take(PIECE as u64).read_to_end(&mut piece)?;
        Ok((piece.into(), file))
    })
}
