//! A program kept in a sealed memory file.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A program that can be executed and that nobody can change.
///
/// It lies in memory, so neither a `noexec` mount nor a writer of the data directory matters.
#[derive(Debug)]
pub struct Image {
    file: OwnedFd,
}

impl Image {
    /// Copies `program` into a sealed memory file; `name` is what `/proc/<pid>/exe` shows.
    pub fn new(name: &str, program: &[u8]) -> io::Result<Self> {
        let base = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Before Linux 6.3 the flag is unknown, and every memory file is executable.
        let fd =
            memfd_create(name, base | MemfdFlags::EXEC).or_else(|_| memfd_create(name, base))?;
        let mut file = File::from(fd);
        file.write_all(program)?;
        fcntl_add_seals(
            &file,
            SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
        )?;
        Ok(Self { file: file.into() })
    }

    /// Returns a path that executes it from this process or a fresh child of it.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

impl AsFd for Image {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
