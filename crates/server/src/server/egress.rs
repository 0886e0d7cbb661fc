//! Serves the ways out of this server's sandboxes.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use outlast_egress::hand::{Audit, Forwarder, Vaulted};
use outlast_kernel::{Kernel, Network};
use outlast_reach::System;
use outlast_vault::Vault;

use crate::config::{self, Impossible};

/// Makes what serves them for a server that listens there; its kernel is told of what was decided, once
/// it is made.
pub(super) fn network(
    config: &config::Egress,
    own: SocketAddr,
    vault: &Vault,
    kernel: &Arc<OnceLock<Kernel>>,
) -> Result<Arc<dyn Network>, Impossible> {
    let options = config.options(own)?;
    let credentials = Arc::new(Vaulted::new(vault.clone()));
    Ok(Arc::new(Forwarder::new(
        options,
        credentials,
        Arc::new(System),
        Audit::of(kernel.clone()),
    )))
}
