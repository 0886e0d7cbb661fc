//! A vault with a master key of its own, which reaches this machine alone.

#![expect(clippy::unwrap_used, reason = "a failure is a failed test")]

use std::{sync::Arc, time::Duration};

use outlast_protocol::{
    Secret,
    seam::{Clock, Entropy},
};
use outlast_reach::{Dialer, Rule, System};
use outlast_store::Store;
use outlast_vault::{
    Parts, Vault,
    keyring::{Source, Sources},
};

/// A master key: 32 bytes in base64, all of them sevens.
pub const KEY: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// Makes a vault over a store, under a master key. It derives nothing before it is unlocked.
///
/// # Panics
///
/// If what it opens is no range of addresses.
pub async fn under(
    key: &str,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> Vault {
    let ring = Sources::open(Source::Set(Secret::from(key)), entropy.clone()).await;
    let here = Rule::new(&["127.0.0.0/8"]).unwrap();
    Vault::new(Parts {
        records: store.into(),
        alone: true,
        ring: Arc::new(ring),
        clock,
        entropy,
        dialer: Dialer::new(here, Arc::new(System), Duration::from_secs(5)),
        authorities: Vec::new(),
        wary: false,
    })
}
