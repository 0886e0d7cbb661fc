//! What goes wrong: every call that a process makes of a seam is counted, and can fail or be its last.

use std::{
    fmt,
    pin::pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use outlast_protocol::id::SessionId;
use outlast_store::Append;
use tokio::sync::Notify;

/// What happens to a call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fate {
    /// Nothing unusual.
    #[default]
    None,
    /// It fails, and nothing is done. A call that has no way to fail is done.
    Before,
    /// It is done, and its caller is told that it failed. A call that has no way to fail is done.
    After,
    /// Its caller is dead: nothing is done, and nobody hears of it.
    Dead,
    /// Its caller died waiting: it is done, and nobody hears of it.
    Unheard,
}

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Which it is of all, from 1.
    pub number: u64,
    /// The method.
    pub name: &'static str,
    /// What is proposed, if it is an append, and which append it is, from 1.
    pub append: Option<(u64, SessionId, &'a Append)>,
}

/// Decides about a call.
type Hook = dyn FnMut(&Call<'_>) -> Fate + Send;

/// Decides about all calls of one process. The dead make no more.
pub struct Faults {
    calls: AtomicU64,
    appends: AtomicU64,
    hook: Mutex<Box<Hook>>,
    dead: AtomicBool,
    died: Notify,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("calls", &self.calls)
            .field("dead", &self.dead)
            .finish_non_exhaustive()
    }
}

impl Default for Faults {
    fn default() -> Self {
        let hook: Box<Hook> = Box::new(|_| Fate::None);
        Self {
            calls: AtomicU64::new(0),
            appends: AtomicU64::new(0),
            hook: Mutex::new(hook),
            dead: AtomicBool::new(false),
            died: Notify::new(),
        }
    }
}

impl Faults {
    /// Lets a function decide about every call; it replaces what decided before.
    pub fn hook(&self, hook: impl FnMut(&Call<'_>) -> Fate + Send + 'static) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(hook);
    }

    /// Ends the process: nothing that it has under way is heard of, and nothing new is done.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.died.notify_waiters();
    }

    /// Tells whether the process is dead.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Waits until the process is dead.
    pub async fn died(&self) {
        // Registered before the look; those who wait are woken in the order in which they came.
        let mut told = pin!(self.died.notified());
        told.as_mut().enable();
        if !self.is_dead() {
            told.await;
        }
    }

    /// Returns how many calls were made.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns how many appends were proposed.
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::SeqCst)
    }

    /// Makes a call that can fail, unless something else happens to it.
    pub async fn pass<T, E>(
        &self,
        name: &'static str,
        doing: impl Future<Output = Result<T, E>>,
        failure: impl FnOnce() -> E,
    ) -> Result<T, E> {
        let fate = self.decide(name, None);
        self.finish(fate, doing, failure).await
    }

    /// Makes a call that has no way to fail.
    pub async fn pass_whole<T>(&self, name: &'static str, doing: impl Future<Output = T>) -> T {
        match self.decide(name, None) {
            Fate::None | Fate::Before | Fate::After => self.heard(doing.await).await,
            Fate::Dead => std::future::pending().await,
            Fate::Unheard => {
                drop(doing.await);
                std::future::pending().await
            }
        }
    }

    /// Decides about a call; whoever dies of it makes no more.
    pub(crate) fn decide(&self, name: &'static str, append: Option<(SessionId, &Append)>) -> Fate {
        if self.is_dead() {
            return Fate::Dead;
        }
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let append = append.map(|(session, append)| {
            let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
            (number, session, append)
        });
        let call = Call {
            number,
            name,
            append,
        };
        let fate = {
            let mut hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
            hook(&call)
        };
        if matches!(fate, Fate::Dead | Fate::Unheard) {
            self.kill();
        }
        fate
    }

    /// Does what was decided about.
    pub(crate) async fn finish<T, E>(
        &self,
        fate: Fate,
        doing: impl Future<Output = Result<T, E>>,
        failure: impl FnOnce() -> E,
    ) -> Result<T, E> {
        match fate {
            Fate::None => self.heard(doing.await).await,
            Fate::Before => Err(failure()),
            Fate::After => {
                let done = doing.await;
                self.heard(done).await?;
                Err(failure())
            }
            Fate::Dead => std::future::pending().await,
            Fate::Unheard => {
                drop(doing.await);
                std::future::pending().await
            }
        }
    }

    /// Hands an answer on, unless whoever asked died meanwhile.
    async fn heard<T>(&self, answer: T) -> T {
        if self.is_dead() {
            drop(answer);
            return std::future::pending().await;
        }
        answer
    }
}
