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
    io::{self, Read, Seek as _, Write},
    os::fd::{AsFd as _, BorrowedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use outlast_sandbox::Ids;

use crate::files::Sum;

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
/// # Errors
///
/// What the disk says, and if what was read back is not what was packed.
pub(super) fn pack(at: &Path, file: &mut File, ids: &Ids, stop: &Stop) -> io::Result<Sum> {
    let root = pack::open_root(at)?;
    let there = pack::count(root.as_fd(), stop)?;
    let sum = write(root.as_fd(), file, ids, stop)?;
    file.rewind()?;
    let found = verify(&mut *file, stop)?;
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

/// Writes the pack.
fn write(root: BorrowedFd<'_>, file: &mut File, ids: &Ids, stop: &Stop) -> io::Result<Sum> {
    let mut encoder = zstd::Encoder::new(Counted::new(&mut *file), LEVEL)?;
    let entries = pack::pack(root, &mut encoder, ids, stop)?;
    Ok(encoder.finish()?.sum(entries))
}

/// Reads a whole pack and says what it comes to.
fn verify(pack: impl Read, stop: &Stop) -> io::Result<Sum> {
    let mut counted = Counted::new(pack);
    let mut entries = 0;
    let mut decoder = zstd::Decoder::new(&mut counted)?;
    read::each(&mut decoder, |_, data| {
        stop.check()?;
        entries += 1;
        io::copy(data, &mut io::sink()).map(drop)
    })?;
    drop(decoder);
    io::copy(&mut counted, &mut io::sink())?;
    Ok(counted.sum(entries))
}

/// Unpacks into the empty folder `at`; all of it comes to `sum`, or it fails. Blocks.
///
/// What a failure leaves at `at` is of no use.
pub(super) fn unpack(pack: impl Read, sum: &Sum, at: &Path, ids: &Ids) -> io::Result<()> {
    // One byte more than there should be is enough to see that it is too long.
    let mut counted = Counted::new(pack.take(sum.bytes.saturating_add(1)));
    let mut decoder = zstd::Decoder::new(&mut counted)?;
    let entries = unpack::unpack(&mut decoder, at, ids, sum.entries)?;
    drop(decoder);
    io::copy(&mut counted, &mut io::sink())?;
    let found = counted.sum(entries);
    if found == *sum {
        return Ok(());
    }
    let words = format!("the pack is not the one that was made: {found:?} instead of {sum:?}");
    Err(io::Error::new(io::ErrorKind::InvalidData, words))
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
