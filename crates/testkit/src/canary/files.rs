//! Files: each is read once, without its holes, and once more unpacked if it is packed.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use rustix::fs::SeekFrom;

use super::{Found, Search};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// A piece of nothing holds nothing; most of a disk is that.
static BLANK: [u8; PIECE] = [0; PIECE];

/// What packed files begin with.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Returns every file below a folder; links are not followed.
pub fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(kind) = fs::symlink_metadata(&path) else {
            continue;
        };
        if kind.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(entries.map(|entry| entry.path()));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

/// Returns every file below a folder but for those that are named, by their way from there.
pub fn under(dir: &Path, but: &[&str]) -> Vec<PathBuf> {
    let mut found = below(dir);
    found.retain(|path| !but.iter().any(|name| *path == dir.join(name)));
    found
}

impl Search {
    /// Tells what stands in some files, and in their names; what is gone by now holds nothing.
    pub fn files(&self, paths: &[PathBuf]) -> Vec<String> {
        let mut told = Vec::new();
        let mut piece = vec![0; PIECE];
        for path in paths {
            let mut found = Found::new();
            self.look(path.as_os_str().as_encoded_bytes(), &mut found);
            // A file that cannot be read is one that goes, or one that is broken on purpose.
            drop(self.file(path, &mut piece, &mut found));
            told.extend(self.told(&path.display().to_string(), &found));
        }
        told
    }

    /// Tells what stands in one file, which is called otherwise.
    pub fn file_as(&self, name: &str, path: &Path) -> Vec<String> {
        let mut found = Found::new();
        drop(self.file(path, &mut vec![0; PIECE], &mut found));
        self.told(name, &found)
    }

    fn file(&self, path: &Path, piece: &mut [u8], found: &mut Found) -> io::Result<()> {
        let file = File::open(path)?;
        let mut head = [0; 4];
        let read = file.read_at(&mut head, 0)?;
        self.data(&file, piece, found)?;
        rustix::fs::seek(&file, SeekFrom::Start(0))?;
        match head.get(..read) {
            Some(head) if head == ZSTD => self.stream(zstd::Decoder::new(file)?, found),
            Some(head) if head.starts_with(&GZIP) => self.stream(MultiGzDecoder::new(file), found),
            Some(_) | None => Ok(()),
        }
    }

    /// Looks through what a file has between its holes.
    fn data(&self, file: &File, piece: &mut [u8], found: &mut Found) -> io::Result<()> {
        let mut at = 0;
        // Behind the last data the system says so by an error.
        while let Ok(data) = rustix::fs::seek(file, SeekFrom::Data(at)) {
            let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?;
            at = data;
            while at < hole {
                let wanted = usize::try_from(hole - at).unwrap_or(PIECE).min(PIECE);
                let read = file.read_at(piece.get_mut(..wanted).unwrap_or_default(), at)?;
                let bytes = piece.get(..read).unwrap_or_default();
                if bytes != BLANK.get(..read).unwrap_or_default() {
                    self.look(bytes, found);
                }
                at += read as u64;
                // What was cut off meanwhile ends early.
                if read < wanted || at >= hole {
                    break;
                }
                // The next piece begins a little before, for what lies across the edge.
                at -= self.longest as u64;
            }
            at = at.max(hole);
        }
        Ok(())
    }

    /// Looks through what can be read once.
    fn stream(&self, from: impl Read, found: &mut Found) -> io::Result<()> {
        for hit in self.automaton.stream_find_iter(from) {
            found.insert(hit?.pattern().as_usize());
        }
        Ok(())
    }
}
