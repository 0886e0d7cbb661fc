//! Vaults: what holds the credentials of one account, person or purpose.

mod request;
mod resource;

pub use request::{CreateVault, UpdateVault};
pub use resource::Vault;

#[cfg(test)]
mod tests;
