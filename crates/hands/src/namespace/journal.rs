//! The journal of an incarnation: which calls it had, and what they came to.
//!
//! One line of JSON per fact, appended. It survives the death of the process, not that of the
//! machine: nothing is synced. Results are kept here and not in memory.

use std::{
    borrow::Cow,
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
};

use outlast_protocol::{CallResult, id::EventId};
use serde::{Deserialize, Serialize};

use super::Folder;
use crate::Recalled;

/// One line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
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
    file: File,
    end: u64,
}

impl Journal {
    /// Begins the journal of an incarnation; there must be none yet.
    pub(super) fn create(folder: &Folder) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.journal())?;
        Ok(Self { file, end: 0 })
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
            Line::Begun(_) => Err(io::ErrorKind::InvalidData.into()),
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
        self.file.flush()?;
        self.end += bytes.len() as u64;
        Ok(at)
    }
}

/// Says what became of a call of an incarnation that this process does not have.
pub(super) fn recall(folder: &Folder, call: EventId) -> Recalled {
    let Ok(file) = File::open(folder.journal()) else {
        return Recalled::Unknown;
    };
    let mut calls = HashMap::new();
    // A line cut short by a crash is the last one, and says nothing.
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        match serde_json::from_slice(&line) {
            Ok(Line::Begun(id)) if id == call => {
                calls.entry(id).or_insert(Recalled::Begun);
            }
            Ok(Line::Settled(id, result)) if id == call => {
                calls.insert(id, Recalled::Settled(result.into_owned()));
            }
            Ok(Line::Begun(_) | Line::Settled(..)) | Err(_) => {}
        }
    }
    calls.remove(&call).unwrap_or(Recalled::NotStarted)
}
