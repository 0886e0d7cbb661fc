//! The persistent shell: one bash, one command at a time.

mod live;

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags},
    process::{Pid, WaitStatus},
};

use super::{Settled, processes::kill_session};
use crate::{
    frame::{Answer, Ended, Settings},
    input::Fields,
    launch::Terms,
};
use live::{Live, Running};

/// How long a command may run if the call does not say.
const DEFAULT_LIMIT: Duration = Duration::from_secs(120);

/// What a model reads where there is no bash: a restart would not help.
const NO_BASH: &str = "bash: there is no /bin/bash in this sandbox: the image that its environment \
                       names brings none. The file tools work without it.";

/// How long a shell may take to end once it was killed.
const GRACE: Duration = Duration::from_millis(300);

/// A call that waits for its turn.
#[derive(Debug)]
struct Waiting {
    id: String,
    order: Order,
}

/// What a call asks for.
#[derive(Debug)]
enum Order {
    Restart,
    Run { command: String, limit: Duration },
}

/// Whether there is a shell.
#[derive(Debug)]
enum State {
    /// There was none so far.
    Fresh,
    /// There is one.
    Alive(Box<Live>),
    /// There was one; a restart makes another.
    Broken(String),
}

/// The shell and the calls for it.
#[derive(Debug)]
pub(super) struct Shell {
    terms: Terms,
    /// Leads to the commands' control group.
    door: Option<OwnedFd>,
    pids: u32,
    output_bytes: usize,
    longest: Duration,
    variables: Vec<(String, String)>,
    state: State,
    waiting: VecDeque<Waiting>,
}

impl Shell {
    /// Begins without a shell; [`Shell::warm`] or the first call starts one.
    pub(super) fn new(settings: &Settings, door: Option<OwnedFd>) -> Self {
        Self {
            terms: Terms::from(settings),
            door,
            pids: settings.pids,
            output_bytes: settings.output_bytes,
            longest: Duration::from_millis(settings.call_ms),
            variables: settings.variables.clone(),
            state: State::Fresh,
            waiting: VecDeque::new(),
        }
    }

    /// Starts the first shell before a call needs it; one that cannot be started is tried again then.
    pub(super) fn warm(&mut self) {
        if matches!(self.state, State::Fresh) && self.start().is_err() {
            self.state = State::Fresh;
        }
    }

    /// Queues a call; an error is its answer at once.
    pub(super) fn submit(&mut self, id: String, input: &str) -> Result<(), String> {
        let mut fields = Fields::parse("bash", input)?;
        let command = fields.text("command")?;
        let restart = fields.flag("restart")?;
        let asked = fields
            .integer("timeout_ms")?
            .and_then(|ms| u64::try_from(ms).ok());
        let limit = asked
            .filter(|ms| *ms > 0)
            .map_or(DEFAULT_LIMIT, Duration::from_millis);
        let order = match (restart, command) {
            (true, _) => Order::Restart,
            (false, None) => return Err("bash: command is required".to_owned()),
            (false, Some(command)) if command.trim().is_empty() => {
                return Err("bash: command must not be empty".to_owned());
            }
            (false, Some(command)) if command.contains('\0') => {
                return Err("bash: command must not contain NUL".to_owned());
            }
            (false, Some(command)) => Order::Run {
                command,
                limit: limit.min(self.longest),
            },
        };
        self.waiting.push_back(Waiting { id, order });
        Ok(())
    }

    /// Stops a call. One that waits is answered at once, one that runs when it has ended.
    pub(super) fn cancel(&mut self, id: &str, now: Duration) -> Option<Settled> {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) {
            self.waiting.remove(at);
            let text = "bash: interrupted before it began".to_owned();
            return Some(Settled {
                id: id.to_owned(),
                answer: Answer::of(text, true, Ended::Interrupted),
            });
        }
        if let State::Alive(live) = &mut self.state
            && live.interrupt(id, now + GRACE)
        {
            // The shell goes too: killing only what it waits for would let it go on with the rest
            // of a command that nobody wants any more.
            kill_session(live.pid());
        }
        None
    }

    /// Takes note of a process that has ended.
    pub(super) fn ended(&mut self, pid: Pid, status: WaitStatus) {
        if let Some(live) = self.live() {
            live.ended(pid, status);
        }
    }

    /// Says that the running command met the memory limit; false if none runs.
    pub(super) fn struck(&mut self, limit: u64) -> bool {
        self.live().is_some_and(|live| live.struck(limit))
    }

    /// Says that the running command made as many processes as there may be; false if none runs.
    pub(super) fn filled(&mut self) -> bool {
        self.live().is_some_and(Live::filled)
    }

    /// Returns the shell, if there is one.
    fn live(&mut self) -> Option<&mut Live> {
        match &mut self.state {
            State::Alive(live) => Some(live),
            State::Fresh | State::Broken(_) => None,
        }
    }

    /// Returns how many processes there may be.
    pub(super) const fn pids(&self) -> u32 {
        self.pids
    }

    /// Returns whether a command runs.
    pub(super) fn is_busy(&self) -> bool {
        matches!(&self.state, State::Alive(live) if live.running().is_some())
    }

    /// Returns whether there is a shell that may have left something running.
    pub(super) const fn is_alive(&self) -> bool {
        matches!(self.state, State::Alive(_))
    }

    /// Adds what to wait for.
    pub(super) fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if let State::Alive(live) = &self.state {
            for (fd, flags) in live.interests() {
                fds.push(PollFd::from_borrowed_fd(fd.as_fd(), flags));
            }
        }
    }

    /// Returns when something has to be done even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Duration> {
        match &self.state {
            State::Alive(live) => live.running().map(Running::next_deadline),
            State::Fresh | State::Broken(_) => None,
        }
    }

    /// Goes on as far as possible; returns the calls that are over.
    pub(super) fn advance(&mut self, now: Duration) -> Vec<Settled> {
        let mut over = Vec::new();
        loop {
            if let State::Alive(live) = &mut self.state {
                let (settled, broken) = live.advance(now);
                let wanted = settled.as_ref().is_some_and(Settled::was_interrupted);
                let unused = live.is_unused();
                over.extend(settled);
                if let Some(why) = broken {
                    // Nobody has seen one that was warmed in vain.
                    self.state = if wanted || unused {
                        State::Fresh
                    } else {
                        State::Broken(why)
                    };
                }
            }
            if self.is_busy() {
                return over;
            }
            let Some(next) = self.waiting.pop_front() else {
                return over;
            };
            over.extend(self.begin(next, now));
        }
    }

    /// Begins a call; returns its answer if that is all.
    fn begin(&mut self, Waiting { id, order }: Waiting, now: Duration) -> Option<Settled> {
        let answer = match order {
            Order::Restart => match self.restart() {
                Ok(()) => Answer::text("bash session restarted"),
                Err(text) => Answer::error(text),
            },
            Order::Run { command, limit } => match self.shell() {
                Ok(live) => {
                    live.begin(id, &command, limit, now);
                    return None;
                }
                Err(text) => Answer::error(text),
            },
        };
        Some(Settled { id, answer })
    }

    /// Returns the shell, and makes the first one.
    fn shell(&mut self) -> Result<&mut Live, String> {
        if matches!(self.state, State::Fresh) {
            self.start()?;
        }
        match &mut self.state {
            State::Alive(live) => Ok(live),
            State::Fresh => Err("bash: no session".to_owned()),
            State::Broken(why) => Err(format!(
                "bash: session terminated ({why}); restart required: call bash with restart: true"
            )),
        }
    }

    /// Ends the shell and what it started, and makes a new one.
    fn restart(&mut self) -> Result<(), String> {
        if let State::Alive(live) = &self.state {
            kill_session(live.pid());
        }
        // What left the session lives on, unless it leaves no room for a new shell.
        super::processes::make_room(self.pids);
        self.start()
    }

    /// Starts a shell.
    fn start(&mut self) -> Result<(), String> {
        let (terms, variables, door) = (&self.terms, &self.variables, self.door.as_ref());
        match Live::start(terms, variables, door, self.pids, self.output_bytes) {
            Ok(live) => {
                self.state = State::Alive(Box::new(live));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.state = State::Fresh;
                Err(NO_BASH.to_owned())
            }
            Err(error) => {
                self.state = State::Broken("it could not be started".to_owned());
                Err(format!("bash: the shell could not be started: {error}"))
            }
        }
    }
}

/// Says what became of a shell that ended by itself.
fn why(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("the shell exited with status {code}"),
        (None, Some(signal)) => format!("the shell was killed by signal {signal}"),
        (None, None) => "the shell ended".to_owned(),
    }
}

/// What a descriptor is watched for.
type Interest<'a> = (&'a OwnedFd, PollFlags);
