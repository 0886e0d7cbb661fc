//! The log of a process that nobody watches: a file that does not grow for ever.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing_subscriber::fmt::MakeWriter;

/// The file is put aside at this size; the one before it goes then.
const LARGEST: u64 = 8 << 20;

/// A file of log lines, of which one older part is kept.
#[derive(Clone, Debug)]
pub(crate) struct Rotating(Arc<Mutex<Part>>);

#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
    size: u64,
    largest: u64,
}

impl Rotating {
    /// Goes on with the file, or begins it.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        Self::with(path, LARGEST)
    }

    fn with(path: PathBuf, largest: u64) -> io::Result<Self> {
        let file = append(&path)?;
        let size = file.metadata()?.len();
        let part = Part {
            path,
            file,
            size,
            largest,
        };
        Ok(Self(Arc::new(Mutex::new(part))))
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

impl Part {
    fn turn(&mut self) -> io::Result<()> {
        let mut aside = self.path.clone().into_os_string();
        aside.push(".1");
        fs::rename(&self.path, aside)?;
        self.file = append(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

/// One line on its way.
#[derive(Debug)]
pub(crate) struct Line<'a>(MutexGuard<'a, Part>);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.size >= self.0.largest {
            // If it cannot be put aside the log grows: better than none.
            drop(self.0.turn());
        }
        let written = self.0.file.write(bytes)?;
        self.0.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.file.flush()
    }
}

impl<'a> MakeWriter<'a> for Rotating {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_keeps_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for round in 0..3 {
            let log = Rotating::with(path.clone(), 1_000).unwrap();
            for number in 0..100 {
                writeln!(log.make_writer(), "line {round} {number}").unwrap();
            }
        }
        let sizes: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert!(sizes.len() == 2 && sizes.iter().all(|size| *size < 1_100));
        assert!(fs::read_to_string(&path).unwrap().ends_with("line 2 99\n"));
    }
}
