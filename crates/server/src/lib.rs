//! The `outlast` binary as a library: configuration, wiring, telemetry, the command line.
//!
//! [`config`] reads what an operator set, [`Server`] brings the rooms together and serves, [`cli`]
//! is the binary, and [`client`] is how it talks to servers. Nothing global is installed but by the
//! functions of [`telemetry`].

#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
pub mod config;
mod hand_host;
mod models;
mod seams;
mod server;
pub mod telemetry;

pub use hand_host::Spawn;
pub use seams::{OsEntropy, SystemClock};
pub use server::{Backend, Facts, Key, Server, StartError};
