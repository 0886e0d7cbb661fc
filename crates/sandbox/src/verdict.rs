//! What isolation this host gives.

use std::fmt;

use serde::Serialize;

use crate::{Layering, mapping::Mode};

/// Which control groups bound a sandbox.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
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
    /// None: limits are kept by the program inside, with rlimits and by counting, and processor
    /// time is not bounded.
    None {
        /// Why not.
        reason: String,
    },
}

/// What was found by starting a sandbox on this host.
///
/// User, pid, mount, net, ipc, uts and cgroup namespaces, seccomp and `no_new_privs` are not in it:
/// without any of them there is no sandbox at all, never a weaker one.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Verdict {
    /// As root or as an ordinary user.
    pub mode: Mode,
    /// Who bounds memory, processes and processor time.
    pub cgroups: Cgroups,
    /// How the writable layer is mounted; plain where overlays are refused.
    pub layering: Layering,
    /// Why nothing can be started, if so.
    pub refusal: Option<String>,
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
        match &self.cgroups {
            Cgroups::V1 { controllers } => write!(f, "cgroup v1 ({})", controllers.join(", ")),
            Cgroups::V2 { controllers } => write!(f, "cgroup v2 ({})", controllers.join(", ")),
            Cgroups::None { reason } => write!(
                f,
                "no cgroups ({reason}): memory and processes are bounded from inside, \
                 processor time is not"
            ),
        }
    }
}
