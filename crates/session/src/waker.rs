//! Who wakes a session next: invariant 6 as a function.

use std::time::Duration;

use outlast_protocol::{
    Micros,
    id::{EventId, ProcessId},
};

use crate::{State, Status, Thread};

/// What a thread waits for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Waker {
    /// Nothing: it is over.
    Ended,
    /// A client's next input; nothing is unfinished.
    Input,
    /// An operator, or a client's next input: its turn was given up.
    Parked,
    /// A client's answers to these calls.
    Answers(Vec<EventId>),
    /// The brain of this process, which holds the lease.
    Lease(ProcessId),
    /// Any brain, as soon as one is free.
    Brain,
    /// Any brain, from this moment on.
    Timer(Micros),
}

/// A clock that is so far behind a log was set back. No retry of our own waits for longer, and nodes
/// whose clocks differ by so much are broken.
pub const SET_BACK: Duration = Duration::from_secs(15 * 60);

impl Waker {
    /// Tells whether a brain is wanted at `now` on a thread that nobody holds, in a log whose last
    /// record is of the moment `last`.
    ///
    /// A moment that a clock chose which was set back since then is nothing to wait for.
    pub(crate) fn is_due(&self, now: Micros, last: Micros) -> bool {
        match self {
            Self::Brain => true,
            Self::Timer(at) => *at <= now || now.after(SET_BACK) < last.min(*at),
            Self::Ended | Self::Input | Self::Parked | Self::Answers(_) | Self::Lease(_) => false,
        }
    }
}

impl Thread {
    /// Returns what the thread waits for.
    pub fn waker(&self) -> Waker {
        if self.status == Status::Terminated {
            return Waker::Ended;
        }
        if let Some(lease) = &self.lease {
            return Waker::Lease(lease.process);
        }
        if !self.has_work() {
            let asked: Vec<_> = self.asked().map(|call| call.id).collect();
            return match self.parked {
                _ if !asked.is_empty() => Waker::Answers(asked),
                Some(_) => Waker::Parked,
                None => Waker::Input,
            };
        }
        match self.turn.and_then(|turn| turn.retry_at) {
            Some(at) if self.interrupts.is_empty() => Waker::Timer(at),
            _ => Waker::Brain,
        }
    }
}

impl State {
    /// Returns the moment from which a brain is wanted on a thread that nobody holds.
    ///
    /// `Micros(0)` is at once; [`Micros::MAX`] is never by itself, of a thread that is parked; `None`
    /// is not at all.
    pub fn ready_at(&self, thread: u32) -> Option<Micros> {
        match self.thread(thread)?.waker() {
            Waker::Brain => Some(Micros(0)),
            Waker::Timer(at) => Some(at),
            Waker::Parked => Some(Micros::MAX),
            Waker::Ended | Waker::Input | Waker::Answers(_) | Waker::Lease(_) => None,
        }
    }
}
