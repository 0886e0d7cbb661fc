//! Our loop: a stateless brain that works through `kernel` alone.
//!
//! [`step()`] is pure: what a thread stands at decides what comes next. The driver performs it with
//! a model and a lease. Everything that must survive is in the log, so a brain can be killed at
//! any instruction and another one goes on.

#![forbid(unsafe_code)]

mod attach;
mod context;
mod drive;
mod failure;
mod prefix;
mod request;
mod step;
mod stream;
mod worker;

pub use failure::Retries;
pub use step::{Effect, step};
pub use worker::{Options, Worker};
