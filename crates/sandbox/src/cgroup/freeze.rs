//! Stopping everything in a group at one moment, and letting it go on.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::PathBuf,
};

use super::pause;

/// Looks at a group that stops, two milliseconds apart, before giving up.
const LOOKS: usize = 5_000;

/// Looks after which a group of version 1 is let go and stopped from the beginning.
const ANEW: usize = 250;

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
        self.ask()?;
        for look in 1..=LOOKS {
            if self.is_frozen()? {
                return Ok(());
            }
            pause();
            if matches!(self, Self::V1(_)) {
                self.ask_again(look)?;
            }
        }
        self.thaw()?;
        let words = "a process in it did not stop: it waits for a device or a network file system";
        Err(io::Error::new(io::ErrorKind::TimedOut, words))
    }

    fn ask(&self) -> io::Result<()> {
        match self {
            Self::V1(folder) => fs::write(folder.join("freezer.state"), "FROZEN"),
            Self::V2(folder) => fs::write(folder.join("cgroup.freeze"), "1"),
        }
    }

    /// Version 1 tells each process once, and those that come to be meanwhile may not hear of it: all
    /// are told again. Processes that wait for each other go on for a moment.
    fn ask_again(&self, look: usize) -> io::Result<()> {
        if look.is_multiple_of(ANEW) {
            self.thaw()?;
        }
        self.ask()
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
