//! How to start a confined process: namespaces, overlay, seccomp, cgroups. Knows no session and no hand.
//!
//! The server never forks its own memory. It executes a small static helper (`outlast-confine`, this
//! package's binary) with an empty environment and one socket; the helper builds the namespaces
//! and the file tree it is told to build, then replaces itself by the program. [`Launcher`] is the
//! server's side, [`confine`] the helper's.

#![deny(unsafe_code)]

mod boot;
mod cgroup;
pub mod confine;
mod confined;
mod disk;
mod error;
mod family;
mod freeze;
mod held;
mod image;
mod launch;
mod laying;
mod mapping;
mod mend;
mod plan;
#[expect(
    unsafe_code,
    reason = "the few system calls that no safe wrapper offers; one file, one block each"
)]
mod raw;
mod rootfs;
mod seccomp;
mod spawner;
mod spec;
mod survey;
mod syscalls;
mod verdict;

pub use boot::boot;
pub use cgroup::Pressure;
pub use confined::{Confined, Ended};
pub use disk::{Layer, Room, is_cramped};
pub use error::StartError;
pub use freeze::Frozen;
pub use held::Deleted;
pub use image::Image;
pub use launch::{Disks, Launcher, Options};
pub use mapping::{Ids, Mode};
pub use rootfs::{dress, remove_tree};
pub use spec::{Base, Cover, Layering, Limits, Purpose, Shown, Spec};
pub use survey::{Finding, State, Survey};
pub use verdict::{Cgroups, Disk, Requirement, Verdict};
