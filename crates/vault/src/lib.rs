//! Secrets at rest: sealed under keys that the database does not have.
//!
//! A [`Secret`] is sealed under a key of its own, which a master key wraps; a [`Keyring`] has the master
//! keys, and they never lie in the database. What may be done with a secret (its URL, its hosts, where
//! it goes in a request) is sealed along with it, so whoever can write rows can neither read one nor
//! send one elsewhere.

#![forbid(unsafe_code)]

mod bearer;
mod cipher;
mod content;
pub mod custodian;
mod derive;
mod keep;
pub mod keyring;
mod oauth;
mod order;
mod outside;
mod placed;
mod records;
mod refresh;
mod seal;
mod shelf;
mod sweeper;
mod token;
mod turn;
mod validate;
mod vault;

pub use bearer::Bearer;
pub use content::{ClientAuth, Content, Hosts, Refresh};
pub use custodian::{Custodian, Declined, Purpose};
pub use keyring::{KeyName, Keyring, NoMasterKey};
pub use order::{Brought, Order, Use};
pub use outlast_protocol::Secret;
pub use placed::Placed;
pub use records::{Records, Registry};
pub use refresh::Failure;
pub use seal::{Opening, Sealing};
pub use token::Token;
pub use turn::{Holding, NotTurned, Turned};
pub use vault::{Parts, Vault};
