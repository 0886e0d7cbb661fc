//! Previews: text on its way to whoever watches, stored nowhere.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::{
    event::Previewed,
    id::{EventId, SessionId},
};
use tokio::sync::Notify;

/// Previews that a slow reader may be behind before it loses the oldest.
const BEHIND: usize = 256;

/// Which thread is watched.
type Watched = (SessionId, u32);

/// A piece of an event that is being made.
#[derive(Clone, Debug, PartialEq)]
pub enum Preview {
    /// The event begins. Shown only after the record at `after`, the start of its request.
    Start {
        /// The position that a reader must have reached.
        after: u64,
        /// The event to come.
        event: Previewed,
    },
    /// More text of it.
    Delta {
        /// The event to come.
        event: EventId,
        /// The text block, from 0.
        index: u32,
        /// The text.
        text: String,
    },
}

/// What a reader hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The next preview.
    Preview(Arc<Preview>),
    /// Some were lost here, because the reader was too far behind.
    Gap,
}

/// The readers of all threads that somebody watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bus(Arc<Mutex<HashMap<Watched, Vec<Arc<Mailbox>>>>>);

/// A subscription to the previews of one thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Previews {
    bus: Bus,
    watched: Watched,
    mailbox: Arc<Mailbox>,
}

/// What waits for one reader. It takes room only while something does: most streams are quiet.
#[derive(Debug, Default)]
struct Mailbox {
    waiting: Mutex<Waiting>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Whether something was lost before what waits.
    gap: bool,
    previews: VecDeque<Arc<Preview>>,
}

impl Bus {
    /// Watches a thread.
    pub(crate) fn subscribe(&self, session: SessionId, thread: u32) -> Previews {
        let (watched, mailbox) = ((session, thread), Arc::<Mailbox>::default());
        let mut all = self.all();
        all.entry(watched).or_default().push(mailbox.clone());
        let bus = self.clone();
        Previews {
            bus,
            watched,
            mailbox,
        }
    }

    /// Sends to whoever watches, and never waits.
    pub(crate) fn publish(&self, session: SessionId, thread: u32, preview: Preview) {
        let all = self.all();
        let Some(readers) = all.get(&(session, thread)) else {
            return;
        };
        let preview = Arc::new(preview);
        for reader in readers {
            reader.put(preview.clone());
        }
    }

    /// Tells whether anybody watches.
    pub(crate) fn is_watched(&self, session: SessionId, thread: u32) -> bool {
        self.all().contains_key(&(session, thread))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Watched, Vec<Arc<Mailbox>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Previews {
    /// Waits for the next one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Heard {
        loop {
            if let Some(heard) = self.take() {
                return heard;
            }
            // Told between the two, it returns at once.
            self.mailbox.told.notified().await;
        }
    }

    /// Returns the next one if it is there.
    pub fn take(&mut self) -> Option<Heard> {
        let mut waiting = self.mailbox.lock();
        if std::mem::take(&mut waiting.gap) {
            return Some(Heard::Gap);
        }
        let preview = waiting.previews.pop_front();
        if waiting.previews.is_empty() {
            waiting.previews = VecDeque::new();
        }
        preview.map(Heard::Preview)
    }
}

impl Drop for Previews {
    fn drop(&mut self) {
        let mut all = self.bus.all();
        if let Some(readers) = all.get_mut(&self.watched) {
            readers.retain(|reader| !Arc::ptr_eq(reader, &self.mailbox));
            if readers.is_empty() {
                all.remove(&self.watched);
            }
        }
    }
}

impl Mailbox {
    /// Adds a preview; the oldest makes room.
    fn put(&self, preview: Arc<Preview>) {
        let mut waiting = self.lock();
        if waiting.previews.len() == BEHIND {
            waiting.previews.pop_front();
            waiting.gap = true;
        }
        waiting.previews.push_back(preview);
        drop(waiting);
        self.told.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        SessionId::parse("sesn_011CZkZAtmR3yMPDzynEDxu7").unwrap()
    }

    fn piece(text: usize) -> Preview {
        Preview::Delta {
            event: EventId::parse("sevt_011CZkZAtmR3yMPDzynEDxu7").unwrap(),
            index: 0,
            text: text.to_string(),
        }
    }

    fn heard(number: usize) -> Option<Heard> {
        Some(Heard::Preview(Arc::new(piece(number))))
    }

    #[tokio::test]
    async fn every_reader_hears_all_in_order_and_is_forgotten_when_it_goes() {
        let bus = Bus::default();
        bus.publish(session(), 0, piece(0));
        let (mut one, mut two) = (bus.subscribe(session(), 0), bus.subscribe(session(), 0));
        // Polled in this order: the reader waits before anything is said.
        let (first, ()) = tokio::join!(two.next(), async {
            bus.publish(session(), 0, piece(1));
            bus.publish(session(), 0, piece(2));
            bus.publish(session(), 1, piece(3));
        });
        assert_eq!(Some(first), heard(1));
        for reader in [&mut one, &mut two] {
            while reader.take().is_some_and(|last| Some(last) != heard(2)) {}
            assert_eq!(reader.take(), None);
        }
        drop(one);
        assert!(bus.is_watched(session(), 0) && !bus.is_watched(session(), 1));
        drop(two);
        assert!(!bus.is_watched(session(), 0) && bus.all().is_empty());
    }

    #[test]
    fn a_slow_reader_hears_of_the_gap_and_then_the_newest() {
        let bus = Bus::default();
        let mut reader = bus.subscribe(session(), 0);
        for number in 0..BEHIND + 2 {
            bus.publish(session(), 0, piece(number));
        }
        assert_eq!(reader.take(), Some(Heard::Gap));
        for number in 2..BEHIND + 2 {
            assert_eq!(reader.take(), heard(number));
        }
        assert_eq!(reader.take(), None);
    }
}
