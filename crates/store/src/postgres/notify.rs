//! Telling other nodes that logs have grown: hints and nothing more.
//!
//! Never inside an append, where it would put all commits of the database into one row. One
//! connection of this node sends what has come together since it last did.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use outlast_protocol::id::SessionId;
use tokio::{
    sync::{Mutex as Turn, Notify},
    time::sleep,
};

use super::{
    connect::{Connection, Connector, Durability},
    fault::Fault,
};
use crate::GONE;

/// What is listened to.
pub(super) const CHANNEL: &str = "outlast_tails";

/// Bytes of one message; the database takes less than 8,000.
const MESSAGE: usize = 7_900;

/// How long what comes next waits for more to tell. Each message is a transaction of its own, which
/// every node hears: one for each append would take as much as the appends.
const PAUSE: Duration = Duration::from_millis(5);

/// Sessions that may wait to be told of; readers of others look for themselves.
const WAITING: usize = 16_384;

/// What is to be told.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    tails: Mutex<HashMap<SessionId, u64>>,
    signal: Notify,
}

impl Notifier {
    /// Notes a tail, to be told soon.
    pub(super) fn tell(&self, session: SessionId, tail: u64) {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if tails.len() < WAITING || tails.contains_key(&session) {
            let told = tails.entry(session).or_default();
            *told = tail.max(*told);
        }
        drop(tails);
        self.signal.notify_one();
    }

    fn take(&self) -> HashMap<SessionId, u64> {
        std::mem::take(&mut *self.tails.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells for ever: at once after a silence, else after a pause. What cannot be told is dropped:
    /// readers look for themselves too.
    pub(super) async fn run(self: Arc<Self>, connection: Arc<Hasty>) {
        let mut pause = sleep(Duration::ZERO);
        loop {
            self.signal.notified().await;
            pause.await;
            for message in messages(self.take()) {
                if let Err(error) = send(&connection, &message).await {
                    tracing::debug!(%error, "other nodes were not told of new records");
                    break;
                }
            }
            pause = sleep(PAUSE);
        }
    }
}

async fn send(connection: &Hasty, message: &str) -> Result<(), Fault> {
    let connection = connection.get().await?;
    let text = "SELECT pg_notify($1, $2)";
    connection.rows(text, &[&CHANNEL, &message]).await?;
    Ok(())
}

/// Writes tails as messages that are short enough.
fn messages(tails: HashMap<SessionId, u64>) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for (session, tail) in tails {
        let tail = if tail == GONE {
            "gone".to_owned()
        } else {
            tail.to_string()
        };
        let word = format!("{session}:{tail}");
        match messages.last_mut() {
            Some(last) if last.len() + word.len() < MESSAGE => {
                last.push(' ');
                last.push_str(&word);
            }
            Some(_) | None => messages.push(word),
        }
    }
    messages
}

/// Reads a message; what is not understood is passed over.
pub(super) fn read(message: &str) -> impl Iterator<Item = (SessionId, u64)> {
    message.split(' ').filter_map(|word| {
        let (session, tail) = word.split_once(':')?;
        let tail = if tail == "gone" {
            GONE
        } else {
            tail.parse().ok()?
        };
        Some((SessionId::parse(session)?, tail))
    })
}

/// One connection for what needs no sync, made when it is needed.
#[derive(Debug)]
pub(super) struct Hasty {
    connector: Connector,
    kept: Turn<Option<Arc<Connection>>>,
}

impl Hasty {
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            kept: Turn::default(),
        }
    }

    /// Returns the connection; many may use it at once.
    pub(super) async fn get(&self) -> Result<Arc<Connection>, Fault> {
        let mut kept = self.kept.lock().await;
        if let Some(connection) = kept.as_ref().filter(|known| !known.is_closed()) {
            return Ok(connection.clone());
        }
        let connection = Arc::new(self.connector.connect(Durability::Hasty).await?);
        *kept = Some(connection.clone());
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Micros;
    use outlast_testkit::random::Constant;

    use super::*;

    #[test]
    fn what_waits_while_nobody_listens_is_bounded() {
        let notifier = Notifier::default();
        let id = |number: usize| SessionId::mint(Micros(number as i64 * 1_000), &Constant(0));
        for number in 0..2 * WAITING {
            notifier.tell(id(number), 1);
        }
        notifier.tell(id(0), 7);
        notifier.tell(id(0), 5);
        let told = notifier.take();
        assert_eq!((told.len(), told.get(&id(0))), (WAITING, Some(&7)));
    }

    #[test]
    fn messages_are_short_and_whole() {
        let id = |number: u64| SessionId::mint(Micros(number as i64 * 1_000), &Constant(0));
        let tails: HashMap<_, _> = (1..=1_000)
            .map(|number| (id(number), if number == 7 { GONE } else { number }))
            .collect();
        let sent = messages(tails.clone());
        assert!(sent.len() < 10 && sent.iter().all(|one| one.len() < 8_000));
        let found: HashMap<_, _> = sent.iter().flat_map(|one| read(one)).collect();
        assert_eq!(found, tails);
        assert_eq!(read("a:1 sesn_:x nothing").count(), 0);
    }
}
