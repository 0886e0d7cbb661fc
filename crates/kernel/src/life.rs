//! Whether this process lives, as far as it can know.
//!
//! Where several processes use one store, each beats. One whose beat stands still is declared dead by
//! the others, who then take its leases. So a process that has not heard of a beat of its own for half
//! of that time begins nothing: it may have been declared dead meanwhile. One that was declared dead
//! stays dead, and goes on under a new id.

mod beat;
mod peers;

use std::{fmt, sync::Arc, time::Duration};

use outlast_protocol::{id::ProcessId, seam::Clock};
use outlast_store::Store;
use tokio::{sync::watch, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{LeaseError, kernel::Inner};
pub(crate) use beat::start;
pub(crate) use peers::watch as watch_peers;

/// Beats in a bound: looks of a peer see each of them, and some may fail.
const PARTS: u32 = 6;

/// How a process says that it lives, where others could declare it dead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Beats {
    /// How long a beat may stand still before its process is declared dead.
    pub bound: Duration,
    /// What beats.
    pub by: Beater,
}

/// What beats.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Beater {
    /// A thread with a runtime of its own, which a busy one cannot starve.
    Thread,
    /// A task, for tests whose clock stands still.
    Task,
}

/// Why a process may have nothing done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Halt {
    /// It does not know whether it lives.
    Unsure,
    /// It is dead.
    Dead,
}

/// What this process knows of its own life.
pub(crate) struct Life {
    clock: Arc<dyn Clock>,
    /// `None` where nobody else could declare it dead.
    beats: Option<Beats>,
    known: watch::Sender<Known>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    process: ProcessId,
    /// When the newest beat that is confirmed was sent, by the clock's uptime.
    beat: Duration,
    dead: bool,
}

impl Life {
    /// Begins a life that was registered at `beat` or later.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        beats: Option<Beats>,
        process: ProcessId,
        beat: Duration,
    ) -> Self {
        let known = Known {
            process,
            beat,
            dead: false,
        };
        Self {
            clock,
            beats,
            known: watch::Sender::new(known),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Returns the id that this process has now.
    pub(crate) fn process(&self) -> ProcessId {
        self.known.borrow().process
    }

    /// Tells whether that id is still this process's own.
    pub(crate) fn is(&self, process: ProcessId) -> bool {
        let known = *self.known.borrow();
        known.process == process && !known.dead
    }

    /// Fails unless a brain of that process may have something done now.
    pub(crate) fn check(&self, process: ProcessId) -> Result<(), Halt> {
        let known = *self.known.borrow();
        if known.process != process || known.dead {
            return Err(Halt::Dead);
        }
        let silent = self.clock.uptime().saturating_sub(known.beat);
        match self.beats {
            Some(beats) if silent >= beats.bound / 2 => Err(Halt::Unsure),
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until a brain of that process may have nothing done.
    pub(crate) async fn halted(&self, process: ProcessId) -> Halt {
        self.until(|life| life.check(process).err()).await
    }

    /// Waits until it may again, or is dead.
    pub(crate) async fn settled(&self, process: ProcessId) -> Result<(), Halt> {
        self.until(|life| match life.check(process) {
            Err(Halt::Unsure) => None,
            known => Some(known),
        })
        .await
    }

    /// Waits until that process is dead.
    pub(crate) async fn died(&self, process: ProcessId) {
        let mut known = self.known.subscribe();
        let over = |known: &Known| known.process != process || known.dead;
        // The sender lives as long as `self` does.
        drop(known.wait_for(over).await);
    }

    /// Waits until `look` finds something. A clock that goes on while the machine sleeps has no timer
    /// that fits, so it is asked again and again.
    async fn until<T>(&self, look: impl Fn(&Self) -> Option<T>) -> T {
        let mut known = self.known.subscribe();
        loop {
            known.borrow_and_update();
            if let Some(found) = look(self) {
                return found;
            }
            let pause = async {
                match self.beats {
                    Some(beats) => sleep(beats.bound / PARTS / 2).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = known.changed() => {}
                () = pause => {}
            }
        }
    }

    /// Notes that a beat which was sent at `sent` was answered: this process lived then.
    fn confirm(&self, process: ProcessId, sent: Duration) {
        self.known.send_if_modified(|known| {
            let newer = known.process == process && sent > known.beat;
            if newer {
                known.beat = sent;
            }
            newer
        });
    }

    /// Notes that this process was declared dead.
    pub(crate) fn declared(&self, process: ProcessId) {
        self.known.send_if_modified(|known| {
            let news = known.process == process && !known.dead;
            known.dead |= news;
            news
        });
    }

    /// Begins the next life, which was registered at `beat` or later.
    fn rise(&self, process: ProcessId, beat: Duration) {
        self.known.send_replace(Known {
            process,
            beat,
            dead: false,
        });
    }

    /// Ends this life for good, and waits until nothing beats any more.
    pub(crate) async fn end(&self) {
        self.declared(self.process());
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life")
            .field("known", &*self.known.borrow())
            .finish_non_exhaustive()
    }
}

impl From<Halt> for LeaseError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Unsure => Self::Unsure,
            Halt::Dead => Self::Over("the process was declared dead".to_owned()),
        }
    }
}

/// Takes a new id whenever this process was declared dead, until the kernel closes.
///
/// Where nobody else uses the store, only a successor could have declared it: then it is over.
pub(crate) async fn rise(inner: Arc<Inner>) {
    if inner.life.beats.is_none() {
        return;
    }
    while !inner.closing.is_cancelled() {
        let dead = inner.life.process();
        tokio::select! {
            biased;
            () = inner.life.died(dead) => {}
            () = inner.closing.cancelled() => return,
        }
        tracing::error!("`{dead}` was declared dead: its turns are others' now");
        let (clock, entropy) = (&inner.clock, &inner.entropy);
        let process = ProcessId::mint(clock.now(), &**entropy);
        tokio::select! {
            biased;
            beat = register(&*inner.store, &**clock, process) => inner.life.rise(process, beat),
            () = inner.closing.cancelled() => return,
        }
        tracing::info!("going on as `{process}`");
        inner.wake.notify_one();
    }
}

/// Registers a process, however long the store cannot be written; returns a moment before that.
async fn register(store: &dyn Store, clock: &dyn Clock, process: ProcessId) -> Duration {
    loop {
        let before = clock.uptime();
        match store.register(process, clock.now()).await {
            Ok(()) => return before,
            Err(fault) => {
                tracing::warn!(%fault, "cannot register `{process}`: {fault}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// How long to wait after a failure of the store.
const PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
