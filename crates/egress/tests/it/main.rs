//! The egress of hands over real sockets, all of them on loopback.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests; clippy exempts only the test functions themselves"
)]

mod attacks;
mod bulk;
mod elsewhere;
mod keys;
mod lives;
mod opened;
mod plain;
mod requests;
mod scene;
mod slow;
mod tools;
mod tunnels;
mod upstream;
mod vaulted;
mod wire;
