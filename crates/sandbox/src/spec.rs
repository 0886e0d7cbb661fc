//! What a confined process is made of.

use std::{os::fd::OwnedFd, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::Image;

/// Upper bounds for everything in one sandbox together.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Limits {
    /// Memory in bytes, caches and `/tmp` included.
    pub memory_bytes: u64,
    /// Processes and threads of the commands' user.
    pub pids: u32,
    /// Processor time per second, in thousandths of one processor.
    pub cpu_millis: u32,
    /// What the writable layer may hold, in bytes; kept where [`crate::Disk::Image`] is the verdict.
    pub disk_bytes: u64,
    /// Files, folders and links that it may hold; kept where the bytes are.
    pub inodes: u64,
}

/// What the writable layer lies over.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Base {
    /// The host's programs under an `/etc` of our own.
    #[default]
    Host,
    /// Whole trees, the topmost first; nothing of the host is shown.
    Trees(Vec<PathBuf>),
}

/// How the writable layer is put over the skeleton of the file tree.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layering {
    /// An overlay: the layer holds only what was written.
    Overlay,
    /// The layer is the whole tree, with the skeleton copied into it; for filesystems that cannot
    /// carry an overlay. It isolates just as well and cannot be stacked.
    Plain,
}

/// One confined process to start.
#[derive(Debug)]
pub struct Spec {
    /// Names the control groups; unique on this host.
    pub name: String,
    /// The program, executed as PID 1 with an empty environment.
    pub program: Arc<Image>,
    /// Its arguments, the zeroth included.
    pub argv: Vec<String>,
    /// Becomes its descriptor 0; 2 is `/dev/null` and there is none above. 1 is `/dev/null` too, or where
    /// control groups count commands apart from it the door to their group: who writes `0` there is in.
    pub channel: OwnedFd,
    /// A folder of this sandbox alone, on the host; made if it is missing. What is written inside
    /// is kept in its `upper/`.
    pub folder: PathBuf,
    /// Host folders shown inside read-only, without set-id programs and devices. What the host adds
    /// to them later is seen inside.
    pub shown: Vec<Shown>,
    /// The bounds.
    pub limits: Limits,
    /// What the writable layer lies over.
    pub base: Base,
    /// Layers between the two, the topmost first; nothing writes to them.
    pub above: Vec<PathBuf>,
    /// Files of this sandbox alone over all else, in memory: read-only, and no part of what is written.
    pub cover: Vec<Cover>,
    /// What runs in it.
    pub purpose: Purpose,
}

/// What runs in a sandbox.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Commands of an agent.
    #[default]
    Commands,
    /// Programs that install packages, which want to be root.
    ///
    /// PID 1 is uid 0 inside, also without root outside, and gains nothing by it. Files stay their
    /// maker's: a change of owner is told to have worked and is not done, since there is nobody to
    /// give them to.
    Install,
}

/// A file that one sandbox has from its launcher.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cover {
    /// Where it stands inside: an absolute path.
    pub path: String,
    /// All that is in it.
    pub content: Vec<u8>,
}

/// A host folder that one sandbox shows read-only.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shown {
    /// The folder on the host; it must be there.
    pub from: PathBuf,
    /// Where it stands inside: an absolute path of a folder of the tree.
    pub to: String,
}
