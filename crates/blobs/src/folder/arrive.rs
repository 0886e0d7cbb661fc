//! A blob on its way from a reader to its file.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    thread::{self, ScopedJoinHandle},
};

use tokio::{io::AsyncReadExt as _, sync::mpsc, task::spawn_blocking};

use crate::Reader;

/// Bytes that are handed on at once.
const CHUNK: usize = 1 << 20;

/// Chunks that wait for the disk: with the one that is filled and the one that is written, all that a
/// blob holds of memory.
const AHEAD: usize = 2;

/// Bytes after which the disk is set to work while more comes.
const EARLY: usize = 32 << 20;

/// Bytes that may wait for a disk that is slower than the reader.
const MOST: usize = 128 << 20;

/// Writes what a reader gives to a new file, durably; returns how many bytes that were.
///
/// The disk works while the rest is still coming, so that the sync at the end is a short one, however
/// long the blob is.
pub(super) async fn stream(path: &Path, mut content: Reader) -> io::Result<u64> {
    let path = path.to_owned();
    let (chunks, coming) = mpsc::channel(AHEAD);
    let writing = spawn_blocking(move || write(&path, coming));
    let read = feed(&mut content, chunks).await;
    // What the disk says explains why nobody takes chunks any more.
    let written = writing.await.map_err(io::Error::other)??;
    read?;
    written.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A part of a blob.
struct Chunk {
    bytes: Vec<u8>,
    is_last: bool,
}

/// Hands on what a reader gives.
async fn feed(content: &mut Reader, chunks: mpsc::Sender<Chunk>) -> io::Result<()> {
    loop {
        let mut bytes = Vec::with_capacity(CHUNK);
        let mut is_last = false;
        while bytes.len() < CHUNK && !is_last {
            is_last = content.read_buf(&mut bytes).await? == 0;
        }
        // An error means that the disk has failed, which is told by whoever writes.
        if chunks.send(Chunk { bytes, is_last }).await.is_err() || is_last {
            return Ok(());
        }
    }
}

/// Writes chunks as they come, and syncs if the last one came: `None` without it. Blocks.
fn write(path: &Path, mut coming: mpsc::Receiver<Chunk>) -> io::Result<Option<u64>> {
    let mut options = OpenOptions::new();
    let file = &options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    thread::scope(|scope| {
        let mut syncing: Option<ScopedJoinHandle<'_, io::Result<()>>> = None;
        let (mut length, mut dirty) = (0, 0);
        loop {
            let Some(Chunk { bytes, is_last }) = coming.blocking_recv() else {
                return Ok(None);
            };
            (&mut &*file).write_all(&bytes)?;
            length += bytes.len() as u64;
            dirty += bytes.len();
            if is_last {
                break;
            }
            let at_rest = syncing.as_ref().is_none_or(ScopedJoinHandle::is_finished);
            if dirty >= MOST || (dirty >= EARLY && at_rest) {
                syncing.take().map_or(Ok(()), joined)?;
                syncing = Some(scope.spawn(|| file.sync_data()));
                dirty = 0;
            }
        }
        // A fault of the disk is told once, to whoever syncs next: none of the answers is left out.
        syncing.map_or(Ok(()), joined)?;
        file.sync_all()?;
        Ok(Some(length))
    })
}

fn joined(syncing: ScopedJoinHandle<'_, io::Result<()>>) -> io::Result<()> {
    let ended = || Err(io::Error::other("a sync ended early"));
    syncing.join().unwrap_or_else(|_| ended())
}
