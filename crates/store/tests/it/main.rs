//! The store on real files: the contract, crashes, full disks.

mod contract;
mod kit;
