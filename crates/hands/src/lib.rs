//! Hands: what executes calls. One verb, whatever stands behind it.
//!
//! A [`Provisioner`] makes a [`Hand`] for an incarnation, and a hand executes calls, each at most
//! once. The driver here is [`namespace`]: a Linux sandbox per incarnation, child of this process.
//! [`host`] keeps a driver in a process of its own, so that hands outlive whoever asks them.
//! A hand knows nothing of sessions.

#![forbid(unsafe_code)]

pub mod conformance;
mod error;
pub mod fake;
mod fence;
pub mod files;
mod hand;
pub mod host;
pub mod images;
pub mod namespace;
pub mod outlet;
pub mod packages;
mod recipe;

pub use error::{CallError, HandLost, ProvisionError, ReapError, Silence};
pub use hand::{Fence, Hand, Keep, Promise, Provisioner, Recalled};
pub use outlast_init::{STANDARD, Tool};
pub use outlast_sandbox::Requirement;
pub use outlet::Outlet;
pub use recipe::{Limits, Recipe};
