//! Images that the images of sandboxes are copied from.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
};

use super::{Disk, UPPER, WORK};
use crate::{
    Limits,
    mapping::{Ids, Owner},
};

/// Where system programs are, whatever the server's own path is.
const PATHS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Size of one inode in the image.
const INODE: u64 = 256;

/// Bytes of the image that are neither content nor inodes: tables, bitmaps and a little room.
const OVERHEAD: u64 = 1 << 20;

/// The smallest image that is made.
const LEAST: u64 = 4 << 20;

/// Where the first superblock has its state, and the bit that says that it was put away in order.
const STATE: (u64, u16) = (1024 + 0x3a, 1);

/// Where the first superblock says that its journal has to be read, and the bit.
const RECOVER: (u64, u16) = (1024 + 0x60, 4);

/// The modes of an image, and of one that lacks something that was written to it.
const SOUND: u32 = 0o600;
const SUSPECT: u32 = 0o700;

/// How often a file system is mended: some faults come to light once others are out of the way.
const REPAIRS: u32 = 3;

/// Makes and keeps a template for each size that was asked for.
#[derive(Debug)]
pub(crate) struct Templates {
    folder: PathBuf,
    program: PathBuf,
    /// One at a time makes one.
    making: Mutex<()>,
}

impl Templates {
    /// Finds the program that makes file systems; says what is missing.
    pub(crate) fn new(shared: &Path) -> Result<Self, String> {
        let program = find("mkfs.ext4").ok_or("mkfs.ext4 is not installed")?;
        if !Path::new("/dev/loop-control").exists() {
            return Err("there is no /dev/loop-control".to_owned());
        }
        Ok(Self {
            folder: shared.join("disks"),
            program,
            making: Mutex::new(()),
        })
    }

    /// Copies the template for these bounds to `image`, and makes it first if need be.
    pub(crate) fn copy(&self, image: &Path, limits: &Limits, ids: &Ids) -> io::Result<()> {
        let name = format!("{}-{}-{}", limits.disk_bytes, limits.inodes, ids.label());
        let template = self.folder.join(&name);
        if !template.exists() {
            let _one = self
                .making
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if !template.exists() {
                self.make(&template, limits, ids)?;
            }
        }
        let part = image.with_extension("part");
        copy_sparse(&template, &part)?;
        fs::rename(part, image)
    }

    /// Tells whether an image has these bounds.
    pub(crate) fn fits(&self, image: &Path, limits: &Limits) -> io::Result<bool> {
        Ok(fs::metadata(image)?.len() == size(limits))
    }

    /// Makes a template.
    fn make(&self, template: &Path, limits: &Limits, ids: &Ids) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let part = template.with_extension("part");
        let file = File::create(&part)?;
        file.set_permissions(fs::Permissions::from_mode(SOUND))?;
        file.set_len(size(limits))?;
        drop(file);
        self.format(&part, limits.inodes)?;
        let disk = Disk::open(&part)?;
        for (name, mode) in [("", 0o755), (UPPER, 0o755), (WORK, 0o700)] {
            let path = disk.path().join(name);
            fs::create_dir_all(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            ids.own(&path, Owner::Init)?;
        }
        // Not for the sandbox to see, and nothing is ever found in it.
        drop(fs::remove_dir(disk.path().join("lost+found")));
        drop(disk);
        // Waits until the kernel has let go of it: only then is the copy whole.
        let file = File::open(&part)?;
        super::lock(&file)?;
        file.sync_all()?;
        fs::rename(part, template)
    }

    /// Runs the program.
    fn format(&self, image: &Path, inodes: u64) -> io::Result<()> {
        let output = Command::new(&self.program)
            .env_clear()
            .args(["-q", "-F", "-m", "0", "-b", "4096", "-I"])
            .arg(INODE.to_string())
            .args(["-N", &inodes.to_string()])
            .args(["-O", "^has_journal,^resize_inode"])
            .args(["-E", "lazy_itable_init=1"])
            .arg(image)
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("mkfs.ext4: {}", words.trim())))
    }
}

/// Returns how long an image with these bounds is.
fn size(limits: &Limits) -> u64 {
    let tables = limits.inodes.saturating_mul(INODE);
    // A sixteenth of a percent is bitmaps and group tables.
    let rest = OVERHEAD + (limits.disk_bytes >> 10);
    let size = limits.disk_bytes.saturating_add(tables) + rest;
    size.max(LEAST).next_multiple_of(4096)
}

/// Finds a program of the system.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    PATHS
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

/// Copies only what is not a hole.
fn copy_sparse(from: &Path, to: &Path) -> io::Result<()> {
    let from = File::open(from)?;
    let size = from.metadata()?.len();
    let to = File::create(to)?;
    to.set_permissions(fs::Permissions::from_mode(SOUND))?;
    to.set_len(size)?;
    if rustix::fs::ioctl_ficlone(&to, &from).is_ok() {
        return Ok(());
    }
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(&from, rustix::fs::SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(&from, rustix::fs::SeekFrom::Hole(data)).unwrap_or(size);
        copy_range(&from, &to, data, hole)?;
        at = hole;
        if at >= size {
            break;
        }
    }
    Ok(())
}

/// Copies bytes `from..to` of a file to the same place of another.
fn copy_range(source: &File, target: &File, mut from: u64, to: u64) -> io::Result<()> {
    let (mut source, mut buffer) = (source, vec![0; 256 << 10]);
    source.seek(SeekFrom::Start(from))?;
    while from < to {
        let want = usize::try_from(to - from).unwrap_or(usize::MAX);
        let part = buffer.len().min(want);
        let part = buffer.get_mut(..part).unwrap_or_default();
        let got = source.read(part)?;
        if got == 0 {
            return Ok(());
        }
        target.write_all_at(part.get(..got).unwrap_or_default(), from)?;
        from += got as u64;
    }
    Ok(())
}

/// Marks an image that could not take all that was written to it: the kernel puts it away as if it was
/// in order. By its mode, because there may be no room for anything else.
pub(super) fn suspect(image: &Path) -> io::Result<()> {
    fs::set_permissions(image, fs::Permissions::from_mode(SUSPECT))
}

/// Has a file system checked that was not put away in order, as after a loss of power.
///
/// It is nobody's: whoever mounts it holds the lock until the kernel has put it away.
pub(super) fn mend(image: &Path, file: &File) -> io::Result<()> {
    let is_suspect = file.metadata()?.permissions().mode() & 0o777 == SUSPECT;
    if is_in_order(file) && !is_suspect {
        return Ok(());
    }
    let Some(program) = find("e2fsck") else {
        return Ok(());
    };
    for _ in 0..REPAIRS {
        if check(&program, image)? {
            return file.set_permissions(fs::Permissions::from_mode(SOUND));
        }
    }
    if super::is_cramped(image) {
        let words = "its file system has to be mended, and the host's disk has no room for that";
        return Err(io::Error::new(io::ErrorKind::StorageFull, words));
    }
    // Out of the way, for an operator to look at: nobody finds it any more, so what comes next begins
    // with the newest checkpoint.
    fs::rename(image, image.with_extension("broken"))?;
    Err(io::Error::other("its file system is broken beyond repair"))
}

/// Has a file system checked and mended; tells whether it is sound now.
fn check(program: &Path, image: &Path) -> io::Result<bool> {
    let done = Command::new(program)
        .env_clear()
        .args(["-f", "-y"])
        .arg(image)
        .stdin(Stdio::null())
        .output()?;
    // 1: it found something and mended it.
    Ok(matches!(done.status.code(), Some(0..=2)))
}

/// Tells whether it was put away in order; what is too short to say so was not.
fn is_in_order(file: &File) -> bool {
    let has = |(at, bit): (u64, u16)| {
        let mut bytes = [0; 2];
        let read = file.read_exact_at(&mut bytes, at);
        read.is_ok() && u16::from_le_bytes(bytes) & bit != 0
    };
    has(STATE) && !has(RECOVER)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn holes_stay_holes_and_data_stays_data() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let file = File::create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(b"begin", 0).unwrap();
        file.write_all_at(b"middle", (32 << 20) + 5).unwrap();
        copy_sparse(&from, &to).unwrap();
        let copy = File::open(&to).unwrap();
        let mut bytes = [0; 6];
        copy.read_exact_at(&mut bytes, (32 << 20) + 5).unwrap();
        let seen = copy.metadata().unwrap();
        assert_eq!((&bytes, seen.len()), (b"middle", 64 << 20));
        assert!(seen.blocks() * 512 < 4 << 20, "{}", seen.blocks());
    }

    #[test]
    fn an_empty_file_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        File::create(&from).unwrap();
        copy_sparse(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().len(), 0);
    }
}
