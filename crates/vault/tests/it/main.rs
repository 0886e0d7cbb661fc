//! The vault over a store: lending, refreshing, trying, and turning to another master key.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failure is a failed test"
)]

mod bearer;
mod custodian;
mod placed;
mod provider;
mod refresh;
mod support;
mod turn;
mod unlock;
mod validate;
