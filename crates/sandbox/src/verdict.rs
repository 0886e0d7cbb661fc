//! What isolation this host gives.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Layering, mapping::Mode};

/// Which control groups bound a sandbox.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "version", rename_all = "snake_case")]
pub enum Cgroups {
    /// Version 1.
    V1 {
        /// The controllers in use.
        controllers: Vec<String>,
    },
    /// Version 2.
    V2 {
        /// The controllers in use.
        controllers: Vec<String>,
    },
    /// None: limits are kept with rlimits and by looking, from inside and outside, and processor time
    /// is not bounded.
    None {
        /// Why not.
        reason: String,
    },
}

/// Who bounds what a sandbox writes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "kept_by", rename_all = "snake_case")]
pub enum Disk {
    /// The kernel: each sandbox has a file system of its own.
    Image,
    /// The server, which measures while calls run and ends what writes too much.
    Measured {
        /// Why.
        reason: String,
    },
}

/// What an operator demands of a sandbox: without it none is started.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// Control groups bound memory and processes.
    Cgroups,
    /// Control groups bound processor time.
    Cpu,
    /// The kernel bounds what is written.
    Disk,
    /// PID 1 and commands have ids that nothing else on the host has.
    OwnIds,
}

impl Requirement {
    /// Returns its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cgroups => "cgroups",
            Self::Cpu => "cpu",
            Self::Disk => "disk",
            Self::OwnIds => "own_ids",
        }
    }
}

/// What was found by starting a sandbox on this host.
///
/// User, pid, mount, net, ipc, uts and cgroup namespaces, seccomp and `no_new_privs` are not in it:
/// without any of them there is no sandbox at all, never a weaker one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Verdict {
    /// As root or as an ordinary user.
    pub mode: Mode,
    /// Who bounds memory, processes and processor time.
    pub cgroups: Cgroups,
    /// How the writable layer is mounted; plain where overlays are refused.
    pub layering: Layering,
    /// Who bounds what is written.
    pub disk: Disk,
    /// Why nothing can be started, if so.
    pub refusal: Option<String>,
}

impl Verdict {
    /// Says why this host does not meet a requirement; `None` if it does.
    pub fn lacks(&self, requirement: Requirement) -> Option<String> {
        let controllers = match &self.cgroups {
            Cgroups::V1 { controllers } | Cgroups::V2 { controllers } => controllers.as_slice(),
            Cgroups::None { .. } => &[],
        };
        let has = |name: &str| controllers.iter().any(|found| found == name);
        match (requirement, &self.cgroups, &self.disk) {
            (Requirement::Cgroups | Requirement::Cpu, Cgroups::None { reason }, _) => {
                Some(format!("there are no control groups ({reason})"))
            }
            (Requirement::Cpu, ..) if !has("cpu") => {
                Some("the cpu controller is missing".to_owned())
            }
            (Requirement::Disk, _, Disk::Measured { reason }) => Some(format!(
                "a sandbox cannot have a disk of its own ({reason})"
            )),
            (Requirement::OwnIds, ..) if self.mode == Mode::Rootless => {
                Some("the server does not run as root".to_owned())
            }
            (
                Requirement::Cgroups | Requirement::Cpu | Requirement::Disk | Requirement::OwnIds,
                ..,
            ) => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(refusal) = &self.refusal {
            return write!(f, "no sandbox can be started: {refusal}");
        }
        let mode = match self.mode {
            Mode::Privileged => "as root, PID 1 and commands under two ids that nothing else has",
            Mode::Rootless => "rootless, everything inside under this user's id",
        };
        let layering = match self.layering {
            Layering::Overlay => "overlay",
            Layering::Plain => "no overlay here, a plain folder",
        };
        write!(f, "{mode}; {layering}; ")?;
        match &self.disk {
            Disk::Image => write!(f, "a disk of its own; ")?,
            Disk::Measured { reason } => write!(f, "disk use is measured ({reason}); ")?,
        }
        match &self.cgroups {
            Cgroups::V1 { controllers } => write!(f, "cgroup v1 ({})", controllers.join(", ")),
            Cgroups::V2 { controllers } => write!(f, "cgroup v2 ({})", controllers.join(", ")),
            Cgroups::None { reason } => write!(
                f,
                "no cgroups ({reason}): memory and processes are bounded by looking, processor time \
                 is not"
            ),
        }
    }
}
