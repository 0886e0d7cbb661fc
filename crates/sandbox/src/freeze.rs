//! A sandbox that stands still.
//!
//! By its control group where that can; else every process gets SIGSTOP, from outside and again
//! until none is left that runs, so that one inside that wakes the others is found too.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::fd::OwnedFd,
    sync::Arc,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::{
    Confined,
    cgroup::pause,
    family::{family, parent},
};

/// Rounds of stopping processes, two milliseconds apart, before giving up.
const ROUNDS: usize = 2_500;

/// A sandbox in which nothing runs; dropping it lets everything go on.
#[derive(Debug)]
pub struct Frozen {
    confined: Arc<Confined>,
    /// The processes that were stopped by signals, PID 1 among them.
    stopped: Stopped,
}

/// Processes that we stopped, by pid.
type Stopped = BTreeMap<i32, OwnedFd>;

impl Frozen {
    /// Stops everything. A guard exists before the first process stops, so that any failure lets
    /// all go on.
    pub(crate) fn new(confined: &Arc<Confined>) -> io::Result<Self> {
        let mut frozen = Self {
            confined: Arc::clone(confined),
            stopped: Stopped::new(),
        };
        match confined.freezer() {
            Some(freezer) => freezer.freeze()?,
            None => stop_all(confined.pid(), &mut frozen.stopped)?,
        }
        if frozen.holds() {
            Ok(frozen)
        } else {
            Err(io::Error::other("it ended meanwhile"))
        }
    }

    /// Tells whether it has stood still all the time: nobody ended it meanwhile.
    pub fn holds(&self) -> bool {
        let still = match self.confined.freezer() {
            Some(freezer) => freezer.is_frozen().unwrap_or(false),
            None => true,
        };
        still && self.confined.is_there()
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some(freezer) = self.confined.freezer() {
            // Fails only if the group is gone, and everything in it.
            drop(freezer.thaw());
        }
        for process in self.stopped.values() {
            // One that is gone needs no signal.
            let _ = pidfd_send_signal(process, Signal::CONT);
        }
    }
}

/// Stops `first` and all that descend from it: everything in its pid namespace, where orphans are
/// its children.
///
/// Asked of their namespace, processes of a sandbox that hide from their own user would not answer.
fn stop_all(first: i32, stopped: &mut Stopped) -> io::Result<()> {
    for _ in 0..ROUNDS {
        if !stop_some(first, stopped)? {
            return Ok(());
        }
        pause();
    }
    let words = "its processes did not stop";
    Err(io::Error::new(io::ErrorKind::TimedOut, words))
}

/// Stops those that run now; tells whether there were any.
fn stop_some(first: i32, stopped: &mut Stopped) -> io::Result<bool> {
    let family = family(first)?;
    let mut any = false;
    for pid in &family {
        if runs(*pid) {
            any = true;
            stop(*pid, first, &family, stopped)?;
        }
    }
    Ok(any)
}

/// Stops one process, unless its number is another's by now.
fn stop(pid: i32, first: i32, family: &BTreeSet<i32>, stopped: &mut Stopped) -> io::Result<()> {
    let Some(number) = Pid::from_raw(pid) else {
        return Ok(());
    };
    let Ok(process) = pidfd_open(number, PidfdFlags::empty()) else {
        return Ok(());
    };
    // Looked at again, now that the number cannot change hands unnoticed. A number that comes free
    // goes to a child of somebody else; `first` is our child and keeps its own.
    if pid != first && !parent(pid).is_some_and(|parent| family.contains(&parent)) {
        return Ok(());
    }
    match pidfd_send_signal(&process, Signal::STOP) {
        Ok(()) => {
            stopped.insert(pid, process);
            Ok(())
        }
        Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Tells whether a thread of a process is neither stopped nor dead; its first one may have left.
fn runs(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    threads.flatten().flatten().any(|thread| {
        let text = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name stands in parentheses and may hold anything.
        let state = text
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.trim_start().chars().next());
        !matches!(state, Some('T' | 'Z' | 'X' | 'x') | None)
    })
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// A shell that appends to a file for ever.
    fn writer(file: &Path) -> Child {
        let script = "while :; do echo x >>\"$0\"; done";
        Command::new("sh")
            .args(["-c", script])
            .arg(file)
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_process_stops_by_signals_and_one_that_stood_is_not_taken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut child = writer(file.path());
        let pid = i32::try_from(child.id()).unwrap();
        let mut stopped = Stopped::new();
        let own = i32::try_from(std::process::id()).unwrap();
        let family = family(own).unwrap();
        assert!(family.contains(&pid) && !family.contains(&1));
        while runs(pid) {
            stop(pid, own, &family, &mut stopped).unwrap();
            pause();
        }
        let length = fs::metadata(file.path()).unwrap().len();
        for _ in 0..20 {
            pause();
        }
        assert_eq!(fs::metadata(file.path()).unwrap().len(), length);
        assert_eq!(stopped.len(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!runs(pid));
    }
}
