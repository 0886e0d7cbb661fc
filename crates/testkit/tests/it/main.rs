//! Tests of the workspace as a whole: its house rules, lives that end at every point; and that the
//! kit itself keeps the contracts it stands in for.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure in a helper is a failed test"
)]

mod apart;
mod away;
mod beats;
mod boundaries;
mod budgets;
mod checkpoints;
mod crash;
mod faults;
mod house;
mod lives;
mod long;
mod loose;
mod mounts;
mod outlets;
mod parallel;
mod points;
mod poison;
mod races;
mod replaced;
mod repositories;
mod seeds;
mod silent;
mod sim;
mod suites;
mod tokens;
mod woken;
