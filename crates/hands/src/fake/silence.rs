//! Pretended hands that do not answer for a while.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::Fakes;
use crate::Silence;

/// How long they are waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Since when nothing is answered.
pub(super) type Stopped = watch::Sender<Option<Instant>>;

impl Fakes {
    /// Answers nothing from now on, or goes on with all that waits: as a process that is stopped.
    pub fn stop(&self, stopped: bool) {
        let since = stopped.then(Instant::now);
        self.shared.stopped.send_replace(since);
    }

    pub(super) fn quiet(&self) -> Option<Silence> {
        let since = (*self.shared.stopped.borrow())?;
        let who = "the pretended node".to_owned();
        Some(Silence { who, since })
    }

    pub(super) async fn hopeless(&self) -> Silence {
        let mut stopped = self.shared.stopped.subscribe();
        loop {
            stopped.borrow_and_update();
            let Some(silence) = self.quiet() else {
                // The sender lives as long as `self` does.
                drop(stopped.changed().await);
                continue;
            };
            let wait = PATIENCE.saturating_sub(silence.since.elapsed());
            tokio::select! {
                biased;
                () = sleep(wait) => return silence,
                _ = stopped.changed() => {}
            }
        }
    }
}

/// Waits until anything is answered.
pub(super) async fn answering(stopped: &Stopped) {
    // The sender lives as long as whoever holds it.
    drop(stopped.subscribe().wait_for(Option::is_none).await);
}
