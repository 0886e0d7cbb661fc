//! Tests of the workspace as a whole: its house rules, lives that end at every point; and that the
//! kit itself keeps the contracts it stands in for.

mod crash;
mod faults;
mod house;
mod lives;
mod seeds;
mod suites;
