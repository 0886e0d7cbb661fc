//! A few connections for everything but appends.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    connect::{Connection, Connector, Durability},
    fault::Fault,
};
use crate::{WriteError, waiting::Waiting};

/// Connections at most; each is made when it is first needed.
const CONNECTIONS: usize = 8;
/// Those who may wait for a connection; past this the store is overloaded and says so.
const WAITING: usize = 4_096;
/// How long they wait before they are told that the database is away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lends connections.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    free: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
    waiting: Waiting,
}

/// A connection that goes back when it is dropped, unless it broke or is within a transaction.
#[derive(Debug)]
pub(super) struct Lent {
    connection: Option<Connection>,
    free: Arc<Mutex<Vec<Connection>>>,
    open: bool,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            free: Arc::default(),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            waiting: Waiting::new(WAITING),
        }
    }

    /// Lends a connection; waits while all are lent.
    pub(super) async fn get(&self) -> Result<Lent, Fault> {
        let closed = |_| Fault::Away("the store is closed".to_owned());
        let place = self.waiting.place().ok_or(Fault::Crowded)?;
        let permit = timeout(PATIENCE, self.permits.clone().acquire_owned()).await;
        let late = |_| Fault::Away("no connection to the database came free".to_owned());
        let permit = permit.map_err(late)?.map_err(closed)?;
        drop(place);
        let connection = match self.spare() {
            Some(connection) => connection,
            None => self.connector.connect(Durability::Synced).await?,
        };
        Ok(Lent {
            connection: Some(connection),
            free: self.free.clone(),
            open: false,
            _permit: permit,
        })
    }

    fn spare(&self) -> Option<Connection> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = free.pop() {
            if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Lends nothing more.
    pub(super) fn close(&self) {
        self.permits.close();
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

impl Lent {
    /// Begins a transaction.
    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        self.open = true;
        self.batch("BEGIN").await
    }

    /// Commits what was done, or takes it back where it came to nothing.
    pub(super) async fn end<T>(
        mut self,
        done: Result<Result<T, WriteError>, Fault>,
    ) -> Result<Result<T, WriteError>, Fault> {
        let word = match &done {
            Ok(Ok(_)) => "COMMIT",
            Ok(Err(_)) | Err(_) => "ROLLBACK",
        };
        let ended = self.batch(word).await;
        self.open = ended.is_err();
        let done = done?;
        ended.map(|()| done)
    }
}

impl Deref for Lent {
    type Target = Connection;

    #[expect(clippy::expect_used, reason = "only `drop` takes it")]
    fn deref(&self) -> &Connection {
        self.connection
            .as_ref()
            .expect("it is lent until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !self.open
            && !connection.is_closed()
        {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.push(connection);
        }
    }
}

/// Tries of a transaction that met others.
pub(super) const TRIES: u32 = 5;

/// Runs statements in one transaction, again where it met others; `$work` may be run several times.
macro_rules! write {
    ($pool:expr, |$tx:ident| $work:expr) => {{
        let mut tries = 0;
        loop {
            tries += 1;
            let mut lent = $pool.get().await.map_err(crate::WriteError::from)?;
            lent.begin().await.map_err(crate::WriteError::from)?;
            let done = {
                let $tx: &$crate::postgres::connect::Connection = &lent;
                $work.await
            };
            match lent.end(done).await {
                Ok(answer) => break answer,
                Err(fault) if fault.is_contention() && tries < $crate::postgres::pool::TRIES => {}
                Err(fault) => break Err(fault.into()),
            }
        }
    }};
}
pub(super) use write;
