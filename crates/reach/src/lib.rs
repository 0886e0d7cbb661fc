//! What of the outside may be reached: names as they are compared, ranges that are nobody's business,
//! and a way to connect that looks at the very address it connects to.
//!
//! Whoever connects to a place that a client or an agent named goes through a [`Dialer`]: the egress of
//! hands, the vault's OAuth client, gateways.

#![forbid(unsafe_code)]

mod dial;
mod host;
mod opening;
mod own;
mod pattern;
mod range;
mod resolve;
mod rule;

pub use dial::{Dialer, Unreachable};
pub use host::{Host, HostError};
pub use opening::{BadOpening, Opening};
pub use pattern::Pattern;
pub use range::Range;
pub use resolve::{Resolver, System};
pub use rule::{Refused, Rule};
