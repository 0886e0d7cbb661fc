//! The wire's nouns: ids, requests, responses, events, error codes, limits and model facts.
//!
//! Nothing here performs I/O or reads a clock. The types are those of the public Claude Managed
//! Agents API; what Outlast adds to it is named as such.

#![forbid(unsafe_code)]

pub mod agent;
pub mod audit;
mod base62;
pub mod call;
pub mod content;
pub mod credential;
pub mod deadlines;
pub mod diagnosis;
pub mod environment;
pub mod error;
pub mod event;
pub mod facts;
pub mod file;
mod host;
pub mod id;
pub mod key;
pub mod limits;
pub mod master_keys;
pub mod metadata;
pub mod mime;
pub mod page;
pub mod query;
pub mod read;
pub mod redaction;
pub mod seam;
mod secret;
pub mod session;
#[cfg(test)]
mod testing;
pub mod time;
pub mod vault;
mod words;

pub use call::{CallResult, Outcome};
pub use error::{ErrorCode, Problem};
pub use metadata::Metadata;
pub use secret::Secret;
pub use time::Micros;
