//! Hearing that logs have grown: by messages of other nodes, and by looking, for messages get lost.

use std::{sync::Arc, task::Poll, time::Duration};

use outlast_protocol::id::SessionId;
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

use super::{
    Room,
    connect::GREETING,
    fault::Fault,
    notify::{CHANNEL, read},
};
use crate::{
    GONE,
    stored::{natural, session_id},
};

/// How often watched tails are looked at, messages or not.
const LOOK: Duration = Duration::from_secs(1);

/// Listens for ever; after each break it listens again, and only then looks what it missed.
pub(super) async fn listen(room: Arc<Room>) {
    let mut tries = 0;
    loop {
        match session(&room, &mut tries).await {
            Ok(()) => tracing::debug!("the listener's session ended"),
            Err(fault) => tracing::debug!(error = %fault, "messages of other nodes are not heard"),
        }
        tries += 1;
        sleep(room.connector.backoff(tries)).await;
    }
}

/// Listens until the session ends.
async fn session(room: &Room, tries: &mut u32) -> Result<(), Fault> {
    let target = room.connector.target();
    let connecting = timeout(GREETING, target.config.connect(target.tls.clone()));
    let silent = |_| Fault::Away("the database says nothing".to_owned());
    let (client, mut connection) = connecting.await.map_err(silent)??;
    let words = format!("LISTEN {CHANNEL}");
    let mut listening = Box::pin(client.batch_execute(&words));
    let mut ready = false;
    loop {
        // The connection carries the command as well as the messages, so both are driven here.
        let next = std::future::poll_fn(|context| {
            if !ready && let Poll::Ready(done) = listening.as_mut().poll(context) {
                ready = true;
                return Poll::Ready(Heard::Listens(done));
            }
            connection
                .poll_message(context)
                .map(|message| Heard::Message(Box::new(message)))
        });
        let message = match next.await {
            Heard::Listens(done) => {
                done?;
                *tries = 0;
                // By its own connection: this one only listens.
                look(room).await?;
                continue;
            }
            Heard::Message(message) => *message,
        };
        match message {
            Some(Ok(AsyncMessage::Notification(told))) => {
                for (session, tail) in read(told.payload()) {
                    hear(room, session, tail);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Ok(()),
        }
    }
}

enum Heard {
    Listens(Result<(), tokio_postgres::Error>),
    Message(Box<Option<Result<AsyncMessage, tokio_postgres::Error>>>),
}

/// Takes note of a tail; a head that is behind it is no use any more.
fn hear(room: &Room, session: SessionId, tail: u64) {
    room.heads.outdated(session, tail);
    room.watches.publish(session, tail);
}

/// Looks at the tails of all sessions that are watched here.
async fn look(room: &Room) -> Result<(), Fault> {
    let watched = room.watches.watched();
    if watched.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = watched.iter().map(ToString::to_string).collect();
    let connection = room.hasty.get().await?;
    let text = "SELECT id, tail, deleted FROM sessions WHERE id = ANY($1)";
    let mut seen = Vec::with_capacity(ids.len());
    for row in connection.rows(text, &[&ids]).await? {
        let session = session_id(row.try_get(0)?)?;
        let deleted: bool = row.try_get(2)?;
        let tail = natural(row.try_get(1)?);
        hear(room, session, if deleted { GONE } else { tail });
        seen.push(session);
    }
    // What was deleted and removed since is gone as well.
    for session in watched {
        if !seen.contains(&session) {
            hear(room, session, GONE);
        }
    }
    Ok(())
}

/// Looks for ever, and drops heads that nobody uses.
pub(super) async fn tend(room: Arc<Room>) {
    loop {
        let mut byte = [0];
        room.seams.entropy.fill(&mut byte);
        // Nodes that started together do not ask together.
        sleep(LOOK * 3 / 4 + LOOK / 2 * u32::from(byte[0]) / 255).await;
        room.heads.sweep();
        if let Err(fault) = look(&room).await {
            tracing::debug!(error = %fault, "watched tails could not be looked at");
        }
    }
}
