//! A program kept in a sealed memory file.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Nobody changes it from here on. Nobody has it mapped to write to, so there are only writes to come to
/// forbid: to forbid those of before as well, the kernel would have to find each page at rest, and on a
/// busy machine that moves its pages about it gives up.
const SEALS: SealFlags = SealFlags::FUTURE_WRITE
    .union(SealFlags::GROW)
    .union(SealFlags::SHRINK)
    .union(SealFlags::SEAL);

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
        fcntl_add_seals(&file, SEALS)?;
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::FileExt as _};

    use rustix::fs::fcntl_get_seals;

    use super::*;

    #[test]
    fn nobody_can_change_it() {
        let image = Image::new("it", b"program").unwrap();
        let again = File::options()
            .read(true)
            .write(true)
            .open(image.path())
            .unwrap();
        assert!(again.write_all_at(b"x", 0).is_err());
        assert!(again.write_all_at(b"x", 7).is_err() && again.set_len(3).is_err());
        assert_eq!(fs::read(image.path()).unwrap(), b"program");
        // With this one the kernel may say that the file is busy.
        assert!(!fcntl_get_seals(&image).unwrap().contains(SealFlags::WRITE));
    }
}
