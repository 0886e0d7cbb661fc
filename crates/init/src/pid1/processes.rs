//! What runs in the sandbox, from `/proc`, and how it is ended.

use std::fs;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Fields of `stat` between the session and the number of threads.
const THREADS: usize = 13;

/// One process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    parent: i32,
    group: i32,
    session: i32,
    alive: bool,
    threads: usize,
}

/// Lists all processes but PID 1.
pub(super) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            read(Pid::from_raw(pid)?)
        })
        .filter(|process| process.pid != Pid::INIT)
        .collect()
}

/// Reads one process; `None` if it has gone.
fn read(pid: Pid) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat(pid, &text)
}

/// Reads a line of `stat`; the name in it may hold anything, so fields count from its end.
fn stat(pid: Pid, text: &str) -> Option<Process> {
    let (_, fields) = text.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let alive = !matches!(fields.next()?, "Z" | "X");
    let mut number = || fields.next()?.parse().ok();
    Some(Process {
        pid,
        parent: number()?,
        group: number()?,
        session: number()?,
        alive,
        threads: fields.nth(THREADS)?.parse().ok()?,
    })
}

/// Kills a shell and its whole session, again until no new one turns up.
///
/// What left the session by `setsid` stays: it was meant to, and ends with the sandbox.
pub(super) fn kill_session(shell: Pid) {
    // One call reaches the whole group at once, so nothing can fork away from it.
    let _ = kill_process_group(shell, Signal::KILL);
    for _ in 0..20 {
        let found = members(shell);
        if found.is_empty() {
            return;
        }
        for process in found {
            // With job control a job has a group of its own.
            if process.group != shell.as_raw_nonzero().get()
                && let Some(group) = Pid::from_raw(process.group)
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = kill_process(process.pid, Signal::KILL);
        }
    }
}

/// Counts processes and threads as their bound does: what has ended and was not waited for is there.
pub(super) fn count(processes: &[Process]) -> usize {
    processes.iter().map(|process| process.threads.max(1)).sum()
}

/// Returns whether less than a quarter of the commands' processes is left.
pub(super) fn is_crowded(pids: u32) -> bool {
    let all = all();
    let alive: Vec<_> = all.into_iter().filter(|process| process.alive).collect();
    count(&alive) > pids as usize / 4 * 3
}

/// Kills everything but PID 1 if there is hardly room for another process.
pub(super) fn make_room(pids: u32) {
    if is_crowded(pids) {
        // From PID 1 this reaches every other process of the sandbox, all at once.
        let everything = nix::unistd::Pid::from_raw(-1);
        let _ = nix::sys::signal::kill(everything, nix::sys::signal::Signal::SIGKILL);
    }
}

/// Returns the living processes of a shell's session and those below it.
fn members(shell: Pid) -> Vec<Process> {
    let id = shell.as_raw_nonzero().get();
    all()
        .into_iter()
        .filter(|process| process.alive)
        .filter(|process| process.session == id || process.parent == id)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_is_passed_over() {
        let pid = Pid::from_raw(7).unwrap();
        let line = "7 (a) b (c)) S 1 5 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 77";
        let expected = Process {
            pid,
            parent: 1,
            group: 5,
            session: 6,
            alive: true,
            threads: 9,
        };
        assert_eq!(stat(pid, line), Some(expected));
        let dead = stat(pid, &line.replace(") S ", ") Z ")).unwrap();
        assert!(!dead.alive && count(&[dead, dead]) == 18);
        assert_eq!(stat(pid, "7 (x) S 1 5 6 0"), None, "cut off");
    }
}
