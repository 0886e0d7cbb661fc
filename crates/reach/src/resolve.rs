//! Names to addresses.

use std::{fmt::Debug, io, net::IpAddr};

use async_trait::async_trait;

/// Finds the addresses of a name, each time anew.
#[async_trait]
pub trait Resolver: Debug + Send + Sync {
    /// Returns what the name stands for, in the order in which it is tried.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine's own way: its hosts file, its DNS.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

#[async_trait]
impl Resolver for System {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in found.map(|found| found.ip()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }
}
