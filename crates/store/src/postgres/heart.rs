//! The connection that beats go by.
//!
//! It is lent to nobody, so that no statement holds a beat up, and it lives on the runtime of whoever
//! beats, so that no other runtime does.

use outlast_protocol::id::ProcessId;
use tokio::sync::Mutex;

use super::{
    connect::{Connection, Connector, Durability},
    fault::Fault,
    processes,
};
use crate::Pulse;

/// Beats, one at a time.
#[derive(Debug)]
pub(super) struct Heart {
    connector: Connector,
    connection: Mutex<Option<Connection>>,
}

impl Heart {
    pub(super) fn new(connector: Connector) -> Self {
        let connection = Mutex::default();
        Self {
            connector,
            connection,
        }
    }

    /// Beats. A beat that nobody waited for takes its connection with it: it may be the one that hangs.
    pub(super) async fn beat(&self, process: ProcessId) -> Result<Pulse, Fault> {
        let mut kept = self.connection.lock().await;
        let connection = match kept.take().filter(|known| !known.is_closed()) {
            Some(connection) => connection,
            // What the database forgets in a crash makes peers wait for one beat more.
            None => self.connector.connect(Durability::Hasty).await?,
        };
        let pulse = processes::beat(&connection, process).await?;
        *kept = Some(connection);
        Ok(pulse)
    }
}
