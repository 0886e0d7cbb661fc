//! How writes failed, of whatever kind: what an operator asks for when clients are refused.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outlast_blobs::Lack;
use tokio::time::Instant;

/// The newest write that failed because the disk or the database took none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trouble {
    /// What was missing.
    pub lack: Lack,
    /// How long ago that was.
    pub ago: Duration,
    /// For how long none has succeeded; absent once one did.
    pub lasts: Option<Duration>,
}

/// What a store remembers of it.
#[derive(Debug, Default)]
pub(crate) struct Troubles(Mutex<Option<Met>>);

#[derive(Clone, Copy, Debug)]
struct Met {
    lack: Lack,
    last: Instant,
    since: Option<Instant>,
}

impl Troubles {
    /// Notes that a write failed.
    pub(crate) fn met(&self, lack: Lack) {
        let now = Instant::now();
        let mut known = self.known();
        let since = known.and_then(|met| met.since).or(Some(now));
        *known = Some(Met {
            lack,
            last: now,
            since,
        });
    }

    /// Notes that one succeeded.
    pub(crate) fn over(&self) {
        if let Some(met) = &mut *self.known() {
            met.since = None;
        }
    }

    /// Returns the newest.
    pub(crate) fn told(&self) -> Option<Trouble> {
        let met = (*self.known())?;
        Some(Trouble {
            lack: met.lack,
            ago: met.last.elapsed(),
            lasts: met.since.map(|since| since.elapsed()),
        })
    }

    fn known(&self) -> MutexGuard<'_, Option<Met>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_newest_is_told_and_for_how_long_nothing_succeeded() {
        let (troubles, second) = (Troubles::default(), Duration::from_secs(1));
        assert_eq!(troubles.told(), None);
        troubles.over();
        troubles.met(Lack::Other);
        advance(second).await;
        troubles.met(Lack::Room);
        advance(second).await;
        let told = |lasts| {
            Some(Trouble {
                lack: Lack::Room,
                ago: second,
                lasts,
            })
        };
        assert_eq!(troubles.told(), told(Some(2 * second)));
        troubles.over();
        assert_eq!(troubles.told(), told(None));
        troubles.met(Lack::Other);
        assert_eq!(troubles.told().unwrap().lasts, Some(Duration::ZERO));
    }
}
