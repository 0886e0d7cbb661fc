//! The store on real files: the contract, crashes, full disks.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure in a helper is a failed test"
)]

mod audit;
mod bodies;
mod contract;
mod crash;
mod erased;
mod failures;
mod full;
mod future;
mod kit;
mod million;
mod plain;
mod postgres;
mod restart;
