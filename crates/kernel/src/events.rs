//! Pages of events: placed ones by position, then those that still wait, by arrival.

use std::collections::HashSet;

use outlast_protocol::{
    Micros, Problem,
    id::{EventId, SessionId},
};
use outlast_session::{Kind, Record, State};
use outlast_store::{Order, Slice};

use crate::{Kernel, error};

/// Which events to list.
#[derive(Clone, Debug)]
pub struct EventQuery {
    /// Of this thread.
    pub thread: u32,
    /// Which way.
    pub order: Order,
    /// Only of these types; empty is all.
    pub kinds: Vec<Kind>,
    /// Processed after (exclusive).
    pub after: Option<Micros>,
    /// Processed not before.
    pub from: Option<Micros>,
    /// Processed before (exclusive).
    pub before: Option<Micros>,
    /// Processed not after.
    pub until: Option<Micros>,
    /// Where the page before ended.
    pub cursor: Option<Cursor>,
    /// At most so many.
    pub limit: usize,
}

/// Where a page ended.
///
/// Placed events come by position, those that wait by arrival. What waited while it was listed may
/// have its place by the time of the next page; with the other end of what waited then, it is
/// neither listed twice nor left out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cursor {
    /// The last placed event that was listed; newest first: where placed ones begin.
    pub placed: Option<u64>,
    /// The last arrival that was listed, while not all that wait are listed.
    pub arrived: Option<u64>,
    /// The first arrival that was listed; newest first: the oldest that waited.
    pub edge: Option<u64>,
}

/// A page of events.
#[derive(Clone, Debug)]
pub struct EventPage {
    /// Their records; an arrival is an event that still waits.
    pub records: Vec<Record>,
    /// Where the next page begins, if anything follows.
    pub next: Option<Cursor>,
}

/// Bytes that one page reads, about; what is over goes to the next.
const BYTES: usize = 16 << 20;

impl Kernel {
    /// Lists events of a session.
    ///
    /// What it costs follows the page. Events that were taken in while pages were read are listed
    /// once: those that were seen waiting are not seen again.
    pub async fn events(
        &self,
        session: SessionId,
        query: &EventQuery,
    ) -> Result<EventPage, Problem> {
        let state = self.state(session).await?;
        let range = self.range(session, &state, query).await?;
        match query.order {
            Order::Forwards => self.oldest_first(&state, query, range).await,
            Order::Backwards => self.newest_first(&state, query, range).await,
        }
    }

    /// Returns the positions between which the time filters lie, both exclusive.
    async fn range(
        &self,
        session: SessionId,
        state: &State,
        query: &EventQuery,
    ) -> Result<(u64, u64), Problem> {
        let before = |at: Micros| Micros(at.0.saturating_sub(1));
        let low = query.after.into_iter().chain(query.from.map(before)).max();
        let high = query
            .until
            .into_iter()
            .chain(query.before.map(before))
            .min();
        let low = match low {
            Some(at) => self.position_at(session, at).await?,
            None => 0,
        };
        let high = match high {
            Some(at) => self.position_at(session, at).await?,
            None => state.tail,
        };
        Ok((low, high.saturating_add(1)))
    }

    async fn position_at(&self, session: SessionId, at: Micros) -> Result<u64, Problem> {
        let found = self.0.store.position_at(session, at).await;
        found.map_err(|fault| error::read(&fault))
    }

    async fn oldest_first(
        &self,
        state: &State,
        query: &EventQuery,
        (low, high): (u64, u64),
    ) -> Result<EventPage, Problem> {
        let cursor = query.cursor.unwrap_or_default();
        let seen = self.seen(state, query, cursor).await?;
        let from = cursor.placed.unwrap_or(0).max(low);
        let limit = query.limit.saturating_add(seen.len());
        let (mut records, mut more) = self.placed(state, query, from, limit).await?;
        let within = records.partition_point(|record| record.position < high);
        more &= within == records.len();
        records.truncate(within);
        let mut placed = records
            .last()
            .map(|record| record.position)
            .or(cursor.placed);
        records.retain(|record| record.event.is_none_or(|event| !seen.contains(&event)));
        if records.len() > query.limit {
            records.truncate(query.limit);
            placed = records.last().map(|record| record.position);
            more = true;
        }
        if more {
            return Ok(EventPage {
                records,
                next: Some(Cursor { placed, ..cursor }),
            });
        }
        let mut rest = waiting(state, query);
        rest.retain(|at| Some(*at) > cursor.arrived);
        let (room, mut bytes, mut listed) = (query.limit - records.len(), 0, 0);
        for position in rest.iter().take(room) {
            if bytes >= BYTES {
                break;
            }
            let found = self
                .arrivals(state, query, Slice::after(position - 1, 1))
                .await?;
            bytes += found.iter().map(size).sum::<usize>();
            records.extend(found);
            listed += 1;
        }
        let first = rest.first().copied().filter(|_| listed > 0);
        let last = rest.get(..listed).and_then(<[u64]>::last).copied();
        let (arrived, edge) = (last.or(cursor.arrived), cursor.edge.or(first));
        let next = Cursor {
            placed,
            arrived,
            edge,
        };
        Ok(EventPage {
            records,
            next: (listed < rest.len()).then_some(next),
        })
    }

    /// Returns the events that pages before listed while they waited.
    async fn seen(
        &self,
        state: &State,
        query: &EventQuery,
        cursor: Cursor,
    ) -> Result<HashSet<EventId>, Problem> {
        let (Some(first), Some(last)) = (cursor.edge, cursor.arrived) else {
            return Ok(HashSet::new());
        };
        let count = usize::try_from(last.saturating_sub(first)).unwrap_or(usize::MAX);
        let slice = Slice::after(first.saturating_sub(1), count.saturating_add(1));
        let mut records = self.arrivals(state, query, slice).await?;
        records.retain(|record| record.position <= last);
        Ok(records.iter().filter_map(|record| record.event).collect())
    }

    async fn newest_first(
        &self,
        state: &State,
        query: &EventQuery,
        (low, high): (u64, u64),
    ) -> Result<EventPage, Problem> {
        let cursor = query.cursor.unwrap_or_default();
        let top = cursor.placed.unwrap_or(high).min(high);
        let edge = match query.cursor {
            Some(cursor) => cursor.edge,
            None => waiting(state, query).first().copied(),
        };
        let mut records = Vec::new();
        if let Some(edge) = edge {
            let from = cursor.arrived.unwrap_or(top);
            let (listed, left) = self.waited(state, query, (edge, from), top).await?;
            records = listed;
            if left.is_some() {
                let next = Cursor {
                    placed: Some(top),
                    arrived: left,
                    edge: Some(edge),
                };
                return Ok(EventPage {
                    records,
                    next: Some(next),
                });
            }
        }
        let room = query.limit.saturating_sub(records.len());
        let (mut placed, mut more) = self.placed(state, query, top, room).await?;
        let within = placed.partition_point(|record| record.position > low);
        more &= within == placed.len();
        placed.truncate(within);
        let last = placed.last().map_or(top, |record| record.position);
        records.extend(placed);
        let next = Cursor {
            placed: Some(last),
            arrived: None,
            edge: None,
        };
        Ok(EventPage {
            records,
            next: more.then_some(next),
        })
    }

    /// Lists what waited when the first page was made, newest first; those that have their place by
    /// now in their place. Returns the last arrival if some are left.
    async fn waited(
        &self,
        state: &State,
        query: &EventQuery,
        (edge, from): (u64, u64),
        top: u64,
    ) -> Result<(Vec<Record>, Option<u64>), Problem> {
        let still = waiting(state, query);
        let (mut records, mut bytes, mut at) = (Vec::new(), 0, from);
        while at > edge {
            if records.len() >= query.limit || bytes >= BYTES {
                return Ok((records, Some(at)));
            }
            let slice = Slice {
                order: Order::Backwards,
                ..Slice::after(at, 1)
            };
            let Some(arrival) = self.arrivals(state, query, slice).await?.pop() else {
                break;
            };
            if arrival.position < edge {
                break;
            }
            at = arrival.position;
            let record = if still.contains(&at) {
                Some(arrival)
            } else {
                // What was placed before the first page is listed among the placed ones.
                self.place(state.id, arrival.event)
                    .await?
                    .filter(|place| place.position >= top)
            };
            bytes += record.as_ref().map_or(0, size);
            records.extend(record);
        }
        Ok((records, None))
    }

    async fn place(
        &self,
        session: SessionId,
        event: Option<EventId>,
    ) -> Result<Option<Record>, Problem> {
        let Some(event) = event else { return Ok(None) };
        let found = self.0.store.find(session, event).await;
        let record = found.map_err(|fault| error::read(&fault))?;
        Ok(record.kind.is_public().then_some(record))
    }

    /// Reads placed events behind `from`, and tells whether more follow.
    async fn placed(
        &self,
        state: &State,
        query: &EventQuery,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<Record>, bool), Problem> {
        let mut records = self
            .public(state, query, from, limit.saturating_add(1))
            .await?;
        if records.len() > limit {
            records.truncate(limit);
            return Ok((records, true));
        }
        // Fewer than asked for: the end, or a page that is full of bytes. How large the next one
        // is cannot be known from those that are here.
        let more = match records.last().map(|last| last.position) {
            Some(last) if last < state.tail => {
                !self.public(state, query, last, 1).await?.is_empty()
            }
            _ => false,
        };
        Ok((records, more))
    }

    /// Reads placed events behind `from` that match, at most so many and about [`BYTES`].
    async fn public(
        &self,
        state: &State,
        query: &EventQuery,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Record>, Problem> {
        let slice = Slice {
            from,
            order: query.order,
            limit,
            bytes: BYTES,
            public: true,
            kinds: query.kinds.clone(),
            thread: Some(query.thread),
        };
        let read = self.0.store.read(state.id, slice).await;
        read.map_err(|fault| error::read(&fault))
    }

    /// Reads arrivals of inputs in a slice, as far as they match.
    async fn arrivals(
        &self,
        state: &State,
        query: &EventQuery,
        slice: Slice,
    ) -> Result<Vec<Record>, Problem> {
        let kinds = INPUTS.iter().filter(|kind| matches(query, **kind));
        let kinds: Vec<_> = kinds.filter_map(|kind| kind.arrival()).collect();
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let slice = Slice {
            kinds,
            thread: Some(query.thread),
            ..slice
        };
        let read = self.0.store.read(state.id, slice).await;
        read.map_err(|fault| error::read(&fault))
    }
}

/// Inputs that arrive before they have a place.
const INPUTS: [Kind; 3] = [Kind::UserMessage, Kind::UserInterrupt, Kind::SystemMessage];

/// Returns the arrivals that still wait and match, oldest first; time filters match none.
fn waiting(state: &State, query: &EventQuery) -> Vec<u64> {
    let timed = [query.after, query.from, query.before, query.until]
        .iter()
        .any(Option::is_some);
    let Some(thread) = state.thread(query.thread).filter(|_| !timed) else {
        return Vec::new();
    };
    let all = thread.queue.iter().chain(&thread.interrupts);
    let mut positions: Vec<_> = all
        .filter(|queued| matches(query, queued.kind))
        .map(|queued| queued.position)
        .collect();
    positions.sort_unstable();
    positions
}

fn matches(query: &EventQuery, kind: Kind) -> bool {
    query.kinds.is_empty() || query.kinds.contains(&kind)
}

fn size(record: &Record) -> usize {
    record.body.text().len()
}
