//! What a hand is made from.

use std::time::Duration;

use outlast_protocol::id::IncarnationId;
use outlast_sandbox::Requirement;
use serde::{Deserialize, Serialize};

use crate::{outlet::Outlet, packages::Wanted};

/// Everything that a hand is made from.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Recipe {
    /// The life to begin.
    pub incarnation: IncarnationId,
    /// Whose writable layer this one takes over, if it is still on this machine. It ends first.
    pub predecessor: Option<IncarnationId>,
    /// Its bounds.
    pub limits: Limits,
    /// The image that its files stand on, by name; the node's default where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What the node must be able to isolate; a hand that cannot be held so is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Requirement>,
    /// What is installed in it before it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Wanted>,
    /// Its way out; nothing leaves a hand that has none. Nobody asks a driver for it that has no
    /// [`outlets`](crate::files::Abilities::outlets).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlet: Option<Outlet>,
}

impl Recipe {
    /// Makes a recipe with the default bounds and nothing beside.
    pub fn new(incarnation: IncarnationId) -> Self {
        Self {
            incarnation,
            predecessor: None,
            limits: Limits::default(),
            image: None,
            require: Vec::new(),
            packages: None,
            outlet: None,
        }
    }
}

/// Upper bounds for one hand.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Limits {
    /// Memory of everything together, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Processor time per second, in thousandths of one processor.
    pub cpu_millis: u32,
    /// The longest that any call may run, whatever it asks for.
    pub call: Duration,
    /// How much of a command's output is kept: its last bytes.
    pub output_bytes: usize,
    /// What the writable layer may hold, in bytes.
    pub disk_bytes: u64,
    /// Files, folders and links that the writable layer may hold.
    pub inodes: u64,
}

impl Default for Limits {
    /// Two processors, 2 GiB, 512 processes, an hour per call, 100 KiB of output, 10 GiB of disk,
    /// a million files.
    fn default() -> Self {
        Self {
            memory_bytes: 2 << 30,
            pids: 512,
            cpu_millis: 2000,
            call: Duration::from_secs(3600),
            output_bytes: 100 * 1024,
            disk_bytes: 10 << 30,
            inodes: 1_000_000,
        }
    }
}
