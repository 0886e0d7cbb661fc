//! The vault of a server: where its master keys are, and what it may connect to.

use std::{path::Path, sync::Arc, time::Duration};

use outlast_egress::hand::Options;
use outlast_reach::{Dialer, System};
use outlast_vault::{Parts, Vault, keyring::Sources};

use super::database::Database;
use crate::{OsEntropy, SystemClock, config::Config};

/// The longest that a token endpoint or MCP server may take to be connected to.
pub(super) const WAIT: Duration = Duration::from_secs(10);

/// Opens the vault over a store. That it stays locked stops no start: what needs no secret is served.
pub(super) async fn open(
    config: &Config,
    database: &Database,
    data_dir: &Path,
    outlets: &Options,
) -> Vault {
    let entropy = Arc::new(OsEntropy);
    let ring = Sources::open(config.vault.source(data_dir), entropy.clone()).await;
    let vault = Vault::new(Parts {
        records: database.store().into(),
        alone: !database.is_shared(),
        ring: Arc::new(ring),
        clock: Arc::new(SystemClock::new()),
        entropy,
        dialer: Dialer::new(outlets.rule.clone(), Arc::new(System), WAIT),
        authorities: outlets.authorities.iter().map(|one| one.to_vec()).collect(),
        wary: false,
    });
    vault.unlock().await;
    vault
}
