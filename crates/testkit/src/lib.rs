//! What tests of every room share: a store in memory, faults on demand, a clock and a die that a
//! test holds in its hand.
//!
//! Development only: no room depends on it but in its tests.

#![forbid(unsafe_code)]

pub mod blobs;
pub mod canary;
pub mod faults;
pub mod faulty;
pub mod ledger;
pub mod memory;
pub mod mortal;
pub mod postgres;
pub mod random;
pub mod time;
pub mod vault;

pub use outlast_store::conformance::fixture as build;
