//! The journal of an incarnation: which calls it had, and what they came to.
//!
//! One line of JSON per fact, appended. The first line names the boot of the machine that the rest
//! was written in. A result is synced before anybody gets it, that a call began is not: it survives
//! the death of the process, not that of the machine, and so another boot's journal never says that
//! a call was not started. Results are kept here and not in memory. Whoever has the sandbox has the
//! file locked.

use std::{
    borrow::Cow,
    collections::HashMap,
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead as _, BufReader},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use outlast_protocol::{CallResult, id::EventId};
use serde::{Deserialize, Serialize};

use super::Folder;
use crate::Recalled;

/// One line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    /// What follows was written in this boot of the machine.
    Boot(Cow<'a, str>),
    /// A call is about to be handed over.
    Begun(EventId),
    /// A call is over.
    Settled(EventId, Cow<'a, CallResult>),
}

/// Where a result is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct At {
    offset: u64,
    length: usize,
}

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: Arc<File>,
    end: u64,
    /// The folders whose entries lead to it, until they are synced too.
    folders: Vec<PathBuf>,
}

/// What is to be synced before results are given out.
#[derive(Debug)]
pub(super) struct Unsynced {
    file: Arc<File>,
    folders: Vec<PathBuf>,
}

impl Unsynced {
    /// Waits for the disk. Blocks.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        for folder in &self.folders {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Journal {
    /// Begins the journal of an incarnation and locks it; there must be none yet.
    pub(super) fn create(folder: &Folder, boot: &str) -> io::Result<Self> {
        let path = folder.journal();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        // Where files cannot be locked, two hosts at once are not told apart.
        drop(file.lock());
        let above = path.ancestors().skip(1).take(2);
        let mut journal = Self {
            file: Arc::new(file),
            end: 0,
            folders: above.map(Path::to_owned).collect(),
        };
        journal.append(&Line::Boot(Cow::Borrowed(boot)))?;
        Ok(journal)
    }

    /// Tells whether a crash of the machine may still take the file itself away.
    pub(super) const fn is_new(&self) -> bool {
        !self.folders.is_empty()
    }

    /// Lets others have it: the sandbox is gone, and nothing of it is written any more but results.
    pub(super) fn release(&self) {
        // Fails only where it was not locked.
        drop(self.file.unlock());
    }

    /// Returns what is to be synced before results are given out that were noted by now.
    pub(super) fn unsynced(&mut self) -> Unsynced {
        Unsynced {
            file: Arc::clone(&self.file),
            folders: std::mem::take(&mut self.folders),
        }
    }

    /// Notes that a call is about to be handed over.
    pub(super) fn begun(&mut self, call: EventId) -> io::Result<()> {
        self.append(&Line::Begun(call)).map(drop)
    }

    /// Notes what a call came to; returns where to find it.
    pub(super) fn settled(&mut self, call: EventId, result: &CallResult) -> io::Result<At> {
        self.append(&Line::Settled(call, Cow::Borrowed(result)))
    }

    /// Reads a result back.
    pub(super) fn read(&self, at: At) -> io::Result<CallResult> {
        let mut bytes = vec![0; at.length];
        self.file.read_exact_at(&mut bytes, at.offset)?;
        match serde_json::from_slice(&bytes)? {
            Line::Settled(_, result) => Ok(result.into_owned()),
            Line::Begun(_) | Line::Boot(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Appends a line. One that could not be written whole is written over by the next.
    fn append(&mut self, line: &Line<'_>) -> io::Result<At> {
        let mut bytes = serde_json::to_vec(line)?;
        let at = At {
            offset: self.end,
            length: bytes.len(),
        };
        bytes.push(b'\n');
        self.file.write_all_at(&bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(at)
    }
}

/// Tells whether another process has the sandbox of a journal. Blocks.
pub(super) fn is_held(folder: &Folder) -> bool {
    let Ok(file) = File::open(folder.journal()) else {
        return false;
    };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Says what became of a call of an incarnation that this process does not have. Blocks.
pub(super) fn recall(folder: &Folder, boot: &str, call: EventId) -> Recalled {
    let Ok(file) = File::open(folder.journal()) else {
        return Recalled::Unknown;
    };
    let mut calls = HashMap::new();
    let mut same = false;
    // A line cut short by a crash is the last one, and says nothing; after the machine's death there
    // may be any in the middle.
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        match serde_json::from_slice(&line) {
            Ok(Line::Boot(id)) => same = id == boot && !boot.is_empty(),
            Ok(Line::Begun(id)) if id == call => {
                calls.entry(id).or_insert(Recalled::Begun);
            }
            Ok(Line::Settled(id, result)) if id == call => {
                calls.insert(id, Recalled::Settled(result.into_owned()));
            }
            Ok(Line::Begun(_) | Line::Settled(..)) | Err(_) => {}
        }
    }
    let silent = if same {
        Recalled::NotStarted
    } else {
        // Its newest lines may be lost with the machine's memory.
        Recalled::Unknown
    };
    calls.remove(&call).unwrap_or(silent)
}

#[cfg(test)]
mod tests;
