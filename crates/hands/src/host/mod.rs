//! The hand host: a driver in a process of its own, and how a server speaks to it.
//!
//! [`Host`] serves any [`Provisioner`](crate::Provisioner) over HTTP/1.1 on a Unix socket in the data
//! directory; [`Remote`] is the same provisioner at the other end. Both ends must be of one user.
//!
//! A call goes on when its connection ends, and asking again joins it. So whoever speaks to a host
//! asks again after every broken connection, as long as the host has its lock; once the lock is
//! free the process is gone, and with it its hands. Their layers and journals are on the disk for
//! the next host. One that has its lock and does not answer is noticed by a question that it could
//! answer at once ([`Provisioner::silence`](crate::Provisioner::silence)), never by how long a call
//! takes.

mod client;
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

/// The version of the protocol. A server speaks this one and the one before.
///
/// 2: recipes name packages. A host of version 1 would make such a hand without them, so it is not
/// asked for one.
pub const VERSION: u32 = 2;

/// The first version that knows packages.
const PACKAGES: u32 = 2;
