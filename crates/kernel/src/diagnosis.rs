//! Who has to do what next, for operators who may not see user data.
//!
//! Everything is read from the state at the head and from the newest records; nothing of a body
//! but kinds of errors and outcomes is looked at.

mod threads;
mod troubles;
mod words;

use std::{collections::HashSet, sync::Arc};

use outlast_hands::Silence;
use outlast_protocol::{
    Micros, Problem,
    diagnosis::{
        HandDiagnosis, Holder, ServerDiagnosis, SessionDiagnosis, SessionOutline, SessionWake,
        Silent, ThreadWake, Unfinished, WaitsFor,
    },
    id::{ProcessId, SessionId},
};
use outlast_session::{State, Waker};
use outlast_store::{Order, Ready, Slice};

use crate::{Kernel, dispatch, error, kernel::Inner};

use words::Lacks;

/// Unfinished sessions that are listed for a server.
const LISTED: usize = 100;

/// Unfinished sessions that are looked at.
const LOOKED: usize = 10_000;

/// The processes that live, as far as the store knows.
type Living = HashSet<ProcessId>;

impl Kernel {
    /// Says what a session waits for and what went wrong with it last.
    ///
    /// # Errors
    ///
    /// If there is no such session, or the store cannot be read.
    pub async fn diagnose(&self, session: SessionId) -> Result<SessionDiagnosis, Problem> {
        let (inner, state) = (&self.0, self.state(session).await?);
        let living = inner.living().await?;
        let newest = inner.newest(&state).await?;
        let threads = threads::all(inner, &state, &newest, &living);
        let stuck = (0_u32..)
            .take(state.threads.len())
            .any(|number| inner.monitor.is_stuck(session, number));
        let (silent, failure) = (inner.silent(), inner.store_failure());
        Ok(SessionDiagnosis {
            session_id: session,
            at: inner.clock.now(),
            status: state.shown(),
            tail: state.tail,
            last_record_at: state.at,
            verdict: words::verdict(
                &state,
                &threads,
                stuck,
                inner.slots.available_permits(),
                Lacks {
                    silent: silent.as_ref(),
                    store: failure.as_ref(),
                },
            ),
            stuck,
            next_deadline: state.next_deadline(),
            hand: inner.hand_of(&state),
            troubles: inner
                .troubles(&state, &newest, silent.as_ref(), failure.as_ref())
                .await?,
            silent,
            threads,
        })
    }

    /// Says what this process does and which sessions are unfinished.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn diagnose_server(&self) -> Result<ServerDiagnosis, Problem> {
        let inner = &self.0;
        let seen = inner.look().await?;
        let mut waiting = std::collections::BTreeMap::new();
        for one in &seen {
            *waiting.entry(one.waits_for.word().to_owned()).or_default() += 1;
        }
        let mut sessions = seen;
        sessions.sort_by_key(|one| (!one.stuck, one.last_record_at));
        sessions.truncate(LISTED);
        let failure = inner.store_failure();
        Ok(ServerDiagnosis {
            // The vault is no part of the kernel: whoever has both fills it in.
            vault: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process_id: inner.life.process(),
            at: inner.clock.now(),
            brains: inner.options.brains.max(1),
            busy: self.turns(),
            store_failed_at: failure.as_ref().map(|failure| failure.at),
            store_failure: failure,
            hands: inner.hands.count(),
            silent: inner.silent(),
            waiting,
            sessions,
        })
    }

    /// Returns the newest records of a session without their bodies, the newest first.
    ///
    /// # Errors
    ///
    /// If there is no such session, or the store cannot be read.
    pub async fn outline(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<SessionOutline, Problem> {
        let slice = Slice {
            order: Order::Backwards,
            ..Slice::after(u64::MAX, limit)
        };
        let records = self.0.store.read(session, slice).await;
        let records = records.map_err(|fault| error::of(session, &fault))?;
        Ok(SessionOutline {
            session_id: session,
            records: records.iter().map(threads::outline).collect(),
        })
    }

    /// Starts some brain on whatever of a session wants one now, or is parked; safe to repeat.
    ///
    /// A thread that a living brain has, that a client has to answer or whose moment has not come
    /// is left as it is: the answer says so.
    ///
    /// # Errors
    ///
    /// If there is no such session, or the store cannot be read.
    pub async fn wake(&self, session: SessionId) -> Result<SessionWake, Problem> {
        let (inner, state) = (&self.0, self.state(session).await?);
        let living = inner.living().await?;
        let mut threads = Vec::new();
        for (thread, seen) in (0_u32..).zip(&state.threads) {
            let claim = inner.takeable(&state, thread, &living);
            let woken = match claim {
                Some(ready) => dispatch::claim(inner, ready).await,
                None if seen.waker() == Waker::Parked => {
                    dispatch::revive(inner, session, thread).await
                }
                None => false,
            };
            threads.push((seen.id, thread, woken));
        }
        let state = self.state(session).await?;
        let shown = threads.into_iter().map(|(thread_id, number, woken)| {
            let waits_for = inner.waits_for(&state, number, &living);
            ThreadWake {
                thread_id,
                woken,
                waits_for,
            }
        });
        Ok(SessionWake {
            session_id: session,
            threads: shown.collect(),
        })
    }
}

impl Inner {
    /// Returns every unfinished thread with what it waits for.
    pub(crate) async fn look(self: &Arc<Self>) -> Result<Vec<Unfinished>, Problem> {
        let found = self.store.unfinished(LOOKED).await;
        let found = found.map_err(|fault| error::read(&fault))?;
        let living = self.living().await?;
        let mut seen = Vec::new();
        for session in found {
            // One that was deleted meanwhile is finished.
            let Ok(state) = self.store.head(session).await else {
                continue;
            };
            for (number, thread) in (0_u32..).zip(&state.threads) {
                let waits_for = self.waits_for(&state, number, &living);
                if thread.is_at_rest() && matches!(waits_for, WaitsFor::Input | WaitsFor::Nothing) {
                    continue;
                }
                seen.push(Unfinished {
                    session_id: session,
                    thread_id: thread.id,
                    status: thread.status,
                    waits_for,
                    last_record_at: state.at,
                    stuck: self.monitor.is_stuck(session, number),
                });
            }
        }
        Ok(seen)
    }

    /// Returns what has the hands and does not answer.
    fn silent(&self) -> Option<Silent> {
        let Silence { who, since } = self.hands.provisioner().silence()?;
        let lasted = i64::try_from(since.elapsed().as_micros()).unwrap_or(i64::MAX);
        let since = Micros(self.clock.now().0.saturating_sub(lasted));
        Some(Silent { who, since })
    }

    /// Returns what is known of a session's hand.
    fn hand_of(&self, state: &State) -> Option<HandDiagnosis> {
        let hand = state.hand?;
        Some(HandDiagnosis {
            incarnation: hand.incarnation,
            lost: hand.lost,
            begun: hand.begun,
            checkpoint_at: state.checkpoint().map(|checkpoint| checkpoint.at),
            unreadable_at: state.unreadable(),
            missing_files: self.hands.placed.missing(hand.incarnation),
        })
    }

    /// Returns which processes live.
    async fn living(&self) -> Result<Living, Problem> {
        let known = self.store.processes().await;
        let known = known.map_err(|fault| error::read(&fault))?;
        let living = known.into_iter().filter(|process| !process.dead);
        Ok(living.map(|process| process.id).collect())
    }

    /// Returns what a thread waits for, as the wire has it.
    fn waits_for(&self, state: &State, thread: u32, living: &Living) -> WaitsFor {
        let Some(seen) = state.thread(thread) else {
            return WaitsFor::Nothing;
        };
        match seen.waker() {
            Waker::Ended => WaitsFor::Nothing,
            Waker::Input => WaitsFor::Input,
            Waker::Parked => match seen.parked {
                Some(parked) => WaitsFor::Operator {
                    attempts: parked.attempts,
                    parked_at: parked.at,
                },
                None => WaitsFor::Input,
            },
            Waker::Answers(event_ids) => WaitsFor::Answers { event_ids },
            Waker::Brain => WaitsFor::AnyBrain,
            Waker::Timer(at) => WaitsFor::Timer { at },
            Waker::Lease(process_id) => {
                let here = self.leases.has(state.id, thread, seen.epoch);
                let holder = match (process_id == self.life.process(), here) {
                    (true, true) => Holder::Here,
                    (true, false) => Holder::Forgotten,
                    (false, _) if living.contains(&process_id) => Holder::Elsewhere,
                    (false, _) => Holder::Dead,
                };
                WaitsFor::Brain { process_id, holder }
            }
        }
    }

    /// Returns how a thread would be claimed, if it can be claimed now.
    pub(crate) fn takeable(&self, state: &State, thread: u32, living: &Living) -> Option<Ready> {
        let (session, now) = (state.id, self.clock.now());
        let ready = |dead| Ready {
            session,
            thread,
            dead,
        };
        match self.waits_for(state, thread, living) {
            WaitsFor::AnyBrain => Some(ready(None)),
            WaitsFor::Timer { at } => (at <= now).then(|| ready(None)),
            WaitsFor::Brain { process_id, holder } => match holder {
                Holder::Forgotten | Holder::Dead => Some(ready(Some(process_id))),
                Holder::Here | Holder::Elsewhere => None,
            },
            WaitsFor::Nothing
            | WaitsFor::Input
            | WaitsFor::Answers { .. }
            | WaitsFor::Operator { .. } => None,
        }
    }
}
