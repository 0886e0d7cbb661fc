//! Keeps the bounds of disk and inodes where no file system of its own does: by looking.

use std::{
    collections::HashSet,
    ffi::CStr,
    fs,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::Path,
    sync::Weak,
    time::Duration,
};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{NamespaceHand, words};

/// How often is looked while a call runs.
const BUSY: Duration = Duration::from_millis(250);

/// How often is looked while none does: what runs in the background may write too.
const IDLE: Duration = Duration::from_secs(5);

/// Writing that is seen so often in a row, though all calls were stopped each time, is done by
/// something else.
const STRIKES: u32 = 3;

/// Looking may take this part of the time, so that a large tree is looked at less often.
const SHARE: u32 = 10;

/// Folders that are nested deeper are not looked into: they count as more than is allowed.
const DEEPEST: usize = 400;

/// What a layer holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Use {
    /// Bytes on the disk.
    pub(super) bytes: u64,
    /// Files, folders and links.
    pub(super) inodes: u64,
}

/// Looks at what a hand wrote until it is gone, and stops what writes too much.
///
/// A layer that is beyond its bounds may be tidied up: only what makes it larger still is stopped.
pub(super) async fn keep(hand: Weak<NamespaceHand>) {
    let mut allowed = Use::default();
    let (mut looked, mut pause) = (Instant::now(), BUSY);
    let mut strikes = 0;
    loop {
        sleep(pause).await;
        let Some(alive) = hand.upgrade().filter(|hand| !hand.is_lost()) else {
            return;
        };
        pause = BUSY;
        if !alive.is_busy() && looked.elapsed() < IDLE {
            continue;
        }
        let Some(layer) = alive.layer() else { return };
        let began = Instant::now();
        // A failure to look is not one to write.
        let used = spawn_blocking(move || measure(layer.path())).await;
        let used = used.unwrap_or_default();
        looked = Instant::now();
        pause = BUSY.max(began.elapsed() * SHARE);
        let Some(words) = words::beyond(used, alive.limits()) else {
            allowed = Use::default();
            strikes = 0;
            continue;
        };
        if used.bytes > allowed.bytes || used.inodes > allowed.inodes {
            tracing::info!(?used, "a sandbox is beyond its disk limit");
            strikes += 1;
            if strikes >= STRIKES {
                // What was stopped is not what writes.
                alive.end(&words);
                return;
            }
            alive.stop_all(&words);
            allowed = used;
        } else {
            strikes = 0;
        }
    }
}

/// Adds up a tree. A file with several names counts once; what is gone meanwhile does not.
///
/// The tree is its sandbox's to change meanwhile, so no path is looked up twice and no link followed.
pub(super) fn measure(root: &Path) -> Use {
    let mut sum = Sum::default();
    if let Ok(folder) = open(CWD, root, OFlags::empty()) {
        sum.folder(&folder, 0);
    }
    sum.used
}

/// A sum on its way.
#[derive(Debug, Default)]
struct Sum {
    used: Use,
    /// Files with several names.
    seen: HashSet<u64>,
}

impl Sum {
    /// Adds what is in a folder.
    fn folder(&mut self, folder: &OwnedFd, depth: usize) {
        if depth > DEEPEST {
            self.used.inodes = u64::MAX;
            return;
        }
        let Ok(entries) = Dir::read_from(folder) else {
            return;
        };
        for entry in entries.flatten() {
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let name = entry.file_name();
            let Ok(kind) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            self.one(&kind);
            if FileType::from_raw_mode(kind.st_mode).is_dir() {
                self.below(folder, name, depth);
            }
        }
    }

    /// Adds one entry.
    fn one(&mut self, kind: &Stat) {
        let is_folder = FileType::from_raw_mode(kind.st_mode).is_dir();
        if !is_folder && kind.st_nlink > 1 && !self.seen.insert(kind.st_ino) {
            return;
        }
        let blocks = u64::try_from(kind.st_blocks).unwrap_or(0);
        self.used.bytes = self.used.bytes.saturating_add(blocks.saturating_mul(512));
        self.used.inodes = self.used.inodes.saturating_add(1);
    }

    /// Goes down into a folder, also into one that its owner closed to itself.
    fn below(&mut self, parent: &OwnedFd, name: &CStr, depth: usize) {
        if let Ok(folder) = open(parent, name, OFlags::empty()) {
            return self.folder(&folder, depth + 1);
        }
        // By descriptor: the name may be a link by now.
        let Ok(closed) = open(parent, name, OFlags::PATH) else {
            return;
        };
        let place = format!("/proc/self/fd/{}", closed.as_raw_fd());
        let Ok(before) = fs::metadata(&place).map(|kind| kind.permissions()) else {
            return;
        };
        let opened = fs::Permissions::from_mode(before.mode() | 0o700);
        if fs::set_permissions(&place, opened).is_err() {
            return;
        }
        if let Ok(folder) = open(&closed, c".", OFlags::empty()) {
            self.folder(&folder, depth + 1);
        }
        // If it cannot be closed again it is gone.
        drop(fs::set_permissions(&place, before));
    }
}

/// Opens a folder and nothing else.
fn open(at: impl AsFd, name: impl rustix::path::Arg, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(measure(folder.path()), Use::default());
        fs::create_dir(at("a")).unwrap();
        fs::write(at("a/file"), vec![1; 100_000]).unwrap();
        fs::hard_link(at("a/file"), at("a/again")).unwrap();
        std::os::unix::fs::symlink("/usr", at("link")).unwrap();
        let used = measure(folder.path());
        assert_eq!(used.inodes, 3, "the folder, the file once, the link itself");
        assert!((100_000..200_000).contains(&used.bytes), "{used:?}");
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(measure(folder.path()), used, "nothing is hidden");
        let mode = fs::metadata(at("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0, "and it is closed again");
        assert_eq!(measure(Path::new("/nowhere")), Use::default());
    }
}
