//! A blob on its way from a reader to its file.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    mem,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::{io::AsyncReadExt as _, task::spawn_blocking};

use crate::Reader;

/// Bytes that are written at once. One piece is filled while one is written: all that a blob holds
/// of memory.
const PIECE: usize = 1 << 20;

/// What direct writes have to begin at, in memory and in the file.
const ALIGNMENT: usize = 4096;

/// Writes what a reader gives to a new file, durably; returns how many bytes that were.
///
/// A thread is taken for each piece and not for the whole, because readers can be slow.
pub(super) async fn stream(path: &Path, mut content: Reader) -> io::Result<u64> {
    let path = path.to_owned();
    let mut writing = spawn_blocking(move || Writer::create(&path));
    let mut piece = Piece::new();
    let mut length = 0;
    loop {
        let is_last = piece.fill(&mut content).await?;
        length += piece.length as u64;
        let mut writer = writing.await.map_err(io::Error::other)??;
        mem::swap(&mut writer.piece, &mut piece);
        writing = spawn_blocking(move || writer.write(is_last));
        if is_last {
            writing.await.map_err(io::Error::other)??;
            return Ok(length);
        }
    }
}

/// A part of a blob.
struct Piece {
    bytes: Box<[u8]>,
    /// Where in `bytes` it begins, so that it is aligned.
    start: usize,
    length: usize,
}

impl Piece {
    fn new() -> Self {
        let bytes = vec![0; PIECE + ALIGNMENT].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self {
            bytes,
            start,
            length: 0,
        }
    }

    /// Takes what a reader gives until it is full; tells whether that was the last of it.
    async fn fill(&mut self, content: &mut Reader) -> io::Result<bool> {
        self.length = 0;
        while self.length < PIECE {
            let free = self.start + self.length..self.start + PIECE;
            let free = self.bytes.get_mut(free).unwrap_or_default();
            match content.read(free).await? {
                0 => return Ok(true),
                more => self.length += more,
            }
        }
        Ok(false)
    }

    fn filled(&self) -> &[u8] {
        let filled = self.start..self.start + self.length;
        self.bytes.get(filled).unwrap_or_default()
    }
}

/// A file that is written past the page cache, where its file system can do that.
///
/// Nobody reads it soon, the copy would take as long as the disk, and what waits for a slow disk would
/// be the memory of everybody else.
struct Writer {
    file: File,
    mode: Mode,
    piece: Piece,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Buffered,
    Direct,
    /// Buffered for good: the file system takes nothing else.
    Plain,
}

impl Writer {
    fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600);
        Ok(Self {
            file: file.open(path)?,
            mode: Mode::Buffered,
            piece: Piece::new(),
        })
    }

    /// Writes the piece, and syncs after the last one. Blocks.
    fn write(mut self, is_last: bool) -> io::Result<Self> {
        let wanted = if self.piece.length == PIECE {
            Mode::Direct
        } else {
            Mode::Buffered
        };
        self.turn(wanted)?;
        let mut written = 0;
        while let Some(rest @ [_, ..]) = self.piece.filled().get(written..) {
            match self.file.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                // Not this file system, or the rest of a write that was cut short.
                Err(fault) if fault.kind() == ErrorKind::InvalidInput && self.is_direct() => {
                    self.turn(Mode::Plain)?;
                }
                Err(fault) => return Err(fault),
            }
        }
        if is_last {
            self.file.sync_all()?;
        }
        Ok(self)
    }

    fn is_direct(&self) -> bool {
        self.mode == Mode::Direct
    }

    fn turn(&mut self, mode: Mode) -> io::Result<()> {
        if self.mode == mode || self.mode == Mode::Plain {
            return Ok(());
        }
        let mut flags = fcntl_getfl(&self.file)?;
        flags.set(OFlags::DIRECT, mode == Mode::Direct);
        self.mode = match fcntl_setfl(&self.file, flags) {
            Err(_) if mode == Mode::Direct => Mode::Plain,
            set => set.map(|()| mode)?,
        };
        Ok(())
    }
}
