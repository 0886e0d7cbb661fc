//! The public HTTP API: routes, keys, errors, streams, and answers that are given once.
//!
//! A handler extracts, makes one call to the kernel (or to the store of plain resources behind
//! it), and views the outcome. What is legal is decided further in; here is only what HTTP adds:
//! who asks, the form of errors, pages, server-sent events and repeats of requests.

#![forbid(unsafe_code)]

mod agents;
mod answer;
mod app;
mod audit;
mod audited;
mod auth;
mod connection;
mod credentials;
mod environments;
mod events;
mod extract;
mod failure;
mod files;
mod health;
mod intake;
mod keys;
mod later;
mod listing;
mod master_keys;
mod metric_definitions;
mod observe;
mod once;
mod openapi;
mod own;
mod plain;
mod resources;
mod router;
mod sessions;
mod stream;
mod threads;
mod tokens;
mod upload;
mod vaults;

pub use app::{Api, PING};
pub use connection::Connection;
pub use intake::Bounds;
pub use metric_definitions::describe;
pub use observe::{Unread, unread};
pub use openapi::DOCUMENT;
pub use router::{Beside, behind_key, router, router_beside, turning_away};
