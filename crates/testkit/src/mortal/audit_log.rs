//! The audit log, passed on.

use async_trait::async_trait;
use outlast_store::{AuditLine, AuditLog, AuditPage, AuditQuery, ReadError, WriteError};

use super::Mortal;

#[async_trait]
impl<S: AuditLog> AuditLog for Mortal<S> {
    async fn audit(&self, lines: Vec<AuditLine>) -> Result<(), WriteError> {
        self.writing("audit", self.inner.audit(lines)).await
    }

    async fn audit_log(&self, query: &AuditQuery) -> Result<AuditPage, ReadError> {
        self.reading("audit_log", self.inner.audit_log(query)).await
    }
}
