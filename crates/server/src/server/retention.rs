//! Takes out of the audit log what the operator keeps no longer, and says so in it.

mod belief;

use std::{sync::Arc, time::Duration};

use outlast_kernel::{AuditQuery, Kernel, Order};
use outlast_protocol::{
    Micros,
    audit::{Actor, AuditOutcome, Entry},
};
use outlast_store::Trim;
use tokio::time::sleep;

use belief::{Belief, STANDS};

/// How often old entries are looked for.
const OFTEN: Duration = Duration::from_secs(60 * 60);

/// Looks for ever.
pub(super) async fn keep(store: Arc<dyn Trim>, kernel: Kernel, kept: Duration) {
    let now = kernel.now();
    let mut belief = Belief::new(now, is_vouched(&kernel, now).await);
    loop {
        let now = kernel.now();
        if belief.look(now) {
            trim(&*store, now, kept).await;
        }
        sleep(OFTEN).await;
    }
}

/// Tells whether the log has entries of the day before the last one, as it has where a server was in use
/// and its clock is right; one that was set far ahead finds that day empty.
async fn is_vouched(kernel: &Kernel, now: Micros) -> bool {
    let query = AuditQuery {
        actor: None,
        action: None,
        subject: None,
        since: Some(before(now, 2 * STANDS)),
        until: Some(before(now, STANDS)),
        order: Order::Backwards,
        after: None,
        limit: 1,
    };
    let found = kernel.audit_log(&query).await;
    found.is_ok_and(|page| !page.items.is_empty())
}

async fn trim(store: &dyn Trim, now: Micros, kept: Duration) {
    let entry = Entry::new(now, Actor::Server, "audit.trim").came_to(AuditOutcome::Done);
    match store.trim(before(now, kept), entry).await {
        Ok(0) => {}
        Ok(gone) => tracing::info!(gone, "{gone} old entries went from the audit log"),
        Err(fault) => tracing::warn!(%fault, "the audit log cannot be trimmed now: {fault}"),
    }
}

fn before(now: Micros, time: Duration) -> Micros {
    let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    Micros(now.0.saturating_sub(time))
}
