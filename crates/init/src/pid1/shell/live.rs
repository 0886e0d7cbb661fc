//! A bash that runs, and the command it runs.
//!
//! Commands go in through its standard input, wrapped so that they see none of it; output comes
//! out of one pipe, and the status of each command out of another that commands do not have. So
//! the end of a command is known although something it left behind may hold the output open.

use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    process::Command,
    time::Duration,
};

use rustix::{
    event::PollFlags,
    io::FdFlags,
    process::{Pid, WaitStatus},
};

use super::{
    super::{
        Settled,
        pipe::{self, Outbox, ReadEnd, read_some},
        processes::{is_crowded, kill_session},
        tail::Tail,
    },
    Interest, why,
};
use crate::{
    frame::{Answer, Ended},
    launch::{self, Terms},
    words,
};

/// The shell's environment. Nothing else is in it but what the host says.
///
/// Packages of the environment are installed for the commands' user, below its home.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("HOME", "/home/agent"),
    ("LANG", "C.UTF-8"),
    ("LOGNAME", "agent"),
    ("NODE_PATH", "/home/agent/.local/lib/node_modules"),
    (
        "PATH",
        "/home/agent/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("SHELL", BASH),
    ("TERM", "dumb"),
    ("USER", "agent"),
];

/// The shell.
const BASH: &str = "/bin/bash";

/// The status pipe gets a number that scripts do not use for their own files.
const STATUS_FD: i32 = 200;

/// What a shell says while it waits for a process to end, so that it can make one.
const RETRY: &str = "fork: retry: Resource temporarily unavailable";

/// A status line is never longer; more is something else's writing.
const STATUS_LINE: usize = 64;

/// The command that runs.
#[derive(Debug)]
pub(super) struct Running {
    id: String,
    serial: u64,
    limit: Duration,
    deadline: Duration,
    /// Until when a shell that was killed for an interrupt may take to end.
    patience: Option<Duration>,
    /// What the memory limit did.
    struck: Option<String>,
    /// How many processes it ended.
    killed: u64,
}

impl Running {
    /// Returns when something has to be done.
    pub(super) fn next_deadline(&self) -> Duration {
        self.patience
            .map_or(self.deadline, |patience| patience.min(self.deadline))
    }
}

/// A running shell.
#[derive(Debug)]
pub(super) struct Live {
    pid: Pid,
    commands: Outbox,
    output: Option<OwnedFd>,
    status: Option<OwnedFd>,
    /// The number of the status pipe in the shell.
    status_number: i32,
    line: Vec<u8>,
    tail: Tail,
    serial: u64,
    running: Option<Running>,
    gone: Option<WaitStatus>,
    /// How many processes there may be, where what a program says of them has to be believed.
    pids: Option<u32>,
}

impl Live {
    /// Starts a shell in a session of its own, and in the commands' control group if that has a door.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is no bash, and what the system says.
    pub(super) fn start(
        terms: &Terms,
        variables: &[(String, String)],
        door: Option<&OwnedFd>,
        pids: u32,
        output_bytes: usize,
    ) -> io::Result<Self> {
        // Looked for here, because nobody hears more of a program that cannot be executed than that
        // it has ended.
        std::fs::metadata(BASH)?;
        let (commands_in, commands) = pipe::pair()?;
        let (output, output_in) = pipe::pair()?;
        let (status, status_in) = pipe::pair()?;
        let status_in = rustix::io::fcntl_dupfd_cloexec(&status_in, STATUS_FD)?;
        for fd in [&commands, &output, &status] {
            pipe::make_nonblocking(fd)?;
        }
        // Inherited by this one child: nothing else is started before it is closed below.
        rustix::io::fcntl_setfd(&status_in, FdFlags::empty())?;
        let terms = terms.through(door.is_some());
        let errors = match door {
            Some(door) => door.try_clone()?,
            None => output_in.try_clone()?,
        };
        let child = Command::new("/proc/self/exe")
            .arg(launch::COMMAND)
            .arg(serde_json::to_string(&terms)?)
            .args([BASH, "--noprofile", "--norc"])
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .envs(ENVIRONMENT)
            .stdin(commands_in)
            .stdout(output_in)
            .stderr(errors)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Self {
            pid: pid.ok_or(io::ErrorKind::InvalidData)?,
            commands: Outbox::new(commands),
            output: Some(output),
            status: Some(status),
            status_number: status_in.as_raw_fd(),
            line: Vec::new(),
            tail: Tail::new(output_bytes),
            serial: 0,
            running: None,
            gone: None,
            pids: door.is_none().then_some(pids),
        })
    }

    /// Returns the shell's pid, which is its session's too.
    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns whether it was never given a command.
    pub(super) const fn is_unused(&self) -> bool {
        self.serial == 0
    }

    /// Returns the command that runs.
    pub(super) const fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// Begins a command. What was printed since the last one belongs to it.
    pub(super) fn begin(&mut self, id: String, command: &str, limit: Duration, now: Duration) {
        self.serial += 1;
        let serial = self.serial;
        self.commands
            .push(wrap(command, serial, self.status_number).as_bytes());
        let deadline = now + limit;
        let (patience, struck, killed) = (None, None, 0);
        self.running = Some(Running {
            id,
            serial,
            limit,
            deadline,
            patience,
            struck,
            killed,
        });
    }

    /// Notes that the command is to stop by `until`; false if another one or none runs.
    pub(super) fn interrupt(&mut self, id: &str, until: Duration) -> bool {
        match &mut self.running {
            Some(running) if running.id == id => {
                running.patience.get_or_insert(until);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Notes that the memory limit ended a process; false if no command runs.
    pub(super) fn struck(&mut self, limit: u64) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        running.killed += 1;
        running.struck = Some(words::memory(limit, running.killed));
        true
    }

    /// Notes that there were as many processes as there may be; false if no command runs.
    pub(super) fn filled(&mut self) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        if let Some(pids) = self.pids {
            running.struck.get_or_insert_with(|| words::processes(pids));
        }
        true
    }

    /// Notes that a process has ended, if it is the shell.
    pub(super) fn ended(&mut self, pid: Pid, status: WaitStatus) {
        if pid == self.pid {
            self.gone = Some(status);
        }
    }

    /// Returns what to wait for.
    pub(super) fn interests(&self) -> impl Iterator<Item = Interest<'_>> {
        let reads = [&self.output, &self.status].into_iter().flatten();
        let writes = (!self.commands.is_empty()).then(|| (self.commands.fd(), PollFlags::OUT));
        reads.map(|fd| (fd, PollFlags::IN)).chain(writes)
    }

    /// Goes on; returns a call that is over, and why there is no shell any more.
    pub(super) fn advance(&mut self, now: Duration) -> (Option<Settled>, Option<String>) {
        // A shell that has closed its input is about to be reaped.
        drop(self.commands.flush());
        self.read_output(usize::MAX);
        let status = self.read_status();
        if let Some(status) = status {
            return (self.finish(status), None);
        }
        if let Some(gone) = self.gone {
            let why = why(gone);
            return (self.broken(&why), Some(why));
        }
        let Some(running) = &self.running else {
            return (None, None);
        };
        if now >= running.next_deadline() {
            let why = match running.patience {
                Some(_) => "a command was interrupted".to_owned(),
                None => format!("a command timed out after {} ms", running.limit.as_millis()),
            };
            kill_session(self.pid);
            return (self.broken(&why), Some(why));
        }
        (None, None)
    }

    /// Reads what was printed.
    fn read_output(&mut self, limit: usize) {
        let Some(output) = &self.output else { return };
        let tail = &mut self.tail;
        if !matches!(
            read_some(output, limit, |bytes| tail.push(bytes)),
            Ok(ReadEnd::Blocked | ReadEnd::Limit)
        ) {
            // Nobody can write to it any more; watching it would wake the loop for ever.
            self.output = None;
        }
    }

    /// Reads what was printed before this moment, and no more: something may print for ever.
    fn drain(&mut self) {
        let there = self
            .output
            .as_ref()
            .and_then(|fd| rustix::io::ioctl_fionread(fd).ok());
        self.read_output(
            there
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(0),
        );
    }

    /// Reads status lines; returns that of the running command.
    fn read_status(&mut self) -> Option<i32> {
        let status = self.status.as_ref()?;
        let line = &mut self.line;
        let read = read_some(status, 64 * STATUS_LINE, |bytes| {
            line.extend_from_slice(bytes)
        });
        if !matches!(read, Ok(ReadEnd::Blocked | ReadEnd::Limit)) {
            self.status = None;
        }
        let serial = self.running.as_ref()?.serial;
        let mut found = None;
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            found = status_of(&line, serial).or(found);
        }
        if self.line.len() > STATUS_LINE {
            self.line.clear();
        }
        found
    }

    /// Answers the command that ended by itself.
    fn finish(&mut self, status: i32) -> Option<Settled> {
        self.drain();
        let running = self.running.take()?;
        let output = self.tail.take();
        // A command that goes on may have printed such words of something else.
        let crowded = self.crowded(&output, status != 0);
        let struck = running.struck.or(crowded);
        let answer = if running.patience.is_some() {
            with(output, "[interrupted]", Ended::Interrupted)
        } else if let Some(struck) = struck.as_ref().filter(|_| status == 0) {
            // What was killed or refused need not have failed the whole, and matters all the same.
            Answer::text(beside(output, struck))
        } else if let Some(struck) = &struck {
            with(output, struck, Ended::Limit)
        } else if status == 0 {
            Answer::text(output)
        } else {
            with(output, &format!("[exit status {status}]"), Ended::Done)
        };
        Some(Settled {
            id: running.id,
            answer,
        })
    }

    /// Answers the command whose shell is gone.
    fn broken(&mut self, why: &str) -> Option<Settled> {
        self.drain();
        let mut running = self.running.take()?;
        let output = self.tail.take();
        if let Some(crowded) = self.crowded(&output, true) {
            running.struck.get_or_insert(crowded);
        }
        let ended = match (&running.patience, self.gone, &running.struck) {
            (Some(_), _, _) => Ended::Interrupted,
            (None, None, _) | (None, Some(_), Some(_)) => Ended::Limit,
            (None, Some(_), None) => Ended::Done,
        };
        let struck = running
            .struck
            .map(|words| format!("{words}\n"))
            .unwrap_or_default();
        let words = if ended == Ended::Interrupted {
            "[interrupted; the next call gets a new shell in /workspace]".to_owned()
        } else {
            format!(
                "{struck}[bash: {why}; the session is terminated, call bash with restart: true]"
            )
        };
        Some(Settled {
            id: running.id,
            answer: with(output, &words, ended),
        })
    }

    /// Says that there were too many processes, if a program said so in the system's own words and
    /// nothing outside counts.
    fn crowded(&self, output: &str, failed: bool) -> Option<String> {
        let pids = self.pids?;
        let refused = output.contains("Resource temporarily unavailable");
        let thread = output.contains("can't start new thread");
        let crowded = thread || refused && (output.contains("fork") || is_crowded(pids));
        // A command that goes on may have printed such words of something else.
        let sure = failed || output.contains(RETRY) || is_crowded(pids);
        (crowded && sure).then(|| words::processes(pids))
    }
}

/// Makes an error of what was printed and what happened.
fn with(output: String, words: &str, ended: Ended) -> Answer {
    Answer::of(beside(output, words), true, ended)
}

fn beside(output: String, words: &str) -> String {
    if output.is_empty() {
        words.to_owned()
    } else {
        format!("{output}\n{words}")
    }
}

/// Reads `serial:status`.
fn status_of(line: &[u8], serial: u64) -> Option<i32> {
    let (number, status) = std::str::from_utf8(line).ok()?.trim_end().split_once(':')?;
    (number.parse() == Ok(serial))
        .then(|| status.parse().ok())
        .flatten()
}

/// Wraps a command: it runs in the shell itself, with empty input and without the status pipe.
///
/// The empty line brings bash's parser back to its senses after an unfinished command: without it
/// the brace would not be seen as one. The braces keep the status line out of a trace.
fn wrap(command: &str, serial: u64, status: i32) -> String {
    let quoted = command.replace('\'', r"'\''");
    format!(
        "eval -- '{quoted}' </dev/null {status}>&-\n\n\
         {{ builtin printf '%s:%s\\n' {serial} \"$?\" >&{status}; }} 2>/dev/null\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_carried_through() {
        assert_eq!(
            wrap("echo 'a b'", 7, 200),
            "eval -- 'echo '\\''a b'\\''' </dev/null 200>&-\n\n\
             { builtin printf '%s:%s\\n' 7 \"$?\" >&200; } 2>/dev/null\n"
        );
    }

    #[test]
    fn only_the_running_commands_status_counts() {
        assert_eq!(status_of(b"7:3\n", 7), Some(3));
        assert_eq!(status_of(b"6:3\n", 7), None);
        assert_eq!(status_of(b"nonsense\n", 7), None);
    }
}
