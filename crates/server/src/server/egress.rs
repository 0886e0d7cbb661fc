//! Serves the ways out of this server's sandboxes.

use std::{net::SocketAddr, sync::Arc};

use outlast_egress::hand::{Audit, Decided, Forwarder, NoCredentials};
use outlast_kernel::Network;
use outlast_reach::System;

use crate::config::{self, Impossible};

/// Makes what serves them for a server that listens there.
pub(super) fn network(
    config: &config::Egress,
    own: SocketAddr,
) -> Result<Arc<dyn Network>, Impossible> {
    let options = config.options(own)?;
    let credentials = Arc::new(NoCredentials);
    let audit = Audit::new(log);
    Ok(Arc::new(Forwarder::new(
        options,
        credentials,
        Arc::new(System),
        audit,
    )))
}

/// Notes a decision for whoever looks closely.
fn log(decided: Decided<'_>) {
    let Decided {
        bound,
        place,
        rule,
        allowed,
        credential,
    } = decided;
    let place = place.unwrap_or("no host");
    tracing::debug!(
        session.id = %bound.session, place, rule, allowed, credential,
        "a sandbox asked for {place}: {rule}"
    );
}
