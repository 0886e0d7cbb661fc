//! Takes out of the audit log what the operator keeps no longer, and says so in it.

use std::{sync::Arc, time::Duration};

use outlast_kernel::Kernel;
use outlast_protocol::{
    Micros,
    audit::{Actor, AuditOutcome, Entry},
};
use outlast_store::Trim;
use tokio::time::sleep;

/// How often old entries are looked for.
const OFTEN: Duration = Duration::from_secs(60 * 60);

/// Looks for ever.
pub(super) async fn keep(store: Arc<dyn Trim>, kernel: Kernel, kept: Duration) {
    loop {
        let now = kernel.now();
        let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
        let before = Micros(now.0.saturating_sub(kept));
        let entry = Entry::new(now, Actor::Server, "audit.trim").came_to(AuditOutcome::Done);
        match store.trim(before, entry).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(gone, "{gone} old entries went from the audit log"),
            Err(fault) => tracing::warn!(%fault, "the audit log cannot be trimmed now: {fault}"),
        }
        sleep(OFTEN).await;
    }
}
