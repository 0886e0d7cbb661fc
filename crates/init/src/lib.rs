//! The first process inside a sandbox, and the standard tools.
//!
//! The library holds what both sides share: [`frame`]s between host and init, and the table of
//! [`tools`]. The binary is PID 1 inside: it reaps, keeps the persistent shell, and runs the tools
//! under the commands' user. It holds no credential and is given no environment.

#![forbid(unsafe_code)]

pub mod frame;
mod input;
pub mod install;
pub mod launch;
pub mod outlet;
pub mod pid1;
pub mod tools;
pub mod words;

pub use tools::{STANDARD, Tool};
