//! Who did what.

use std::{sync::Arc, time::Duration};

use outlast_protocol::{
    Problem,
    audit::{Ended, Entry},
};
use outlast_store::{AuditLine, AuditPage, AuditQuery, Store, WriteError};
use tokio::time::sleep;

use crate::{Kernel, error, kernel::Inner, metric_definitions as metrics};

/// How often it is tried to add what nobody waits for.
const TRIES: u32 = 10;

/// How long to wait between two of those.
const PAUSE: Duration = Duration::from_secs(1);

impl Kernel {
    /// Adds an entry to the audit log.
    ///
    /// What is written after this returns is durable only together with the entry, so whoever is
    /// about to change something adds its entry first. It costs no sync of its own.
    ///
    /// # Errors
    ///
    /// If it can be kept nowhere: then what it tells of must not be done.
    pub async fn audit(&self, entry: Entry) -> Result<(), Problem> {
        let added = self
            .0
            .store
            .audit(vec![AuditLine::Entry(entry.clone())])
            .await;
        added.map_err(|fault| {
            if let WriteError::Unavailable(away) = &fault {
                self.0.failed(away);
            }
            lost(&fault, &entry);
            error::write(&fault)
        })
    }

    /// Adds an entry of what was decided and changes nothing here; soon, and waited for by nobody.
    pub fn audit_soon(&self, entry: Entry) {
        let line = AuditLine::Entry(entry);
        self.0.tasks.spawn(add(self.0.clone(), line));
    }

    /// Says what came of a request whose entry was added; soon, and waited for by nobody.
    pub fn audit_ended(&self, ended: Ended) {
        let line = AuditLine::Ended(ended);
        self.0.tasks.spawn(add(self.0.clone(), line));
    }

    /// Lists the audit log.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub async fn audit_log(&self, query: &AuditQuery) -> Result<AuditPage, Problem> {
        audit_log_alone(&*self.0.store, query).await
    }
}

/// Lists the audit log without a server.
///
/// # Errors
///
/// If it cannot be read.
pub async fn audit_log_alone(store: &dyn Store, query: &AuditQuery) -> Result<AuditPage, Problem> {
    let found = store.audit_log(query).await;
    found.map_err(|fault| error::read(&fault))
}

/// Adds an entry without a server.
///
/// # Errors
///
/// If it cannot be kept: then what it tells of must not be done.
pub async fn audit_alone(store: &dyn Store, entry: Entry) -> Result<(), Problem> {
    let added = store.audit(vec![AuditLine::Entry(entry)]).await;
    added.map_err(|fault| error::write(&fault))
}

/// Adds a line, and tries again for a while where that fails.
async fn add(inner: Arc<Inner>, line: AuditLine) {
    for _ in 0..TRIES {
        match inner.store.audit(vec![line.clone()]).await {
            Ok(()) => return,
            Err(fault) => tracing::debug!(%fault, "a line cannot be added yet: {fault}"),
        }
        sleep(PAUSE).await;
    }
    ::metrics::counter!(metrics::AUDIT_LOST).increment(1);
    tracing::error!(?line, "the audit log lacks a line that could not be added");
}

/// Says in the server's log what the audit log has no place for.
fn lost(fault: &WriteError, entry: &Entry) {
    ::metrics::counter!(metrics::AUDIT_LOST).increment(1);
    let Entry { actor, action, .. } = entry;
    let subject = entry.subject_id.as_deref().unwrap_or_default();
    tracing::error!(
        %fault, %actor, action, subject,
        "the audit log cannot be written, so this is not done: {fault}"
    );
}
