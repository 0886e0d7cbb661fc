//! A running sandbox, as its parent sees it.

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal,
    waitid,
};

use crate::{
    Deleted, Frozen, Layer, Pressure,
    cgroup::{Freezer, Group},
    family::family,
    held,
    spawner::Spawner,
};

/// How PID 1 ended, and everything in the sandbox with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// It left by itself.
    Exited(i32),
    /// A signal killed it.
    Killed(i32),
    /// It is gone and the system does not say how.
    Unknown,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "its first process ended with status {status}"),
            Self::Killed(signal) => write!(f, "its first process was killed by signal {signal}"),
            Self::Unknown => write!(f, "its first process is gone"),
        }
    }
}

/// One running sandbox. Dropping it kills everything inside and removes its control groups.
#[derive(Debug)]
pub struct Confined {
    process: OwnedFd,
    pid: Pid,
    ended: Mutex<Option<Ended>>,
    /// Held until it has ended.
    layer: Mutex<Option<Layer>>,
    group: Group,
    /// Processes that were ended here because memory ran out.
    relieved: AtomicU64,
    /// Its thread has to outlive the sandbox.
    _parent: Arc<Spawner>,
}

impl Confined {
    /// Takes over the child `pid`, which nobody has waited for.
    pub(crate) fn new(pid: Pid, group: Group, parent: Arc<Spawner>) -> io::Result<Self> {
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self {
            process,
            pid,
            ended: Mutex::new(None),
            layer: Mutex::new(None),
            group,
            relieved: AtomicU64::new(0),
            _parent: parent,
        })
    }

    /// Holds the writable layer until it has ended.
    pub(crate) fn keep(&self, layer: Layer) {
        let mut kept = self.layer.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(layer);
    }

    /// Returns the pid of PID 1 as the host sees it.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Kills everything inside. Harmless if it has ended.
    pub fn kill(&self) {
        // Fails only for a process that is already gone.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        // What stands still in a group of version 1 dies when it goes on.
        if let Some(freezer) = self.group.freezer() {
            drop(freezer.thaw());
        }
    }

    /// Stops everything inside at one moment, until the guard is dropped. Blocks.
    ///
    /// What its own user had stopped before stays stopped. One guard at a time.
    ///
    /// # Errors
    ///
    /// If something inside does not stop; it goes on then. If the sandbox has ended.
    pub fn freeze(self: &Arc<Self>) -> io::Result<Frozen> {
        Frozen::new(self)
    }

    /// Returns what stops everything inside, apart from signals.
    pub(crate) const fn freezer(&self) -> Option<&Freezer> {
        self.group.freezer()
    }

    /// Tells whether PID 1 has not ended.
    pub(crate) fn is_there(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::PidFd(self.process.as_fd()), look), Ok(None))
    }

    /// Waits until nothing of it runs any more. Blocks. Lets go of the writable layer then.
    pub fn wait(&self) -> Ended {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = *ended.get_or_insert_with(|| reap(self.process.as_fd()));
        drop(
            self.layer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        ended
    }

    /// Removes its control groups, once it was waited for: the last handle may be held for long. It
    /// reads as under no pressure from then on.
    pub fn clear(&self) {
        self.group.remove();
    }

    /// Returns the writable layer; `None` once it was waited for.
    pub fn layer(&self) -> Option<Layer> {
        let layer = self.layer.lock().unwrap_or_else(PoisonError::into_inner);
        layer.clone()
    }

    /// Tells whether control groups bound its memory and processes.
    pub const fn is_counted(&self) -> bool {
        !self.group.is_none()
    }

    /// Returns how often its limits struck so far; without control groups what [`Self::relieve`] did.
    pub fn pressure(&self) -> Pressure {
        let mut pressure = self.group.pressure();
        pressure.oom_kills += self.relieved.load(Ordering::Relaxed);
        pressure
    }

    /// Ends the process that has most memory if all together, what they share included, have more than
    /// `limit`; returns how much it was then. Blocks. For a sandbox without control groups.
    ///
    /// # Errors
    ///
    /// If nothing can be seen of its processes.
    pub fn relieve(&self, limit: u64) -> io::Result<Option<u64>> {
        let memory = held::memory(self.pid())?;
        let largest = memory.largest.and_then(Pid::from_raw);
        let Some(largest) = largest.filter(|_| memory.bytes > limit) else {
            return Ok(None);
        };
        let Ok(process) = pidfd_open(largest, PidfdFlags::empty()) else {
            return Ok(None);
        };
        // Looked at again, now that the number cannot change hands unnoticed.
        if !family(self.pid())?.contains(&largest.as_raw_nonzero().get())
            || pidfd_send_signal(&process, Signal::KILL).is_err()
        {
            return Ok(None);
        }
        self.relieved.fetch_add(1, Ordering::Relaxed);
        Ok(Some(memory.bytes))
    }

    /// Adds up deleted files on the disk that something inside holds open. Blocks.
    ///
    /// # Errors
    ///
    /// If nothing can be seen of its processes.
    pub fn deleted(&self) -> io::Result<Deleted> {
        held::deleted(self.pid())
    }
}

impl AsFd for Confined {
    /// Returns a descriptor that becomes readable when the sandbox has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        self.kill();
        self.wait();
        self.group.remove();
    }
}

/// Waits for the process and takes its status.
fn reap(process: BorrowedFd<'_>) -> Ended {
    loop {
        match waitid(WaitId::PidFd(process), WaitIdOptions::EXITED) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(Some(status)) => return how(&status),
            Ok(None) | Err(_) => return Ended::Unknown,
        }
    }
}

/// Reads a status.
fn how(status: &WaitIdStatus) -> Ended {
    if let Some(status) = status.exit_status() {
        return Ended::Exited(status);
    }
    status
        .terminating_signal()
        .map_or(Ended::Unknown, Ended::Killed)
}
