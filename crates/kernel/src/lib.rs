//! The verbs in process: the one door for every client and every brain.
//!
//! A client creates sessions and sends events; a brain gets a [`Lease`] from [`Claims`] and works
//! through it alone. The kernel reserves slots, claims threads, routes calls to hands, keeps hands
//! alive and wakes what has work. What is legal is decided by `outlast_session::admit` inside the
//! store's append; nothing here second-guesses it.

#![forbid(unsafe_code)]

mod audit;
mod auth;
mod calls;
mod checkpoint;
mod clients;
mod crowd;
mod deadlines;
mod diagnosis;
mod dispatch;
mod error;
mod events;
mod failing;
mod files;
mod follow;
mod gateway;
mod hand;
mod insist;
mod kernel;
mod keys;
mod lease;
mod life;
mod metric_definitions;
mod monitor;
pub mod network;
mod packages;
mod past;
mod per_session;
mod preview;
mod quarantine;
mod redact;
mod repositories;
mod shown;
mod signal;
pub mod sweep;
mod token;
mod tools;
mod workspace;

pub use audit::{audit_alone, audit_log_alone};
pub use auth::{Identity, WhileAway};
pub use checkpoint::Schedule;
pub use error::{LeaseError, unavailable};
pub use events::{Cursor, EventPage, EventQuery};
pub use files::{Attached, Received, shown};
pub use follow::{Follower, News};
pub use gateway::Asker;
pub use kernel::{HandLife, Kernel, Options, Parts};
pub use keys::{
    NewKey, create_key_alone, draw_secret, list_keys_alone, revoke_key_alone, shown_key,
};
pub use lease::{Claims, Lease};
pub use life::{Beater, Beats};
pub use network::{Bound, Dress, Network, Unreachable};
pub use preview::{Heard, Preview, Previews};
pub use redact::redact_alone;
pub use repositories::Draft;
pub use sweep::{Finder, Sweep};
pub use tools::Tool;

pub use outlast_blobs::Reader;
pub use outlast_store::{
    ApiKey, AuditPage, AuditQuery, FilePage, FileQuery, KeyPage, KeyQuery, Order, Outcome, Slice,
    StoredFile,
};
