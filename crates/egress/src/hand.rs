//! The egress of hands: the only way out of a sandbox.
//!
//! A hand is known by its listener and never by anything that is said inside it, for that may be
//! hostile. What it may name is its environment's policy; where that leads is resolved outside, checked,
//! and connected to at that very address. Only where a credential applies is TLS opened, under an
//! authority that one life of one hand trusts: what stands for the secret inside is swapped in the declared
//! place, and what comes back is swept.

mod answer;
mod audit;
mod authority;
mod body;
mod bound;
mod client;
mod credentials;
mod forward;
mod forwarder;
mod framing;
mod hello;
mod hop;
mod kept;
mod listen;
mod managers;
mod options;
mod place;
mod policy;
mod relay;
mod slot;
mod stream;
mod swapped;
mod tls;
mod told;
mod tunnel;
mod upgraded;
mod upstream;
mod vaulted;
mod worn;

pub use audit::{Audit, Decided};
pub use credentials::{Credentials, Held, Hosts, NoCredentials, Unreadable, Way};
pub use forwarder::Forwarder;
pub use managers::Managers;
pub use options::{CONNECT, CONNECTIONS, IDLE, Options};
pub use policy::Rule;
pub use tls::{NoAuthorities, authorities};
pub use vaulted::Vaulted;

pub use outlast_kernel::{Bound, Dress, Network};
