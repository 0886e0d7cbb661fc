//! The kit itself keeps the contracts that it stands in for.

mod faults;
mod suites;
