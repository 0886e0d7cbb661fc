//! What has to hold of whatever a sandbox, a client or a host sends, for a fuzzer that looks for bytes
//! of which it does not.
//!
//! The parsers of egress are compiled here from their own files, and not taken from their crate: that
//! brings databases and sandboxes along, which a fuzzer would build and instrument for minutes.

#![forbid(unsafe_code)]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "the files are whole, and only their parsers are asked"
)]

#[path = "../../crates/egress/src/forms.rs"]
mod forms;
#[path = "../../crates/init/src/frame.rs"]
mod frame;
mod hand;
#[path = "../../crates/egress/src/replace.rs"]
mod replace;

mod bodies;
mod frames;
mod hello;
mod pieces;
mod places;
mod requests;
mod swap;
mod sweep;

pub use bodies::bodies;
pub use frames::frames;
pub use hello::hello;
pub use places::places;
pub use requests::requests;
pub use swap::swap;
pub use sweep::sweep;

// What those files name of crates that are not here.
extern crate self as outlast_kernel;
extern crate self as outlast_vault;
pub use outlast_protocol::Secret;
use outlast_protocol::id::{CredentialId, VaultId};

/// Whose credentials are asked for: nobody asks here.
#[derive(Debug)]
pub struct Bound;

/// A credential that is of no use, which is told to nobody here.
#[derive(Debug)]
pub struct Unreachable {
    /// Which.
    pub credential: CredentialId,
    /// Its vault.
    pub vault: VaultId,
    /// Its hosts.
    pub hosts: Vec<String>,
}
