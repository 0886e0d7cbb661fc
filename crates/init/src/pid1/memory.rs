//! Watches where no control group does: adds up the memory that processes use, and ends the largest one
//! when it is too much; counts processes, of which the kernel refuses more than there may be and tells
//! nobody but who asked.

use std::{fs, mem, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    processes::{self, Process},
    shell::Shell,
    workers::Workers,
};
use crate::{frame::Settings, words};

/// How often to look while a call runs.
const BUSY: Duration = Duration::from_millis(100);

/// How often to look while only background processes can be running.
const IDLE: Duration = Duration::from_secs(1);

/// The watch.
#[derive(Debug)]
pub(super) struct Watch {
    limit: u64,
    /// Processes that are seen here when there are as many as there may be.
    most: usize,
    looked: Duration,
    /// Whether it was said that there are as many while no call ran, and there have been since.
    said: bool,
}

impl Watch {
    /// Watches, if the settings say so.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        // Under the commands' own user PID 1 is counted too.
        let own = usize::from(settings.user.is_none());
        Some(Self {
            limit: settings.watch_memory?,
            most: (settings.pids as usize).saturating_sub(own),
            looked: Duration::ZERO,
            said: false,
        })
    }

    /// Returns when to look next, if anything can be running.
    pub(super) fn deadline(&self, shell: &Shell) -> Option<Duration> {
        if shell.is_busy() {
            Some(self.looked + BUSY)
        } else {
            shell.is_alive().then(|| self.looked + IDLE)
        }
    }

    /// Looks, if it is time; returns words of a bound for which no call is to blame.
    pub(super) fn look(
        &mut self,
        now: Duration,
        shell: &mut Shell,
        workers: &mut Workers,
    ) -> Option<String> {
        if now < self.looked + BUSY || !(shell.is_alive() || workers.is_busy()) {
            return None;
        }
        self.looked = now;
        let all = processes::all();
        let filled = self.count(&all, shell);
        self.weigh(&all, shell, workers).or(filled)
    }

    /// Notes that there are as many processes as there may be; said once for as long as it is so.
    fn count(&mut self, all: &[Process], shell: &mut Shell) -> Option<String> {
        if processes::count(all) < self.most {
            self.said = false;
            return None;
        }
        if shell.filled() || mem::replace(&mut self.said, true) {
            return None;
        }
        Some(words::processes(shell.pids()))
    }

    /// Ends the largest process if all together are too large.
    fn weigh(&self, all: &[Process], shell: &mut Shell, workers: &mut Workers) -> Option<String> {
        let sizes = all
            .iter()
            .filter_map(|process| Some((private_bytes(process.pid)?, process.pid)));
        let sizes: Vec<(u64, Pid)> = sizes.collect();
        let total = sizes.iter().map(|(bytes, _)| bytes).sum::<u64>() + scratch_bytes();
        let (_, largest) = sizes.into_iter().max_by_key(|(bytes, _)| *bytes)?;
        if total <= self.limit {
            return None;
        }
        let _ = kill_process(largest, Signal::KILL);
        let words = words::memory(self.limit, 1);
        let heard = workers.struck(largest, &words) | shell.struck(self.limit);
        (!heard).then_some(words)
    }
}

/// Returns the memory of a process that it shares with no file.
fn private_bytes(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_nonzero())).ok()?;
    let mut pages = text
        .split(' ')
        .skip(1)
        .map(|field| field.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// Returns what lies in the file systems that are memory.
fn scratch_bytes() -> u64 {
    ["/tmp", "/dev/shm"]
        .iter()
        .filter_map(|path| rustix::fs::statvfs(*path).ok())
        .map(|fs| (fs.f_blocks.saturating_sub(fs.f_bfree)) * fs.f_frsize)
        .sum()
}
