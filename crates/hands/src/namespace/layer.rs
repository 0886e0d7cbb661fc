//! The writable layer of a sandbox as one stream of bytes, and back.
//!
//! The stream is a tar archive in the POSIX form behind zstd, which the usual tools read. Owners are
//! those that the sandbox sees, so that a pack fits any host. What the overlay notes about a folder
//! or a file that was removed from below goes with it; what it notes for one mount alone does not.
//! Sockets are left out: whoever listened on them is gone. Of extended attributes `user.*` and POSIX
//! access control lists go with it, the ids in lists as the sandbox sees them.

mod acl;
mod attributes;
mod entry;
mod flow;
mod header;
mod pack;
mod pax;
mod read;
mod sparse;
#[cfg(test)]
mod tests;
mod unpack;

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek as _, Write},
    os::fd::{AsFd as _, BorrowedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ScopedJoinHandle},
};

use outlast_sandbox::Ids;

use crate::files::Sum;
use flow::{Behind, Progress, Source, Told};

/// How hard zstd tries: nothing inside runs meanwhile, so speed counts.
const LEVEL: i32 = 1;

/// Folders in folders that a pack may have: each level is an open descriptor.
const DEEPEST: usize = 512;

/// Tells a pack in the making that nobody wants it any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks it to end.
    pub(super) fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody waits for it any more"));
        }
        Ok(())
    }
}

/// Packs the layer at `at` into `file`, reads it back, and leaves the file at its beginning. Blocks.
///
/// Three threads: one reads the layer, one compresses and writes, and one reads back what is written
/// and says what it comes to, close behind the writer. What they hold in memory is bounded.
///
/// # Errors
///
/// What the disk says, and if what was read back is not what was packed.
pub(super) fn pack(at: &Path, file: &mut File, ids: &Ids, stop: &Stop) -> io::Result<Sum> {
    let root = pack::open_root(at)?;
    let there = pack::count(root.as_fd(), stop)?;
    let (sum, found) = write_and_verify(root.as_fd(), file, ids, stop)?;
    if found != sum || sum.entries != there {
        let words = format!(
            "what was packed is not what was there: {there} entries, {} packed, {} read back",
            sum.entries, found.entries
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    file.rewind()?;
    Ok(sum)
}

/// Writes the pack and reads it back; returns what either comes to.
fn write_and_verify(
    root: BorrowedFd<'_>,
    file: &File,
    ids: &Ids,
    stop: &Stop,
) -> io::Result<(Sum, Sum)> {
    let progress = &Progress::default();
    let (source, sink) = flow::stream();
    thread::scope(|scope| {
        let written = scope.spawn(move || compress(sink, Told { file, progress }));
        let behind = Behind {
            file,
            progress,
            at: 0,
        };
        let verified = scope.spawn(move || verify(behind, stop));
        let entries = pack::pack(root, source, ids, stop);
        let (entries, written) = both(entries, joined(written))?;
        let found = joined(verified)?;
        Ok((written.sum(entries), found))
    })
}

/// Compresses what comes, and counts and hashes what comes of it.
fn compress<'a>(mut tar: impl Read, told: Told<'a>) -> io::Result<Counted<()>> {
    let mut encoder = zstd::Encoder::new(Counted::new(told), LEVEL)?;
    let mut buffer = vec![0; flow::PIECE];
    loop {
        let length = tar.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        encoder.write_all(buffer.get(..length).unwrap_or_default())?;
    }
    let Counted {
        inner,
        bytes,
        hasher,
    } = encoder.finish()?;
    inner.end();
    Ok(Counted {
        inner: (),
        bytes,
        hasher,
    })
}

/// Waits for a thread.
fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let ended = || io::Error::other("a thread of the pack has ended");
    thread.join().unwrap_or_else(|_| Err(ended()))
}

/// Returns what two threads came to, or why the first of them gave up.
fn both<A, B>(one: io::Result<A>, other: io::Result<B>) -> io::Result<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) => Err(flow::cause(one, other)),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

/// Reads a whole pack and says what it comes to.
fn verify(pack: impl Read, stop: &Stop) -> io::Result<Sum> {
    let mut counted = Counted::new(pack);
    let mut entries = 0;
    let mut buffer = vec![0; flow::PIECE];
    let decoder = zstd::Decoder::new(&mut counted)?;
    read::each(BufReader::with_capacity(flow::PIECE, decoder), |_, data| {
        entries += 1;
        while data.read(&mut buffer)? > 0 {
            stop.check()?;
        }
        Ok(())
    })?;
    io::copy(&mut counted, &mut io::sink())?;
    Ok(counted.sum(entries))
}

/// Unpacks into the empty folder `at`; all of it comes to `sum`, or it fails. Blocks.
///
/// One thread hashes and decompresses, another one makes the files. What a failure leaves at `at` is
/// of no use.
///
/// # Errors
///
/// What the reader says if it fails, else [`io::ErrorKind::InvalidData`] if it gave something else than
/// was packed, whatever that led to, else what the disk says.
pub(super) fn unpack(pack: impl Read, sum: &Sum, at: &Path, ids: &Ids) -> io::Result<()> {
    let (source, sink) = flow::stream();
    let (unpacked, fed) = thread::scope(|scope| {
        let unpacked = scope.spawn(move || {
            let archive = BufReader::with_capacity(flow::PIECE, sink);
            unpack::unpack(archive, at, ids, sum.entries)
        });
        // One byte more than there should be is enough to see that it is too long.
        let fed = feed(pack.take(sum.bytes.saturating_add(1)), source);
        (joined(unpacked), fed)
    });
    let (counted, decoded) = fed?;
    let found = counted.sum(sum.entries);
    if found == *sum {
        let (entries, ()) = both(unpacked, decoded)?;
        if entries == sum.entries {
            return Ok(());
        }
    }
    let words = format!("the pack is not the one that was made: {found:?} instead of {sum:?}");
    Err(io::Error::new(io::ErrorKind::InvalidData, words))
}

/// Decompresses a pack for another thread; returns what came in, to the last byte, and what came of it.
fn feed<R: Read>(pack: R, source: Source) -> io::Result<(Counted<Watched<R>>, io::Result<()>)> {
    let mut counted = Counted::new(Watched { pack, failed: None });
    let decoded = decompress(&mut counted, source);
    if let Some(error) = counted.inner.failed.take() {
        return Err(error);
    }
    // The rest of it says whether it is what it should be.
    io::copy(&mut counted, &mut io::sink())?;
    Ok((counted, decoded))
}

fn decompress(pack: impl Read, mut source: Source) -> io::Result<()> {
    let mut decoder = zstd::Decoder::new(pack)?;
    let mut buffer = vec![0; flow::PIECE];
    loop {
        let length = decoder.read(&mut buffer)?;
        let part = buffer.get(..length).unwrap_or_default();
        // Whoever unpacks has seen the end of the archive, or knows better what is wrong with it.
        if length == 0 || source.write_all(part).is_err() {
            break;
        }
    }
    // It may have gone after the archive's end, which is not the stream's.
    drop(source.end());
    Ok(())
}

/// Tells a reader that failed from one that gave what cannot be decompressed.
struct Watched<R> {
    pack: R,
    failed: Option<io::Error>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.pack.read(buffer);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failed = Some(io::Error::new(error.kind(), error.to_string()));
        }
        read
    }
}

/// Counts and hashes what passes.
struct Counted<T> {
    inner: T,
    bytes: u64,
    hasher: blake3::Hasher,
}

impl<T> Counted<T> {
    fn new(inner: T) -> Self {
        Self {
            inner,
            bytes: 0,
            hasher: blake3::Hasher::new(),
        }
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
    }

    fn sum(&self, entries: u64) -> Sum {
        Sum {
            entries,
            bytes: self.bytes,
            digest: self.hasher.finalize().to_hex().to_string(),
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.pass(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(buffer)?;
        self.pass(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Says that a pack is broken.
fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a broken pack: {what}"))
}
