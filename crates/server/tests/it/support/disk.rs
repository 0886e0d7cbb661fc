//! A small disk of its own, which a test can fill.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A disk in memory; taken away again on drop.
#[derive(Debug)]
pub(crate) struct Disk {
    dir: TempDir,
}

impl Disk {
    /// Mounts one of so many megabytes.
    pub(crate) fn mount(megabytes: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "outlast-test", "-o"])
            .arg(format!("size={megabytes}m,mode=0700"))
            .arg(dir.path())
            .status();
        assert!(
            mounted.unwrap().success(),
            "this test needs root to mount a small disk"
        );
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Fills it to its last byte; what was freed since is filled too.
    pub(crate) fn fill(&self) {
        let options = fs::File::options().create(true).append(true).clone();
        let mut file = options.open(self.ballast()).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            match file.write(&vec![b'x'; size]) {
                Ok(written) if written > 0 => {}
                Ok(_) | Err(_) => size /= 2,
            }
        }
    }

    /// Frees all that it was filled with.
    pub(crate) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(gone.unwrap().success());
    }
}
