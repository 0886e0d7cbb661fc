//! Bytes on their way from one thread to another, in large pieces.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::FileExt as _,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};

/// Bytes of a piece.
pub(super) const PIECE: usize = 256 << 10;

/// Pieces that wait: so many bytes are held in memory at most.
const AHEAD: usize = 8;

/// A piece, or the end; without the end the stream is broken.
type Piece = Option<Vec<u8>>;

/// Makes a stream.
pub(super) fn stream() -> (Source, Sink) {
    let (sender, receiver) = sync_channel(AHEAD);
    let source = Source {
        sender,
        piece: Vec::with_capacity(PIECE),
    };
    let sink = Sink {
        receiver,
        piece: Vec::new(),
        at: 0,
        ended: false,
    };
    (source, sink)
}

/// Says that the other end has given up; what made it do so is the error to tell.
fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the other thread has given up")
}

/// Of two threads' errors returns the one that made the other give up.
pub(super) fn cause(one: io::Error, other: io::Error) -> io::Error {
    if one.kind() == io::ErrorKind::BrokenPipe {
        other
    } else {
        one
    }
}

/// Where bytes go in.
#[derive(Debug)]
pub(super) struct Source {
    sender: SyncSender<Piece>,
    piece: Vec<u8>,
}

impl Source {
    /// Ends the stream. One that is dropped before is broken.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.flush()?;
        self.sender.send(None).map_err(|_| broken())
    }
}

impl Write for Source {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE - self.piece.len();
        let part = bytes.get(..room).unwrap_or(bytes);
        self.piece.extend_from_slice(part);
        if self.piece.len() == PIECE {
            self.flush()?;
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        // Fails if nobody reads any more.
        self.sender.send(Some(piece)).map_err(|_| broken())
    }
}

/// Where bytes come out.
#[derive(Debug)]
pub(super) struct Sink {
    receiver: Receiver<Piece>,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Read for Sink {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            if self.ended {
                return Ok(0);
            }
            match self.receiver.recv().map_err(|_| broken())? {
                Some(piece) => (self.piece, self.at) = (piece, 0),
                None => self.ended = true,
            }
        }
        let left = self.piece.get(self.at..).unwrap_or_default();
        let length = left.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), left.get(..length)) {
            to.copy_from_slice(from);
        }
        self.at += length;
        Ok(length)
    }
}

/// How far a file is written that another thread reads behind the writer.
#[derive(Debug, Default)]
pub(super) struct Progress {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    written: u64,
    end: Option<End>,
}

/// How the writing ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Whole,
    Broken,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.moved.notify_all();
    }

    /// Waits until there is more than `at`; returns how much, which is nothing at the end.
    fn beyond(&self, at: u64) -> io::Result<u64> {
        let mut state = self.lock();
        loop {
            match state.end {
                Some(End::Broken) => return Err(broken()),
                _ if state.written > at => return Ok(state.written - at),
                Some(End::Whole) => return Ok(0),
                None => {}
            }
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Writes a file and tells how far it is; dropped before its end it says so too.
#[derive(Debug)]
pub(super) struct Told<'a> {
    pub(super) file: &'a File,
    pub(super) progress: &'a Progress,
}

impl Told<'_> {
    /// Says that all is written.
    pub(super) fn end(self) {
        self.progress.set(|state| state.end = Some(End::Whole));
    }
}

impl Write for Told<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.file.write(bytes)?;
        self.progress.set(|state| state.written += length as u64);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.progress.set(|state| {
            state.end.get_or_insert(End::Broken);
        });
    }
}

/// Reads a file behind its writer, to the end.
#[derive(Debug)]
pub(super) struct Behind<'a> {
    pub(super) file: &'a File,
    pub(super) progress: &'a Progress,
    pub(super) at: u64,
}

impl Read for Behind<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let there = self.progress.beyond(self.at)?;
        let there = usize::try_from(there).unwrap_or(usize::MAX);
        let length = buffer.len().min(there);
        let part = buffer.get_mut(..length).unwrap_or_default();
        let length = self.file.read_at(part, self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, thread};

    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let (mut source, mut sink) = stream();
        let come = thread::scope(|scope| {
            let come = scope.spawn(move || {
                let mut come = Vec::new();
                sink.read_to_end(&mut come).map(|_| come)
            });
            for part in sent.chunks(70_001) {
                source.write_all(part).unwrap();
            }
            source.end().unwrap();
            come.join().unwrap().unwrap()
        });
        assert!(come == sent);
    }

    #[test]
    fn whoever_gives_up_breaks_the_stream() {
        let (source, mut sink) = stream();
        drop(source);
        let broken = sink.read(&mut [0]).unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
        let (mut source, sink) = stream();
        drop(sink);
        assert!(source.write_all(&vec![0; PIECE]).is_err());
        let other = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(cause(broken, other).kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_file_is_read_behind_its_writer() {
        let file = tempfile::tempfile().unwrap();
        let progress = Progress::default();
        let behind = |at| Behind {
            file: &file,
            progress: &progress,
            at,
        };
        let told = || Told {
            file: &file,
            progress: &progress,
        };
        let come = thread::scope(|scope| {
            let come = scope.spawn(|| {
                let mut come = Vec::new();
                behind(0).read_to_end(&mut come).map(|_| come)
            });
            let mut told = told();
            for part in [&b"one "[..], b"two ", b"three"] {
                told.write_all(part).unwrap();
            }
            told.end();
            come.join().unwrap().unwrap()
        });
        assert_eq!(come, b"one two three");
        assert_eq!(behind(13).read(&mut [0; 4]).unwrap(), 0);

        let progress = Progress::default();
        drop(Told {
            file: &file,
            progress: &progress,
        });
        let mut behind = Behind {
            file: &file,
            progress: &progress,
            at: 0,
        };
        assert!(behind.read(&mut [0]).is_err());
    }
}
