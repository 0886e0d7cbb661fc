//! The rows, one file per group.

pub(crate) mod append;
pub(crate) mod boot;
pub(crate) mod checkpoint;
pub(crate) mod egress;
pub(crate) mod file;
mod fill;
pub(crate) mod gateway;
pub(crate) mod hand;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod postgres;
pub(crate) mod restart;
pub(crate) mod sandbox;
pub(crate) mod size;
pub(crate) mod sweep;
pub(crate) mod token;
pub(crate) mod ttft;
pub(crate) mod wake;
