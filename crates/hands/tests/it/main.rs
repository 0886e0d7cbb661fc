//! Real sandboxes, on this host.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "helpers of tests; clippy exempts only the test functions themselves"
)]

mod abuse;
mod alone;
mod bash;
mod checkpoints;
mod crashes;
mod crowds;
mod denied;
mod disks;
mod drivers;
mod escapes;
mod files;
mod groups;
mod hosted;
mod hostile;
mod images;
mod kinds;
mod life;
mod limits;
mod measured;
mod outlets;
mod packages;
mod relaid;
mod shared;
mod support;
mod timing;
mod uploads;
