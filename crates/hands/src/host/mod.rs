//! The hand host: a driver in a process of its own, and how a server speaks to it.
//!
//! [`Host`] serves any [`Provisioner`](crate::Provisioner) over HTTP/1.1 on a Unix socket in the data
//! directory; [`Remote`] is the same provisioner at the other end. Both ends must be of one user. The
//! listeners of ways out go over a second socket beside it.
//!
//! A call goes on when its connection ends, and asking again joins it. So whoever speaks to a host
//! asks again after every broken connection, as long as the host has its lock; once the lock is
//! free the process is gone, and with it its hands. Their layers and journals are on the disk for
//! the next host. One that has its lock and does not answer is noticed by a question that it could
//! answer at once ([`Provisioner::silence`](crate::Provisioner::silence)), never by how long a call
//! takes.

mod client;
mod outlets;
mod place;
mod pulse;
mod remote;
mod remote_hand;
mod routes;
mod serve;
mod streams;
mod wire;

pub use client::Starter;
pub use place::{Lock, Place, TakeError};
pub use remote::{Found, OpenError, Remote};
pub use serve::{Ended, Host, Options};
pub use wire::About;

/// The version of the protocol. A server speaks this one, and the one before if that is not older than
/// `OLDEST`.
///
/// 2: recipes name packages. 3: recipes ask for a way out, which goes over a socket of its own.
pub const VERSION: u32 = 3;

/// The first version whose hands can have all that they are asked for. An older host drains: its hands
/// would never have a way out, however long they lived.
const OLDEST: u32 = 3;
