//! The API from outside, over a store in memory, with brains that the tests play by hand.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests; clippy exempts only the test functions themselves"
)]

mod agents;
mod audit;
mod bench;
mod brain;
mod concurrency;
mod credentials;
mod deadlines;
mod diagnosis;
mod environments;
mod events;
mod files;
mod full;
mod keys;
mod limits;
mod once;
mod openapi;
mod paging;
mod pressure;
mod previews;
mod reader;
mod redact;
mod redaction;
mod resources;
mod sessions;
mod sockets;
mod streams;
mod threads;
mod transport;
mod vaults;
