//! Why a disk, a service or a database does not serve now.

use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Write as _},
    mem,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::fs::OFlags;
use tokio::time::Instant;

/// How often an operator is told of the same full disk.
const REMINDER: Duration = Duration::from_secs(60);

/// Bytes that have to fit onto a disk that has room.
const ROOM: usize = 64 * 1024;

/// Why nothing can be stored or read now, in words for the operator: they may name places of the
/// host, so they go to the server's log and to nobody else.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Away {
    /// What kind of trouble it is.
    pub lack: Lack,
    /// What the disk, the service or the database says.
    pub reason: String,
}

/// What is missing for it to serve.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lack {
    /// Room: a disk is full, or a quota used up.
    Room,
    /// Anything else.
    Other,
}

impl Away {
    /// Makes one of a disk without room.
    pub fn full(reason: impl fmt::Display) -> Self {
        Self {
            lack: Lack::Room,
            reason: reason.to_string(),
        }
    }

    /// Makes one of any other trouble.
    pub fn other(reason: impl fmt::Display) -> Self {
        Self {
            lack: Lack::Other,
            reason: reason.to_string(),
        }
    }

    /// Tells whether it is room that is missing.
    pub fn is_full(&self) -> bool {
        self.lack == Lack::Room
    }
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl From<io::Error> for Away {
    fn from(error: io::Error) -> Self {
        if is_full(&error) {
            Self::full(error)
        } else {
            Self::other(error)
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Tells whether the disk of a directory takes no more than it has: by trying, because a quota shows
/// in no figure, and what a database says of a failed write leaves it open.
pub fn lacks_room(directory: &Path) -> bool {
    let mut options = OpenOptions::new();
    // Without a name, so that nothing of it stays.
    let nameless = i32::try_from(OFlags::TMPFILE.bits()).unwrap_or_default();
    let opened = options
        .write(true)
        .mode(0o600)
        .custom_flags(nameless)
        .open(directory);
    let tried = opened.and_then(|mut file| {
        file.write_all(&[0; ROOM])?;
        file.sync_all()
    });
    tried.is_err_and(|error| is_full(&error))
}

/// Tells the operator that a disk is full: at once, and again while it stays so, but not with every
/// request, because the log may lie on that disk too.
#[derive(Debug, Default)]
pub struct Teller(Mutex<Told>);

/// What an operator was told.
#[derive(Debug, Default)]
struct Told {
    /// When of a full disk.
    full: Option<Instant>,
    /// Whether that is the last word.
    open: bool,
}

impl Teller {
    /// Tells it of `place`, unless that was told a moment ago.
    pub fn full(&self, place: &dyn fmt::Display, reason: &dyn fmt::Display) {
        if self.is_due() {
            tracing::error!(
                %place, %reason,
                "the disk is full: {place} takes nothing more until there is room ({reason})"
            );
        }
    }

    /// Tells that there is room again, if the operator does not know.
    pub fn room(&self, place: &dyn fmt::Display) {
        if self.closes() {
            tracing::info!(%place, "there is room again: {place} takes writes");
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self) -> bool {
        let mut told = self.told();
        let due = told.full.is_none_or(|last| last.elapsed() >= REMINDER);
        if due {
            *told = Told {
                full: Some(Instant::now()),
                open: true,
            };
        }
        due
    }

    fn closes(&self) -> bool {
        mem::take(&mut self.told().open)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn a_full_disk_and_a_used_up_quota_are_told_from_other_troubles() {
        for (code, lack) in [
            (rustix::io::Errno::NOSPC, Lack::Room),
            (rustix::io::Errno::DQUOT, Lack::Room),
            (rustix::io::Errno::IO, Lack::Other),
            (rustix::io::Errno::ROFS, Lack::Other),
        ] {
            assert_eq!(Away::from(io::Error::from(code)).lack, lack, "{code}");
        }
    }

    #[test]
    fn a_disk_with_room_and_a_missing_one_are_not_full() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!lacks_room(dir.path()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(!lacks_room(&dir.path().join("missing")));
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_is_told_at_once_and_then_once_a_minute() {
        let teller = Teller::default();
        assert!(!teller.closes());
        assert!(teller.is_due() && !teller.is_due());
        assert!(teller.closes() && !teller.closes() && !teller.is_due());
        advance(REMINDER).await;
        assert!(teller.is_due() && !teller.is_due());
    }
}
