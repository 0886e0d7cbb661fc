//! A stream of a session's events that is opened again wherever it broke.

use std::time::Duration;

use tokio::time::sleep;

use crate::client::{Client, Follow, Frame, From, Previews};

/// The wait before a stream that was refused is opened again.
const PAUSE: Duration = Duration::from_millis(200);

/// A reader's place in a log; it begins at the first record.
#[derive(Debug)]
pub(super) struct Ear {
    client: Client,
    session: String,
    follow: Follow,
    /// The last position that came.
    position: u64,
}

impl Ear {
    pub(super) fn new(client: Client, session: &str) -> Self {
        let follow = client.follow(session, From::After(0), Previews::Hidden);
        Self {
            client,
            session: session.to_owned(),
            follow,
            position: 0,
        }
    }

    /// Returns the next event; `None` once the session is over. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            match self.follow.next().await {
                Ok(Some(frame)) => {
                    self.position = frame.position.unwrap_or(self.position);
                    return Some(frame);
                }
                Ok(None) => return None,
                Err(_) => {
                    sleep(PAUSE).await;
                    self.cut();
                }
            }
        }
    }

    /// Breaks the connection; the next one goes on behind the last position that came.
    pub(super) fn cut(&mut self) {
        let from = From::After(self.position);
        self.follow = self.client.follow(&self.session, from, Previews::Hidden);
    }
}
