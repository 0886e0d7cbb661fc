//! A few connections that only read.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use outlast_blobs::Away;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{connect, fault::Fault};
use crate::{ReadError, waiting::Waiting};

/// Connections at most; each is opened when it is first needed.
const READERS: usize = 4;
/// Reads that may wait for a connection; past this the store is overloaded and says so.
const WAITING: usize = 4_096;

/// Runs reads on threads where they may block.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    waiting: Waiting,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS)),
            waiting: Waiting::new(WAITING),
        }
    }

    /// Returns where the database is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` inside one read transaction, which ends with it.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let closed = |_| ReadError::Unavailable(Away::other("the store is closed"));
        let place = self.waiting.place().ok_or(ReadError::Overloaded)?;
        let permit = self.permits.clone().acquire_owned().await.map_err(closed)?;
        drop(place);
        let readers = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            // Held by the thread, not by a future that may be dropped before the thread is done.
            let _permit = permit;
            readers.run(work)
        })
        .await;
        done.map_err(|error| ReadError::Unavailable(Away::other(error)))?
    }

    fn run<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let connection = match free {
            Some(connection) => connection,
            None => connect::reader(&self.path).map_err(Fault::from)?,
        };
        let transaction = connection.unchecked_transaction()?;
        let done = work(&transaction);
        transaction.finish()?;
        // A connection that failed to end its transaction is dropped above, not used again.
        if !self.permits.is_closed() {
            self.free
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
        }
        done
    }

    /// Closes the connections; reads that run come to their end.
    pub(super) fn close(&self) {
        self.permits.close();
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_beyond_the_bound_are_told_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        drop(Connection::open(&path).unwrap());
        let mut readers = Readers::new(path);
        readers.waiting = Waiting::new(1);
        let readers = Arc::new(readers);
        let all = readers.permits.clone().acquire_many_owned(4).await.unwrap();
        let first = readers.read(|_| Ok(1));
        tokio::pin!(first);
        assert!(futures::poll!(&mut first).is_pending());
        let second = readers.read(|_| Ok(2)).await;
        assert!(matches!(second, Err(ReadError::Overloaded)), "{second:?}");
        drop(all);
        assert_eq!(first.await.unwrap(), 1);
        assert_eq!(readers.read(|_| Ok(3)).await.unwrap(), 3);
    }
}
