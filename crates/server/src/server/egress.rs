//! Serves the ways out of this server's sandboxes.

use std::sync::{Arc, OnceLock};

use outlast_egress::hand::{Audit, Forwarder, Options, Vaulted};
use outlast_kernel::{Kernel, Network};
use outlast_reach::System;
use outlast_vault::Vault;

/// Makes what serves them; the server's kernel is told of what was decided, once it is made.
pub(super) fn network(
    options: Options,
    vault: &Vault,
    kernel: &Arc<OnceLock<Kernel>>,
) -> Arc<dyn Network> {
    let credentials = Arc::new(Vaulted::new(vault.clone()));
    Arc::new(Forwarder::new(
        options,
        credentials,
        Arc::new(System),
        Audit::of(kernel.clone()),
    ))
}
