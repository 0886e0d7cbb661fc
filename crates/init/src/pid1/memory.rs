//! Watches over memory where no control group does: adds up what processes use, and ends the
//! largest one when it is too much.

use std::{fs, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use super::{processes, shell::Shell, workers::Workers};
use crate::words;

/// How often to look while a call runs.
const BUSY: Duration = Duration::from_millis(100);

/// How often to look while only background processes can be running.
const IDLE: Duration = Duration::from_secs(1);

/// The watch.
#[derive(Debug)]
pub(super) struct Watch {
    limit: u64,
    looked: Duration,
}

impl Watch {
    /// Watches for `limit` bytes.
    pub(super) const fn new(limit: u64) -> Self {
        Self {
            limit,
            looked: Duration::ZERO,
        }
    }

    /// Returns when to look next, if anything can be running.
    pub(super) fn deadline(&self, shell: &Shell) -> Option<Duration> {
        if shell.is_busy() {
            Some(self.looked + BUSY)
        } else {
            shell.is_alive().then(|| self.looked + IDLE)
        }
    }

    /// Looks, if it is time, and ends the largest process if all together are too large.
    pub(super) fn look(&mut self, now: Duration, shell: &mut Shell, workers: &mut Workers) {
        if now < self.looked + BUSY || !(shell.is_alive() || workers.is_busy()) {
            return;
        }
        self.looked = now;
        let sizes: Vec<(u64, Pid)> = processes::all()
            .into_iter()
            .filter_map(|process| Some((private_bytes(process.pid)?, process.pid)))
            .collect();
        let total = sizes.iter().map(|(bytes, _)| bytes).sum::<u64>() + scratch_bytes();
        let largest = sizes.into_iter().max_by_key(|(bytes, _)| *bytes);
        let Some((_, largest)) = largest.filter(|_| total > self.limit) else {
            return;
        };
        let _ = kill_process(largest, Signal::KILL);
        shell.struck(self.limit);
        workers.struck(largest, &words::memory(self.limit, 1));
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
