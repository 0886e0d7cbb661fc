//! The seam to a model: one Messages request in, a stream of typed events out.
//!
//! [`Model`] has two implementations here: [`Upstream`] speaks the Messages API over HTTP, and
//! [`Scripted`] is an offline model whose conversation carries its own script. [`wire`] serves the
//! scripted model over the same API, [`conformance`] is the suite that both must pass, and
//! [`facts`] is the table of what is known about each model id.
//!
//! Nothing in this crate retries, holds a session or reads a clock; the loop above decides.

#![forbid(unsafe_code)]

pub mod accumulate;
mod call;
pub mod conformance;
mod error;
pub mod event;
pub mod facts;
mod fields;
mod preview;
mod retry_after;
pub mod scripted;
mod sse;
mod stop;
pub mod tap;
pub mod upstream;
mod usage;
pub mod wire;

pub use accumulate::{Accumulator, Response, Text, ToolUse};
pub use call::{BrainToken, Call, Events, Model};
pub use error::{Error, Failure, RetryKind};
pub use event::Event;
pub use facts::Facts;
pub use preview::Preview;
pub use scripted::Scripted;
pub use stop::StopReason;
pub use upstream::Upstream;
pub use usage::{Speed, Usage, UsageUpdate};
