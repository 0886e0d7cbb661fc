//! Descriptors that never block.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::OFlags,
    io::{Errno, retry_on_intr},
    pipe::{PipeFlags, pipe_with},
};

/// A pipe that children do not inherit by accident: read end, write end.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// Makes reads and writes on a descriptor return at once.
pub(super) fn make_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
    Ok(())
}

/// Why a read stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReadEnd {
    /// There is nothing more at present.
    Blocked,
    /// There will never be more.
    Closed,
    /// As much as asked for was read, or one buffer full.
    Limit,
}

/// Reads what is there, at most `limit` bytes or 64 buffers, so that no writer can hold the loop.
pub(super) fn read_some(
    fd: impl AsFd,
    limit: usize,
    mut take: impl FnMut(&[u8]),
) -> io::Result<ReadEnd> {
    let mut buffer = [0; 32 * 1024];
    let mut left = limit;
    for _ in 0..64 {
        let room = left.min(buffer.len());
        let Some(space) = buffer.get_mut(..room).filter(|space| !space.is_empty()) else {
            return Ok(ReadEnd::Limit);
        };
        match retry_on_intr(|| rustix::io::read(&fd, &mut *space)) {
            Ok(0) => return Ok(ReadEnd::Closed),
            Ok(length) => {
                take(space.get(..length).unwrap_or_default());
                left -= length;
            }
            Err(Errno::AGAIN) => return Ok(ReadEnd::Blocked),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ReadEnd::Limit)
}

/// Bytes on their way into a descriptor.
#[derive(Debug)]
pub(super) struct Outbox {
    fd: OwnedFd,
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Takes a descriptor that does not block.
    pub(super) const fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            bytes: Vec::new(),
            sent: 0,
        }
    }

    /// Returns whether everything is written.
    pub(super) const fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Returns the descriptor.
    pub(super) const fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Adds bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes what can be written now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match retry_on_intr(|| rustix::io::write(&self.fd, rest)) {
                Ok(length) => self.sent += length,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        // A large frame must not keep its memory.
        self.bytes = Vec::new();
        self.sent = 0;
        Ok(())
    }
}
