//! Benchmarks of the built binary, each beside its floor in the same run.
//!
//! Nothing here asserts a time: a row says what was measured, what its floor was, and whether the
//! aim was met. `docs/benchmarks.md` has the method.

#![forbid(unsafe_code)]

mod api;
mod disk;
mod http;
mod machine;
mod model;
mod nats;
mod options;
mod postgres;
mod process;
mod relay;
mod report;
mod rows;
mod run;
mod stats;
mod stream;

pub use run::main;
