//! Secrets at rest: sealed under keys that the database does not have.
//!
//! A [`Secret`] is sealed under a key of its own, which a master key wraps; a [`Keyring`] has the master
//! keys, and they never lie in the database. What may be done with a secret (its URL, its hosts, where
//! it goes in a request) is sealed along with it, so whoever can write rows can neither read one nor
//! send one elsewhere.

#![forbid(unsafe_code)]

mod cipher;
mod content;
mod derive;
pub mod keyring;
mod seal;
mod secret;
mod vault;

pub use content::{ClientAuth, Content, Hosts, Refresh};
pub use keyring::{KeyName, Keyring, NoMasterKey};
pub use seal::{Opening, Place, Sealed, Sealing};
pub use secret::Secret;
pub use vault::Vault;
