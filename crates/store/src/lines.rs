//! What waits for a writer: each session has a line of its own, and the lines take turns.
//!
//! In a line everything goes in the order it came; a session that floods holds up itself alone.

use std::collections::{HashMap, VecDeque};

use outlast_protocol::id::SessionId;

use crate::{staging::Staged, waiting::Turned};

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Writes, of all lines together.
    pub(crate) writes: usize,
    /// Writes of one session.
    pub(crate) of_one: usize,
    /// Bytes of bodies; a single write may have more.
    pub(crate) bytes: usize,
}

/// What one transaction takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Writes at most.
    pub(crate) writes: usize,
    /// Writes of one line, as long as others wait.
    pub(crate) share: usize,
    /// Bytes of bodies, unless a single write has more.
    pub(crate) bytes: usize,
}

/// What can stand in a line.
pub(crate) trait Waits {
    /// Returns whose line it stands in; all that belongs to no session stands in one line.
    fn session(&self) -> Option<SessionId>;

    /// Returns about how many bytes it adds to a transaction.
    fn size(&self) -> usize;

    /// Returns about how many bytes it keeps in memory.
    fn held(&self) -> usize;

    /// Takes in what came of putting its large bodies away.
    fn complete(&mut self, bodies: Staged);
}

/// The lines.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    bounds: Bounds,
    lines: HashMap<Option<SessionId>, VecDeque<Held<T>>>,
    /// Lines whose first can go, each once, in the order of their turns.
    turns: VecDeque<Option<SessionId>>,
    waiting: usize,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct Held<T> {
    item: T,
    /// Set while its bodies are on their way to blobs.
    staging: Option<u64>,
}

/// Names a write whose bodies are on their way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    session: Option<SessionId>,
    number: u64,
}

impl<T: Waits> Lines<T> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            lines: HashMap::new(),
            turns: VecDeque::new(),
            waiting: 0,
            bytes: 0,
            next: 0,
        }
    }

    /// Adds something behind what its session has waiting.
    pub(crate) fn push(&mut self, item: T) -> Result<(), Turned> {
        self.put(item, None)
    }

    /// Adds something whose bodies are being put into blobs; [`Lines::staged`] lets it go on.
    pub(crate) fn push_staging(&mut self, item: T) -> Result<Ticket, Turned> {
        let (session, number) = (item.session(), self.next);
        self.next += 1;
        self.put(item, Some(number))?;
        Ok(Ticket { session, number })
    }

    fn put(&mut self, item: T, staging: Option<u64>) -> Result<(), Turned> {
        let (session, size) = (item.session(), item.held());
        let Bounds {
            writes,
            of_one,
            bytes,
        } = self.bounds;
        if self.waiting >= writes || (self.bytes > 0 && self.bytes.saturating_add(size) > bytes) {
            return Err(Turned::Full);
        }
        let line = self.lines.entry(session).or_default();
        if let Some(session) = session.filter(|_| line.len() >= of_one) {
            return Err(Turned::Crowded(session));
        }
        if line.is_empty() && staging.is_none() {
            self.turns.push_back(session);
        }
        line.push_back(Held { item, staging });
        self.waiting += 1;
        self.bytes += size;
        Ok(())
    }

    /// Lets something go on, and what stands behind it.
    pub(crate) fn staged(&mut self, ticket: Ticket, bodies: Staged) {
        let Some(line) = self.lines.get_mut(&ticket.session) else {
            return;
        };
        let wanted = Some(ticket.number);
        let Some(place) = line.iter().position(|held| held.staging == wanted) else {
            return;
        };
        if let Some(held) = line.get_mut(place) {
            held.staging = None;
            held.item.complete(bodies);
        }
        if place == 0 {
            self.turns.push_back(ticket.session);
        }
    }

    /// Tells whether anything can go.
    pub(crate) fn is_ready(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Returns how many wait, those whose bodies are on their way too.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Adds what can go to a batch: each line gives its share, and so again while there is room.
    pub(crate) fn fill(&mut self, taken: &mut Vec<T>, batch: Batch) {
        let mut bytes: usize = taken.iter().map(Waits::size).sum();
        while let Some(session) = self.turns.pop_front() {
            let Some(line) = self.lines.get_mut(&session) else {
                continue;
            };
            let mut given = 0;
            while let Some(front) = line.front().filter(|front| front.staging.is_none()) {
                let (size, held) = (front.item.size(), front.item.held());
                let full = taken.len() >= batch.writes || bytes + size > batch.bytes;
                if full && !taken.is_empty() {
                    self.turns.push_front(session);
                    return;
                }
                if given == batch.share && !self.turns.is_empty() {
                    self.turns.push_back(session);
                    break;
                }
                given += 1;
                bytes += size;
                self.waiting -= 1;
                self.bytes = self.bytes.saturating_sub(held);
                taken.extend(line.pop_front().map(|held| held.item));
            }
            if line.is_empty() {
                self.lines.remove(&session);
            }
        }
    }

    /// Takes out what can go and is not wanted any more, from the front of each line.
    pub(crate) fn expired(&mut self, is_old: impl Fn(&T) -> bool) -> Vec<T> {
        let mut gone = Vec::new();
        for session in &self.turns {
            let Some(line) = self.lines.get_mut(session) else {
                continue;
            };
            let goes = |held: &mut Held<T>| held.staging.is_none() && is_old(&held.item);
            while let Some(held) = line.pop_front_if(goes) {
                self.waiting -= 1;
                self.bytes = self.bytes.saturating_sub(held.item.held());
                gone.push(held.item);
            }
        }
        let lines = &mut self.lines;
        self.turns.retain(|session| {
            let line = lines.get(session);
            let goes = line
                .and_then(VecDeque::front)
                .is_some_and(|held| held.staging.is_none());
            if line.is_some_and(VecDeque::is_empty) {
                lines.remove(session);
            }
            goes
        });
        gone
    }

    /// Takes everything out, for nothing of it will go; drop it where nobody holds a lock.
    pub(crate) fn clear(&mut self) -> Vec<T> {
        self.turns.clear();
        (self.waiting, self.bytes) = (0, 0);
        let lines = std::mem::take(&mut self.lines).into_values();
        lines.flatten().map(|held| held.item).collect()
    }
}

#[cfg(test)]
mod tests;
