//! Whole servers: started as an operator starts them, used as a client uses them.

#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests; clippy exempts only the test functions themselves"
)]

mod apart;
mod beats;
mod clocks;
mod commands;
mod config;
mod deadlines;
mod denied;
mod described;
mod disk;
mod doctor;
mod edges;
mod files;
mod first_session;
mod floods;
mod gateway;
mod hosts;
mod images;
mod keys;
mod killed;
mod ledger;
mod lent;
mod lost_machine;
mod many;
mod names;
mod on_postgres;
mod outlets;
mod packages;
mod pressure;
mod readers;
mod red;
mod redacted;
mod refusals;
mod restart;
mod run;
mod secrets;
mod silent;
mod storms;
mod support;
mod torn;
mod vault;
