//! The session log and plain resources, durable: the only room that speaks SQL.
//!
//! [`Log`] and [`Resources`] are contracts; SQLite implements them here, and every implementation
//! passes the same `conformance` suite. What is legal in a log is not decided here but by
//! `outlast_session::admit`, inside the transaction that appends.

#![forbid(unsafe_code)]

mod log;
mod resources;

pub use log::*;
pub use resources::*;
