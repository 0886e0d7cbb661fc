//! Stopping everything in a group at one moment, and letting it go on.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::PathBuf,
};

use super::pause;

/// Looks at a group that stops, two milliseconds apart, before giving up.
const LOOKS: usize = 5_000;

/// How a group is stopped.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Freezer {
    /// Version 1: a folder of the freezer hierarchy.
    V1(PathBuf),
    /// Version 2: any group can.
    V2(PathBuf),
}

impl Freezer {
    /// Stops everything and returns when it has. Blocks; lets everything go on if it fails.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        let (file, word) = match self {
            Self::V1(folder) => (folder.join("freezer.state"), "FROZEN"),
            Self::V2(folder) => (folder.join("cgroup.freeze"), "1"),
        };
        fs::write(file, word)?;
        for _ in 0..LOOKS {
            if self.is_frozen()? {
                return Ok(());
            }
            pause();
        }
        self.thaw()?;
        let words = "a process in it did not stop: it waits for a device or a network file system";
        Err(io::Error::new(io::ErrorKind::TimedOut, words))
    }

    /// Tells whether everything stands still now.
    pub(crate) fn is_frozen(&self) -> io::Result<bool> {
        match self {
            // Reading it makes the kernel look.
            Self::V1(folder) => {
                let state = fs::read_to_string(folder.join("freezer.state"))?;
                Ok(state.trim() == "FROZEN")
            }
            Self::V2(folder) => {
                let events = fs::read_to_string(folder.join("cgroup.events"))?;
                Ok(events.lines().any(|line| line == "frozen 1"))
            }
        }
    }

    /// Lets everything go on; harmless if it does, or if the group cannot stand still or is gone.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        let (file, word) = match self {
            Self::V1(folder) => (folder.join("freezer.state"), "THAWED"),
            Self::V2(folder) => (folder.join("cgroup.freeze"), "0"),
        };
        // A control file is never made by writing it.
        match OpenOptions::new().write(true).open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened?.write_all(word.as_bytes()),
        }
    }
}
