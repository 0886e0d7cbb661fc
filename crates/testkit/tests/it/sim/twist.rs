//! What a simulation is made to get wrong, to see that its checks find it.

use std::{sync::Arc, time::Duration};

use outlast_session::{Record, Status};
use outlast_store::{Append, Ready, Slice};
use outlast_testkit::mortal::Wrong;
use tokio::time::sleep;

use super::watch::Watcher;
use crate::sim::world::{World, spawn};

/// One thing that is wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Twist {
    /// Nothing.
    None,
    /// The store forgets appends that it said were durable.
    ForgottenAppends,
    /// A body is another one than was written.
    AlteredBody,
    /// A state does not follow from its log.
    DriftedState,
    /// A hand that is gone denies the calls that it had.
    ForgetfulHands,
    /// A record is left out where a log is followed.
    GapInStreams,
    /// Nobody is told of threads that want a brain.
    NobodyWakes,
    /// A request that comes again is taken for a new one.
    ForgottenReceipts,
}

impl Twist {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::ForgottenAppends,
        Self::AlteredBody,
        Self::DriftedState,
        Self::ForgetfulHands,
        Self::GapInStreams,
        Self::NobodyWakes,
        Self::ForgottenReceipts,
    ];

    /// Twists a world before its first process.
    pub(crate) fn prepare(self, world: &mut World) {
        world.forgetful = self == Self::ForgetfulHands;
        world.wrong = Some(Arc::new(self));
    }

    /// Twists it while it goes on.
    pub(crate) fn begin(self, world: &Arc<World>, watcher: &Watcher) {
        let (memory, watcher) = (world.memory.clone(), watcher.clone());
        let twist = move |session| match self {
            Self::ForgottenAppends => memory.forget(session, 2),
            Self::AlteredBody => memory.alter(session, 1),
            Self::DriftedState => memory.drift(session, |state| state.status = Status::Terminated),
            Self::None
            | Self::ForgetfulHands
            | Self::GapInStreams
            | Self::NobodyWakes
            | Self::ForgottenReceipts => {}
        };
        spawn(async move {
            for round in 0_usize.. {
                sleep(Duration::from_secs(3)).await;
                let sessions = watcher.ids();
                if let Some(session) = sessions.get(round % sessions.len().max(1)) {
                    twist(*session);
                }
            }
        });
    }
}

impl Wrong for Twist {
    fn append(&self, append: Append) -> Append {
        let receipt = append.receipt.filter(|_| *self != Self::ForgottenReceipts);
        Append { receipt, ..append }
    }

    fn read(&self, slice: &Slice, mut records: Vec<Record>) -> Vec<Record> {
        // Followers read pages that are bounded in bytes.
        let follows = slice.bytes > 0 && !slice.public;
        if *self == Self::GapInStreams && follows && records.len() > 2 {
            records.retain(|record| record.position % 3 > 0);
        }
        records
    }

    fn ready(&self, ready: Vec<Ready>) -> Vec<Ready> {
        if *self == Self::NobodyWakes {
            return Vec::new();
        }
        ready
    }
}
