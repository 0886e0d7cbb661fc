//! The contract of a log, in memory.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::{
    Micros,
    id::{EventId, IncarnationId, SessionId},
};
use outlast_session::{Kind, Record, State, Status};
use outlast_store::{
    Append, Listing, Log, Order, Pending, ReadError, Ready, SessionQuery, Slice, Snapshot,
};
use tokio::sync::watch;

use super::{Inner, Memory, Session};

#[async_trait]
impl Log for Memory {
    fn append(&self, session: SessionId, append: Append) -> Pending {
        let answer = self.decide(session, &append);
        if let (Ok(outcome), Some(observer)) = (&answer, &mut *self.observer()) {
            observer(outcome);
        }
        Box::pin(async { answer })
    }

    async fn head(&self, session: SessionId) -> Result<Arc<State>, ReadError> {
        self.with(session, |log| Ok(log.state.clone()))
    }

    async fn read(&self, session: SessionId, slice: Slice) -> Result<Vec<Record>, ReadError> {
        self.with(session, |log| Ok(cut(&log.records, &slice)))
    }

    async fn find(&self, session: SessionId, event: EventId) -> Result<Record, ReadError> {
        self.with(session, |log| {
            let found = log.events.get(&event).copied();
            let record = found.and_then(|index| log.records.get(index));
            record
                .cloned()
                .ok_or_else(|| ReadError::NotFound(event.to_string()))
        })
    }

    async fn of_event(&self, session: SessionId, event: EventId) -> Result<Vec<Record>, ReadError> {
        self.with(session, |log| {
            let records = log.records.iter();
            let own = records.filter(|record| record.event == Some(event));
            Ok(own.cloned().collect())
        })
    }

    async fn scrub(&self) -> Result<(), ReadError> {
        Ok(())
    }

    async fn position_at(&self, session: SessionId, at: Micros) -> Result<u64, ReadError> {
        self.with(session, |log| {
            // Times never go backwards.
            let count = log.records.partition_point(|record| record.at <= at);
            Ok(u64::try_from(count).unwrap_or(u64::MAX))
        })
    }

    async fn watch(&self, session: SessionId) -> Result<watch::Receiver<u64>, ReadError> {
        let mut inner = self.lock();
        let log = inner.logs.get_mut(&session);
        let log = log.filter(|log| !log.state.deleted);
        let log = log.ok_or_else(|| ReadError::NotFound(session.to_string()))?;
        let (watched, watching) = watch::channel(log.state.tail);
        log.tails.push(watched);
        Ok(watching)
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Listing, ReadError> {
        let inner = self.lock();
        let mut found: Vec<Arc<State>> = inner.logs.values().map(|log| log.state.clone()).collect();
        found.retain(|state| !state.deleted && fits(state, query));
        found.sort_by_key(|state| (state.created_at, state.id));
        if query.order == Order::Backwards {
            found.reverse();
        }
        let more = found.len() > query.limit;
        found.truncate(query.limit);
        Ok(Listing {
            sessions: found,
            more,
        })
    }

    async fn ready(&self, now: Micros, limit: usize) -> Result<Vec<Ready>, ReadError> {
        let inner = self.lock();
        let live = inner.logs.values().filter(|log| !log.state.deleted);
        let mut waiting: Vec<_> = live.flat_map(|log| inner.waiting(log, now)).collect();
        waiting.sort_by_key(|(since, ready)| (*since, ready.session, ready.thread));
        Ok(waiting
            .into_iter()
            .map(|(_, ready)| ready)
            .take(limit)
            .collect())
    }

    async fn next_ready(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        let inner = self.lock();
        let live = inner.logs.values().filter(|log| !log.state.deleted);
        let moments = live.flat_map(|log| {
            let threads = (0_u32..).take(log.state.threads.len());
            threads.filter_map(|number| log.state.ready_at(number))
        });
        Ok(moments.filter(|at| *at > now).min())
    }

    async fn overdue(&self, now: Micros, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        let inner = self.lock();
        let next = |log: &Session| {
            log.state
                .next_deadline()
                .map(|next| (next.at, log.state.id))
        };
        let mut due: Vec<_> = inner.logs.values().filter_map(next).collect();
        due.retain(|(at, _)| *at <= now);
        due.sort_unstable();
        Ok(due.into_iter().map(|(_, id)| id).take(limit).collect())
    }

    async fn next_deadline(&self, now: Micros) -> Result<Option<Micros>, ReadError> {
        let inner = self.lock();
        let moments = inner.logs.values();
        let moments = moments.filter_map(|log| Some(log.state.next_deadline()?.at));
        Ok(moments.filter(|at| *at > now).min())
    }

    async fn unfinished(&self, limit: usize) -> Result<Vec<SessionId>, ReadError> {
        let inner = self.lock();
        let live = inner.logs.values().filter(|log| !log.state.deleted);
        let found = live.filter(|log| is_unfinished(&log.state));
        Ok(found.map(|log| log.state.id).take(limit).collect())
    }

    async fn named(
        &self,
        hands: &[IncarnationId],
    ) -> Result<Vec<(IncarnationId, SessionId)>, ReadError> {
        let inner = self.lock();
        let all = inner.logs.iter().flat_map(|(session, log)| {
            let hands = log.state.named_hands().into_iter();
            hands.map(|hand| (hand, *session))
        });
        let all: BTreeMap<_, _> = all.collect();
        let named = |hand: &IncarnationId| Some((*hand, *all.get(hand)?));
        Ok(hands.iter().filter_map(named).collect())
    }

    async fn save_snapshot(&self, snapshot: Snapshot) -> Result<(), ReadError> {
        let mut inner = self.lock();
        let log = inner
            .logs
            .get_mut(&snapshot.session)
            .filter(|log| !log.state.deleted);
        let log = log.ok_or_else(|| ReadError::NotFound(snapshot.session.to_string()))?;
        let key = (snapshot.thread, snapshot.name.clone());
        let known = log.snapshots.get(&key).map_or(0, |known| known.position);
        let erased =
            |record: &Record| record.kind == Kind::Erased && record.position > snapshot.position;
        if snapshot.position >= known && !log.records.iter().any(erased) {
            log.snapshots.insert(key, snapshot);
        }
        Ok(())
    }

    async fn snapshot(
        &self,
        session: SessionId,
        thread: u32,
        name: &str,
    ) -> Result<Option<Snapshot>, ReadError> {
        self.with(session, |log| {
            Ok(log.snapshots.get(&(thread, name.to_owned())).cloned())
        })
    }

    async fn purge(&self, limit: usize) -> Result<usize, ReadError> {
        let mut inner = self.lock();
        let mut gone = 0;
        inner.logs.retain(|_, log| {
            while log.state.deleted && gone < limit {
                gone += 1;
                if log.records.pop().is_none() {
                    return false;
                }
            }
            true
        });
        Ok(gone)
    }
}

impl Memory {
    fn with<T>(
        &self,
        session: SessionId,
        look: impl FnOnce(&Session) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match self.lock().live(session) {
            Some(log) => look(log),
            None => Err(ReadError::NotFound(session.to_string())),
        }
    }
}

impl Inner {
    /// Returns the threads of a session that want a brain, and since when.
    fn waiting(&self, log: &Session, now: Micros) -> Vec<(Micros, Ready)> {
        let (session, mut found) = (log.state.id, Vec::new());
        for (thread, seen) in (0_u32..).zip(&log.state.threads) {
            let since = log.since.get(&thread).copied().unwrap_or_default();
            let beyond = now.after(outlast_session::SET_BACK);
            let due = |at: &Micros| *at <= now || (*at < Micros::MAX && beyond < since.min(*at));
            let due = log.state.ready_at(thread).filter(due);
            if let Some(at) = due {
                let since = if at == Micros(0) { since } else { at };
                found.push((
                    since,
                    Ready {
                        session,
                        thread,
                        dead: None,
                    },
                ));
            }
            let holder = seen.lease.as_ref().map(|lease| lease.process);
            let dead = holder.filter(|holder| !self.lives(*holder));
            if dead.is_some() && seen.has_work() {
                found.push((
                    log.state.at,
                    Ready {
                        session,
                        thread,
                        dead,
                    },
                ));
            }
        }
        found
    }
}

/// Tells whether a thread is not at rest.
fn is_unfinished(state: &State) -> bool {
    let works = matches!(state.status, Status::Running | Status::Rescheduling);
    let waits = |number| state.ready_at(number).is_some();
    let held = state.threads.iter().any(|thread| thread.lease.is_some());
    works || held || (0_u32..).take(state.threads.len()).any(waits)
}

/// Cuts a slice out of a log.
fn cut(records: &[Record], slice: &Slice) -> Vec<Record> {
    let fits = |record: &&Record| {
        let shown = !slice.public || record.kind.is_public();
        let kind = slice.kinds.is_empty() || slice.kinds.contains(&record.kind);
        shown && kind && slice.thread.is_none_or(|thread| thread == record.thread)
    };
    let from = |is: fn(u64, u64) -> bool| {
        records.partition_point(|record| is(record.position, slice.from))
    };
    let ordered: Box<dyn Iterator<Item = &Record>> = match slice.order {
        Order::Forwards => Box::new(records.iter().skip(from(|position, from| position <= from))),
        Order::Backwards => {
            let before = from(|position, from| position < from);
            Box::new(records.iter().take(before).rev())
        }
    };
    let (mut used, mut found) = (0, Vec::new());
    for record in ordered.filter(fits).take(slice.limit) {
        used += record.body.text().len();
        if slice.bytes > 0 && used > slice.bytes && !found.is_empty() {
            break;
        }
        found.push(record.clone());
    }
    found
}

fn fits(state: &State, query: &SessionQuery) -> bool {
    let Some(config) = &state.config else {
        return false;
    };
    let (at, key) = (state.created_at, (state.created_at, state.id));
    query.agent.is_none_or(|id| id == config.agent.id)
        && query
            .agent_version
            .is_none_or(|version| version == u64::from(config.agent.version))
        && (query.statuses.is_empty() || query.statuses.contains(&state.shown()))
        && query.created_gt.is_none_or(|bound| at > bound)
        && query.created_gte.is_none_or(|bound| at >= bound)
        && query.created_lt.is_none_or(|bound| at < bound)
        && query.created_lte.is_none_or(|bound| at <= bound)
        && (query.archived || state.archived_at.is_none())
        && query.after.is_none_or(|after| match query.order {
            Order::Forwards => key > after,
            Order::Backwards => key < after,
        })
}
