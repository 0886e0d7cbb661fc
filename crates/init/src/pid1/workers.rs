//! File tools that run, each in a process of its own beside the shell.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd as _, OwnedFd},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags},
    process::{Pid, Signal, WaitStatus, kill_process},
};
use serde_json::value::RawValue;

use super::{
    Settled,
    pipe::{self, Outbox, ReadEnd, read_some},
};
use crate::{
    frame::{Answer, Ended, LONGEST, Settings},
    launch::Terms,
    tools::{
        COMMAND,
        worker::{CPU_SECONDS, Job},
    },
};

/// How long a file tool may take by the clock.
const LIMIT: Duration = Duration::from_secs(120);

/// One tool at work.
#[derive(Debug)]
struct Worker {
    id: String,
    name: String,
    job: Option<Outbox>,
    answer: OwnedFd,
    read: Vec<u8>,
    closed: bool,
    gone: Option<WaitStatus>,
    deadline: Duration,
    struck: Option<String>,
}

/// All tools at work, by pid.
#[derive(Debug)]
pub(super) struct Workers {
    terms: Terms,
    limit: Duration,
    running: BTreeMap<i32, Worker>,
}

impl Workers {
    /// Begins with none.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            terms: Terms::from(settings),
            limit: LIMIT.min(Duration::from_millis(settings.call_ms)),
            running: BTreeMap::new(),
        }
    }

    /// Starts a tool; an error is its answer at once.
    pub(super) fn submit(
        &mut self,
        id: String,
        name: &str,
        input: Box<RawValue>,
        now: Duration,
    ) -> Result<(), String> {
        self.start(id, name, input, now).map_err(|error| {
            if error.kind() == io::ErrorKind::WouldBlock {
                format!(
                    "{name}: the sandbox has as many processes as it may have; end some, or call \
                     bash with restart: true"
                )
            } else {
                format!("{name}: could not be started: {error}")
            }
        })
    }

    /// Starts this program again as the tool.
    fn start(
        &mut self,
        id: String,
        name: &str,
        input: Box<RawValue>,
        now: Duration,
    ) -> io::Result<()> {
        let job = Job {
            terms: self.terms,
            name: name.to_owned(),
            input,
        };
        let (job_in, job_out) = pipe::pair()?;
        let (answer, answer_in) = pipe::pair()?;
        for fd in [&job_out, &answer] {
            pipe::make_nonblocking(fd)?;
        }
        let child = Command::new("/proc/self/exe")
            .arg(COMMAND)
            .env_clear()
            .current_dir("/")
            .stdin(job_in)
            .stdout(answer_in)
            .stderr(Stdio::null())
            .spawn()?;
        let mut job_outbox = Outbox::new(job_out);
        job_outbox.push(&serde_json::to_vec(&job)?);
        let worker = Worker {
            id,
            name: job.name,
            job: Some(job_outbox),
            answer,
            read: Vec::new(),
            closed: false,
            gone: None,
            deadline: now + self.limit,
            struck: None,
        };
        self.running
            .insert(i32::try_from(child.id()).unwrap_or(0), worker);
        Ok(())
    }

    /// Stops a tool and answers for it.
    pub(super) fn cancel(&mut self, id: &str) -> Option<Settled> {
        let pid = *self.running.iter().find(|(_, worker)| worker.id == id)?.0;
        self.end(pid, Ended::Interrupted, |name| {
            format!("{name}: interrupted")
        })
    }

    /// Kills a tool and answers for it.
    fn end(
        &mut self,
        pid: i32,
        ended: Ended,
        words: impl FnOnce(&str) -> String,
    ) -> Option<Settled> {
        let worker = self.running.remove(&pid)?;
        if worker.gone.is_none()
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
        Some(Settled {
            answer: Answer::of(words(&worker.name), true, ended),
            id: worker.id,
        })
    }

    /// Takes note of a process that has ended.
    pub(super) fn ended(&mut self, pid: Pid, status: WaitStatus) {
        if let Some(worker) = self.running.get_mut(&pid.as_raw_nonzero().get()) {
            worker.gone = Some(status);
        }
    }

    /// Says that a process was killed because memory ran out; false if it is no tool.
    pub(super) fn struck(&mut self, pid: Pid, words: &str) -> bool {
        let worker = self.running.get_mut(&pid.as_raw_nonzero().get());
        worker.is_some_and(|worker| {
            worker.struck = Some(words.to_owned());
            true
        })
    }

    /// Returns whether any tool is at work.
    pub(super) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Adds what to wait for.
    pub(super) fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        for worker in self.running.values() {
            if !worker.closed {
                fds.push(PollFd::from_borrowed_fd(
                    worker.answer.as_fd(),
                    PollFlags::IN,
                ));
            }
            if let Some(job) = &worker.job {
                fds.push(PollFd::from_borrowed_fd(job.fd().as_fd(), PollFlags::OUT));
            }
        }
    }

    /// Returns when something has to be done even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.running.values().map(|worker| worker.deadline).min()
    }

    /// Goes on as far as possible; returns the calls that are over.
    pub(super) fn advance(&mut self, now: Duration) -> Vec<Settled> {
        let mut over = Vec::new();
        let pids: Vec<i32> = self.running.keys().copied().collect();
        for pid in pids {
            let Some(worker) = self.running.get_mut(&pid) else {
                continue;
            };
            worker.pump();
            let settled = if worker.gone.is_some() && worker.closed {
                self.running.remove(&pid).map(Worker::settle)
            } else if worker.read.len() > LONGEST {
                self.end(pid, Ended::Limit, |name| {
                    format!("{name}: the result is too long")
                })
            } else if now >= worker.deadline {
                let ms = self.limit.as_millis();
                self.end(pid, Ended::Limit, |name| {
                    format!("{name}: timed out after {ms} ms")
                })
            } else {
                None
            };
            over.extend(settled);
        }
        over
    }
}

impl Worker {
    /// Moves bytes both ways.
    fn pump(&mut self) {
        if let Some(job) = &mut self.job {
            // A worker that does not read any more is about to be reaped.
            let failed = job.flush().is_err();
            if failed || job.is_empty() {
                self.job = None;
            }
        }
        let read = &mut self.read;
        let take = |bytes: &[u8]| read.extend_from_slice(bytes);
        if !self.closed
            && !matches!(
                read_some(&self.answer, usize::MAX, take),
                Ok(ReadEnd::Blocked | ReadEnd::Limit)
            )
        {
            self.closed = true;
        }
    }

    /// Answers for a worker that has ended.
    fn settle(self) -> Settled {
        let name = &self.name;
        let signal = self.gone.and_then(WaitStatus::terminating_signal);
        let answer = match (serde_json::from_slice(&self.read), signal, self.struck) {
            (Ok(answer), None, _) => answer,
            (_, _, Some(struck)) => Answer::of(format!("{name}: {struck}"), true, Ended::Limit),
            (_, Some(signal), None) if signal == Signal::XCPU.as_raw() => Answer::of(
                format!("{name}: timed out after {CPU_SECONDS} s of processor time"),
                true,
                Ended::Limit,
            ),
            (_, Some(signal), None) => {
                Answer::error(format!("{name}: its process was killed by signal {signal}"))
            }
            (Err(_), None, None) => {
                Answer::error(format!("{name}: its process ended without an answer"))
            }
        };
        Settled {
            id: self.id,
            answer,
        }
    }
}
