//! The audit log, passed on.

use async_trait::async_trait;
use outlast_store::{AuditLine, AuditLog, AuditPage, AuditQuery, ReadError, WriteError};

use super::Faulty;

#[async_trait]
impl<S: AuditLog> AuditLog for Faulty<S> {
    async fn audit(&self, lines: Vec<AuditLine>) -> Result<(), WriteError> {
        self.here()?;
        self.inner.audit(lines).await
    }

    async fn audit_log(&self, query: &AuditQuery) -> Result<AuditPage, ReadError> {
        self.inner.audit_log(query).await
    }
}
