//! The egress in a process of its own, under a user of its own.
//!
//! That process has the master keys, the keys of models, and every secret that is opened; it has no store.
//! The server has the store and speaks with clients; it brings secrets to be sealed, and never sees one
//! again. They meet on a socket where each checks the other's user. The server connects, always: what the
//! egress wants of the store it asks over connections that were turned around (`link`), and what leaves
//! sandboxes comes in on listeners that the server hands over (`handed`).
//!
//! There is no verb that opens a secret for whoever asks, and as soon as the server is gone nothing more
//! leaves for anybody.

mod ask;
mod doorman;
mod handed;
mod link;
mod linked;
mod models;
mod network;
mod peer;
mod remote;
mod routes;
mod serve;
mod swept;
mod tenant;
mod wire;

pub use peer::Peer;
pub use remote::{About, Remote, Server};
pub use serve::{Options, Sockets, serve};
