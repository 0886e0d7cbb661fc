//! A file system of its own for each sandbox: an ext4 image behind a loop device.
//!
//! Its size and its number of inodes bound what can be written, and the kernel keeps that bound. The
//! image is a sparse copy of a template, so that no start waits for a file system to be made. It is
//! mounted nowhere: the mount is a descriptor, which the helper takes into its own namespace. So
//! nothing of it outlives the processes that use it, however they end: with the last descriptor
//! and the last process the file system goes, and with the file system the loop device.

mod loops;
mod template;

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, openat, statvfs, syncfs},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
        fsconfig_set_string, fsmount, fsopen,
    },
    thread::{Timespec, nanosleep},
};

use crate::{Limits, mapping::Ids};
pub(crate) use loops::sweep;
pub(crate) use template::{Templates, find as find_program};

/// The image of a sandbox, in its folder.
pub(crate) const IMAGE: &str = "disk.img";

/// The writable layer, in the folder or in the image.
pub(crate) const UPPER: &str = "upper";

/// What an overlay needs beside it.
pub(crate) const WORK: &str = "work";

/// With less than this on the host's disk, what is written inside may find no room there.
const NEARLY_FULL: u64 = 64 << 20;

/// How often an image is asked for that the kernel has not let go of, two milliseconds apart.
const PATIENCE: u32 = 15_000;

/// A mounted image; dropping it lets go of it.
#[derive(Debug)]
pub(crate) struct Disk {
    mount: OwnedFd,
    /// Its root, open since before anything was written: by it the kernel tells what it could not
    /// store.
    root: OwnedFd,
    image: PathBuf,
}

impl Disk {
    /// Mounts an image, waiting until whoever had it before has let go of it.
    pub(crate) fn open(image: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(image)?;
        lock(&file)?;
        template::mend(image, &file)?;
        // The device keeps the file open, and with it the lock.
        let device = loops::attach(&file, image)?;
        // What cannot be mounted is checked before the next attempt.
        let mount = mount(&device.path).inspect_err(|_| drop(template::suspect(image)))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(&mount, ".", flags, Mode::empty())?;
        let image = image.to_owned();
        Ok(Self { mount, root, image })
    }

    /// Stores what was written; an image that lacks something is checked before it is used again.
    fn store(&self) -> io::Result<()> {
        let stored = syncfs(&self.root);
        if stored.is_err() {
            template::suspect(&self.image)?;
        }
        Ok(stored?)
    }

    /// Returns the descriptor of the mount.
    pub(crate) const fn mount(&self) -> &OwnedFd {
        &self.mount
    }

    /// Returns the mount's root as a path of this process.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.mount.as_raw_fd()))
    }

    /// Returns what is left of it.
    pub(crate) fn room(&self) -> io::Result<Room> {
        let seen = rustix::fs::fstatvfs(&self.mount)?;
        Ok(Room {
            bytes: seen.f_bavail.saturating_mul(seen.f_frsize),
            inodes: seen.f_favail,
        })
    }
}

/// What is left of a disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Files, folders and links.
    pub inodes: u64,
}

/// The writable layer of a sandbox, reachable for as long as this lives.
#[derive(Clone, Debug)]
pub struct Layer {
    pub(crate) path: PathBuf,
    pub(crate) disk: Option<Arc<Disk>>,
}

impl Layer {
    /// Finds the layer in the folder of a sandbox that does not run; mounts it where it is an image.
    ///
    /// # Errors
    ///
    /// What the system says of the image; one that is still in use is waited for, for half a minute.
    pub fn find(folder: &Path) -> io::Result<Option<Self>> {
        if folder.join(IMAGE).exists() {
            return Ok(Some(Self::on(Arc::new(Disk::open(&folder.join(IMAGE))?))));
        }
        let path = folder.join(UPPER);
        let found = path.exists().then_some(Self { path, disk: None });
        Ok(found)
    }

    /// Tells whether there is a layer, without looking into it.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(IMAGE).exists() || folder.join(UPPER).exists()
    }

    /// Returns the layer on a mounted image.
    pub(crate) fn on(disk: Arc<Disk>) -> Self {
        Self {
            path: disk.path().join(UPPER),
            disk: Some(disk),
        }
    }

    /// Returns the layer in a folder.
    pub(crate) fn plain(folder: &Path) -> Self {
        let path = folder.join(UPPER);
        Self { path, disk: None }
    }

    /// Returns where it is: a path of this process, good for as long as `self` lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whether it has a disk of its own, and the disk which that lies on is nearly full.
    pub fn is_cramped(&self) -> bool {
        let disk = self.disk.as_ref();
        disk.is_some_and(|disk| is_cramped(&disk.image))
    }

    /// Stores what was written on its own disk. Blocks.
    ///
    /// # Errors
    ///
    /// If something that was written since the last time could not be stored, and is lost.
    pub fn store(&self) -> io::Result<()> {
        let disk = self.disk.as_ref();
        disk.map_or(Ok(()), |disk| disk.store())
    }

    /// Returns what is left of the disk that it has for itself, if it has one.
    pub fn room(&self) -> Option<Room> {
        self.disk.as_ref()?.room().ok()
    }
}

/// Makes the image of a sandbox if there is none, and mounts it.
pub(crate) fn ensure(
    templates: &Templates,
    folder: &Path,
    limits: &Limits,
    ids: &Ids,
) -> io::Result<Disk> {
    let image = folder.join(IMAGE);
    if !image.exists() {
        templates.copy(&image, limits, ids)?;
    }
    let disk = Disk::open(&image)?;
    let work = disk.path().join(WORK);
    // What the kernel keeps for one mount is of no use to the next.
    for entry in fs::read_dir(&work)? {
        crate::remove_tree(&entry?.path())?;
    }
    Ok(disk)
}

/// Tells whether the disk that a file or folder lies on is nearly full: what is written to an image there
/// may find no room, and the kernel then tells of a device that failed.
pub fn is_cramped(image: &Path) -> bool {
    statvfs(image).is_ok_and(|host| host.f_bavail.saturating_mul(host.f_frsize) < NEARLY_FULL)
}

/// Takes the image for this process and its loop device.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    let pause = Timespec {
        tv_sec: 0,
        tv_nsec: 2_000_000,
    };
    for _ in 0..PATIENCE {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => drop(nanosleep(&pause)),
            other => return Ok(other?),
        }
    }
    let words = "its image is still in use by what had it before";
    Err(io::Error::new(io::ErrorKind::ResourceBusy, words))
}

/// Mounts a device without a place.
fn mount(device: &Path) -> io::Result<OwnedFd> {
    let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", device)?;
    // What is deleted inside is given back to the host's disk.
    fsconfig_set_flag(context.as_fd(), "discard")?;
    // With barriers a mount waits for the host's disk several times. A loss of power may so cost
    // what was written last; the image is checked then before it is used.
    fsconfig_set_flag(context.as_fd(), "nobarrier")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOATIME;
    Ok(fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}
