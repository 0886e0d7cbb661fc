//! Keeps the bounds of disk and inodes where no file system of its own does: by looking.

use std::{
    collections::HashSet,
    ffi::CStr,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::Path,
    sync::Weak,
    time::Duration,
};

use outlast_protocol::id::EventId;
use outlast_sandbox::Deleted;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{NamespaceHand, words};
use crate::Limits;

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

impl Use {
    /// Adds what is held open and has no name any more.
    fn with(self, deleted: io::Result<Deleted>) -> Self {
        let deleted = deleted.unwrap_or_default();
        Self {
            bytes: self.bytes.saturating_add(deleted.bytes),
            inodes: self.inodes.saturating_add(deleted.files),
        }
    }
}

/// What comes of it that calls passed a bound.
const STOPPED: &str = "what ran was stopped";

/// What comes of it that something did which may be over.
const SEEN: &str = "what goes on writing is stopped";

/// What comes of it that something did which no call waits for.
const ENDED: &str = "what wrote in the background was stopped, and the sandbox with it";

/// What a hand is watched by.
#[derive(Debug, Default)]
struct Watch {
    /// What it may hold; not known before the first look.
    allowed: Option<Use>,
    /// Calls that ran at the last look.
    running: HashSet<EventId>,
    /// How many calls there had been when it began.
    calls: usize,
    /// Of those that ran then, what was stopped.
    stopped: HashSet<EventId>,
    /// Looks in a row that found more.
    strikes: u32,
}

/// What a look comes to.
#[derive(Debug, Eq, PartialEq)]
enum Found {
    /// No bound is passed, or nothing was added to what is beyond it.
    Nothing,
    /// Something was added, perhaps by a call that was there for a part of the time: a result tells.
    Seen,
    /// Something was added while these calls ran all the time.
    During(HashSet<EventId>),
    /// Something was added while no call was there, or goes on whatever is stopped.
    Beside,
}

impl Watch {
    /// Takes in what a hand holds, the calls that ran when that began to be measured, and how many there
    /// had been by then and by the end.
    ///
    /// A layer that is beyond its bounds may be tidied up: only what makes it larger than it was when
    /// the call began is stopped.
    fn look(
        &mut self,
        used: Use,
        limits: &Limits,
        running: HashSet<EventId>,
        calls: (usize, usize),
    ) -> Found {
        let bound = Use {
            bytes: used.bytes.max(limits.disk_bytes),
            inodes: used.inodes.max(limits.inodes),
        };
        let more = |old: Use| used.bytes > old.bytes || used.inodes > old.inodes;
        let grew = self.allowed.is_some_and(more);
        let throughout: HashSet<_> = running.intersection(&self.running).copied().collect();
        let came_or_went = calls.1 != self.calls || throughout.len() != self.running.len();
        let was_stopped = self.stopped.iter().any(|call| !running.contains(call));
        self.stopped.clear();
        if grew || throughout.is_empty() {
            self.allowed = Some(bound);
        }
        (self.running, self.calls) = (running, calls.0);
        if !grew {
            self.strikes = 0;
            return Found::Nothing;
        }
        if was_stopped {
            // It wrote until it was.
            return Found::Nothing;
        }
        self.strikes += 1;
        let by_no_call = throughout.is_empty() && !came_or_went;
        if by_no_call || self.strikes >= STRIKES {
            return Found::Beside;
        }
        if throughout.is_empty() {
            return Found::Seen;
        }
        self.stopped.clone_from(&throughout);
        Found::During(throughout)
    }
}

/// Looks at what a hand wrote until it is gone, and stops what writes too much.
pub(super) async fn keep(hand: Weak<NamespaceHand>) {
    let mut watch = Watch::default();
    // At once: what was taken over is not what the first call wrote.
    let (mut looked, mut pause) = (Instant::now(), Duration::ZERO);
    loop {
        sleep(pause).await;
        let Some(alive) = hand.upgrade().filter(|hand| !hand.is_lost()) else {
            return;
        };
        pause = BUSY;
        let (running, calls) = alive.running();
        let soon = !running.is_empty() || watch.strikes > 0 || watch.allowed.is_none();
        if !soon && looked.elapsed() < IDLE {
            continue;
        }
        let Some(layer) = alive.layer() else { return };
        let began = Instant::now();
        let confined = alive.confined();
        // A failure to look is not one to write.
        let used = spawn_blocking(move || measure(layer.path()).with(confined.deleted())).await;
        let used = used.unwrap_or_default();
        looked = Instant::now();
        pause = BUSY.max(began.elapsed() * SHARE);
        let calls = (calls, alive.running().1);
        let found = watch.look(used, alive.limits(), running, calls);
        alive.answer(found, used);
    }
}

impl NamespaceHand {
    /// Does what a look asks for.
    fn answer(&self, found: Found, used: Use) {
        let Some(beyond) = words::beyond(used, self.limits()) else {
            self.state().remark = None;
            return;
        };
        let comes = match &found {
            Found::Nothing => return,
            Found::Seen => SEEN,
            Found::During(_) => STOPPED,
            Found::Beside => ENDED,
        };
        tracing::info!(?used, ?found, "a sandbox is beyond its disk limit");
        let words = words::passed(&beyond, comes);
        match found {
            Found::Nothing => {}
            Found::Seen => self.state().remark = Some(words),
            Found::During(calls) if self.stop_calls(&calls, &words) => {}
            // They ended meanwhile.
            Found::During(_) => self.state().remark = Some(words::passed(&beyond, SEEN)),
            Found::Beside => self.end(&words),
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
    use crate::namespace::testing::call;

    /// Has a hand with bounds of 100 bytes and 10 files looked at, with these calls of so many.
    fn look(watch: &mut Watch, (bytes, inodes): (u64, u64), running: &[u8], calls: usize) -> Found {
        let limits = Limits {
            disk_bytes: 100,
            inodes: 10,
            ..Limits::default()
        };
        let running = running.iter().copied().map(call).collect();
        let calls = (calls, calls);
        watch.look(Use { bytes, inodes }, &limits, running, calls)
    }

    fn during(calls: &[u8]) -> Found {
        Found::During(calls.iter().copied().map(call).collect())
    }

    #[test]
    fn only_what_grows_beyond_a_bound_while_calls_run_stops_them() {
        let mut watch = Watch::default();
        assert_eq!(look(&mut watch, (50, 5), &[1], 1), Found::Nothing);
        assert_eq!(look(&mut watch, (100, 10), &[1], 1), Found::Nothing);
        assert_eq!(look(&mut watch, (101, 10), &[1], 1), during(&[1]));
        // It wrote until it was stopped.
        assert_eq!(look(&mut watch, (120, 10), &[], 1), Found::Nothing);
        // Files have their own bound: bytes below theirs may grow.
        assert_eq!(look(&mut watch, (10, 30), &[2], 2), Found::Seen);
        assert_eq!(look(&mut watch, (90, 30), &[2], 2), Found::Nothing);
        assert_eq!(look(&mut watch, (90, 31), &[2], 2), during(&[2]));
    }

    #[test]
    fn what_only_deletes_is_left_alone_however_much_there_is() {
        let mut watch = Watch::default();
        // Taken over, or bounds were lowered.
        assert_eq!(look(&mut watch, (900, 90), &[1], 1), Found::Nothing);
        assert_eq!(look(&mut watch, (800, 80), &[1], 1), Found::Nothing);
        assert_eq!(look(&mut watch, (300, 30), &[], 1), Found::Nothing);
        // A call is held to what there was when it began.
        assert_eq!(look(&mut watch, (300, 30), &[2], 2), Found::Nothing);
        assert_eq!(look(&mut watch, (300, 29), &[2], 2), Found::Nothing);
        assert_eq!(look(&mut watch, (301, 29), &[2], 2), during(&[2]));
    }

    #[test]
    fn what_nobody_can_be_blamed_for_is_told_and_what_no_call_does_ends() {
        let mut watch = Watch::default();
        assert_eq!(look(&mut watch, (0, 0), &[], 0), Found::Nothing);
        // A call came and went between two looks.
        assert_eq!(look(&mut watch, (200, 2), &[], 1), Found::Seen);
        assert_eq!(look(&mut watch, (200, 2), &[], 1), Found::Nothing);
        // So did another one, and one began.
        assert_eq!(look(&mut watch, (250, 2), &[3], 3), Found::Seen);
        assert_eq!(look(&mut watch, (150, 2), &[], 3), Found::Nothing);
        assert_eq!(look(&mut watch, (151, 2), &[], 3), Found::Beside);
        // One that began while it was measured.
        let (limits, used) = (
            Limits {
                disk_bytes: 100,
                ..Limits::default()
            },
            |bytes| Use { bytes, inodes: 0 },
        );
        let mut watch = Watch::default();
        assert_eq!(look(&mut watch, (0, 0), &[], 0), Found::Nothing);
        let seen = watch.look(used(200), &limits, HashSet::new(), (0, 1));
        assert_eq!(seen, Found::Seen);
        assert_eq!(look(&mut watch, (300, 0), &[], 1), Found::Seen);
        // Or goes on whatever is stopped.
        let mut watch = Watch::default();
        assert_eq!(look(&mut watch, (0, 0), &[1], 1), Found::Nothing);
        assert_eq!(look(&mut watch, (200, 0), &[1], 1), during(&[1]));
        assert_eq!(look(&mut watch, (300, 0), &[1], 1), during(&[1]));
        assert_eq!(look(&mut watch, (400, 0), &[1], 1), Found::Beside);
    }

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
