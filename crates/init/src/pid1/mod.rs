//! PID 1: one thread, one loop, no blocking.
//!
//! It reads frames, feeds the shell and the workers, reaps whatever dies, and writes answers. On
//! every wake-up it tries everything; what cannot go on says so and costs one system call.

mod ansi;
mod memory;
mod pipe;
mod processes;
mod shell;
mod spill;
mod tail;
mod workers;

use std::{
    fs::File,
    io,
    os::fd::{AsFd as _, OwnedFd},
    process::ExitCode,
    time::Duration,
};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{DumpableBehavior, Pid, WaitOptions, WaitStatus, set_dumpable_behavior},
};
use serde_json::value::RawValue;

use crate::{
    frame::{Answer, Decoder, Ended, FromInit, Settings, ToInit, VERSION, encode},
    outlet, tools,
};
use memory::Watch;
use pipe::{Outbox, ReadEnd, read_some};
use shell::Shell;
use workers::Workers;

/// A call that is over.
#[derive(Debug)]
struct Settled {
    id: String,
    answer: Answer,
}

impl Settled {
    /// Tells whether somebody stopped the call.
    fn was_interrupted(&self) -> bool {
        self.answer.ended == Ended::Interrupted
    }
}

/// Returns the time since the machine was started; it never goes backwards.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Runs until the host closes the channel, which ends everything in the sandbox.
pub fn run() -> ExitCode {
    match Init::start().and_then(Init::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The state of PID 1.
struct Init {
    channel: OwnedFd,
    inbox: Decoder,
    outbox: Outbox,
    signals: SignalFd,
    work: Option<Work>,
}

/// What exists once the settings are known.
struct Work {
    shell: Shell,
    workers: Workers,
    memory: Option<Watch>,
}

impl Init {
    /// Takes the channel from descriptor 0 and closes what commands could look at.
    fn start() -> io::Result<Self> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGCHLD);
        signals.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&signals, flags)?;
        let channel = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
        pipe::make_nonblocking(&channel)?;
        let outbox = Outbox::new(channel.try_clone()?);
        Ok(Self {
            channel,
            inbox: Decoder::default(),
            outbox,
            signals,
            work: None,
        })
    }

    /// The loop.
    fn serve(mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            self.reap();
            let open = self.receive()?;
            if let Some(work) = &mut self.work {
                let now = now();
                let watch = work.memory.as_mut();
                let struck =
                    watch.and_then(|watch| watch.look(now, &mut work.shell, &mut work.workers));
                let over = work.shell.advance(now).into_iter();
                let over: Vec<_> = over.chain(work.workers.advance(now)).collect();
                if let Some(words) = struck {
                    self.send(&FromInit::Struck { words })?;
                }
                for settled in over {
                    self.answer(settled)?;
                }
            }
            self.outbox.flush()?;
            if !open {
                return Ok(());
            }
        }
    }

    /// Sleeps until something can be done.
    fn wait(&self) -> io::Result<()> {
        let channel = match self.outbox.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        let mut fds = vec![
            PollFd::new(&self.channel, channel),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        let mut deadline = None;
        if let Some(work) = &self.work {
            work.shell.watch(&mut fds);
            work.workers.watch(&mut fds);
            let memory = work
                .memory
                .as_ref()
                .and_then(|memory| memory.deadline(&work.shell));
            deadline = [work.shell.deadline(), work.workers.deadline(), memory]
                .into_iter()
                .flatten()
                .min();
        }
        let timeout = deadline.map(|deadline| timespec(deadline.saturating_sub(now())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes every child that has ended, adopted ones too.
    fn reap(&mut self) {
        while matches!(self.signals.read_signal(), Ok(Some(_))) {}
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            self.ended(pid, status);
        }
    }

    /// Tells whoever started the process.
    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        if let Some(work) = &mut self.work {
            work.shell.ended(pid, status);
            work.workers.ended(pid, status);
        }
    }

    /// Reads frames. Returns whether the channel is still open.
    fn receive(&mut self) -> io::Result<bool> {
        let mut open = true;
        loop {
            match read_some(&self.channel, usize::MAX, |bytes| self.inbox.push(bytes))? {
                ReadEnd::Blocked => break,
                ReadEnd::Closed => {
                    open = false;
                    break;
                }
                ReadEnd::Limit => {}
            }
        }
        while let Some(frame) = self.inbox.take()? {
            self.take(frame)?;
        }
        Ok(open)
    }

    /// Acts on one frame.
    fn take(&mut self, frame: ToInit) -> io::Result<()> {
        match (frame, &mut self.work) {
            (ToInit::Hello(settings), None) => self.hello(&settings),
            (ToInit::Hello(_), Some(_)) | (ToInit::Call { .. } | ToInit::Cancel { .. }, None) => {
                Err(io::Error::other("a frame at the wrong time"))
            }
            (ToInit::Cancel { id }, Some(work)) => {
                let settled = work
                    .workers
                    .cancel(&id)
                    .or_else(|| work.shell.cancel(&id, now()));
                settled.map_or(Ok(()), |settled| self.answer(settled))
            }
            (ToInit::Call { id, name, input }, Some(_)) => self.call(id, &name, input),
        }
    }

    /// Takes the settings.
    fn hello(&mut self, settings: &Settings) -> io::Result<()> {
        // First: what runs inside later must not have the address.
        let outlet = match settings.outlet.then(outlet::open).transpose() {
            Ok(outlet) => outlet,
            Err(error) => {
                let reason = format!("cannot listen on {}: {error}", outlet::ADDRESS);
                return self.send(&FromInit::Unfit { reason });
            }
        };
        let door = settings.door.then(door).transpose()?;
        self.work = Some(Work {
            shell: Shell::new(settings, door),
            workers: Workers::new(settings),
            memory: Watch::new(settings),
        });
        let ready = encode(&FromInit::Ready { version: VERSION })?;
        self.greet(&ready, outlet.as_ref())?;
        // The host's alone from here on.
        drop(outlet);
        if let Some(work) = &mut self.work {
            // A hand is made when a call waits for it, most often one for the shell, which so starts
            // while that call is on its way.
            work.shell.warm();
        }
        Ok(())
    }

    /// Answers the first frame, with the listener if there is one.
    fn greet(&mut self, ready: &[u8], outlet: Option<&OwnedFd>) -> io::Result<()> {
        // Nothing was sent before, so a frame this short is taken whole.
        let sent = match outlet {
            Some(outlet) => outlet::give(&self.channel, ready, outlet)?,
            None => 0,
        };
        self.outbox.push(ready.get(sent..).unwrap_or_default());
        self.outbox.flush()
    }

    /// Begins a call.
    fn call(&mut self, id: String, name: &str, input: Box<RawValue>) -> io::Result<()> {
        let Some(work) = &mut self.work else {
            return Ok(());
        };
        let refused = match name {
            "bash" => work.shell.submit(id.clone(), input.get()),
            _ if tools::find(name).is_some() => work.workers.submit(id.clone(), name, input, now()),
            _ => Err(tools::unknown(name)),
        };
        match refused {
            Ok(()) => Ok(()),
            Err(text) => self.answer(Settled {
                id,
                answer: Answer::error(text),
            }),
        }
    }

    /// Sends the answer to a call.
    fn answer(&mut self, settled: Settled) -> io::Result<()> {
        let answer = spill::fit(&settled.id, settled.answer);
        self.send(&FromInit::Settled {
            id: settled.id,
            answer,
        })
    }

    /// Queues a frame.
    fn send(&mut self, frame: &FromInit) -> io::Result<()> {
        self.outbox.push(&encode(frame)?);
        self.outbox.flush()
    }
}

/// Takes the door from descriptor 1, where nothing else could be let in by accident.
fn door() -> io::Result<OwnedFd> {
    let door = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 3)?;
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(door)
}

/// Turns a duration into what `poll` takes.
fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
