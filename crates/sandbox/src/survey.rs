//! What a host can isolate, part by part: what was tried, what is missing, what would mend it.

mod barrier;
mod host;
mod switches;
mod tries;

use std::{fmt, io, path::Path};

use serde::Serialize;

use crate::{Cgroups, Disk, Launcher, Layering, Verdict, mapping::Mode};
pub(crate) use barrier::lifted;
use host::Host;
pub(crate) use switches::Switches;
#[cfg(test)]
pub(crate) use switches::tests::shown;

/// How a part is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Good,
    /// Sandboxes start, with less.
    Less,
    /// Without it no sandbox starts.
    Missing,
    /// It does not matter here.
    Unneeded,
}

/// One part of the isolation.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// The part.
    pub part: &'static str,
    /// How it is.
    pub state: State,
    /// What was found, in words.
    pub found: String,
    /// The command that mends it, where one does.
    pub mend: Option<String>,
}

/// Everything that was tried, for one user of one host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Survey {
    /// For whom it holds: name and number of the user that asked.
    pub user: String,
    /// The release of the kernel.
    pub kernel: String,
    /// The kind of container that the server runs in, if it does.
    pub container: Option<String>,
    /// The parts.
    pub findings: Vec<Finding>,
    /// What a whole sandbox came to.
    pub verdict: Verdict,
}

impl Finding {
    fn new(part: &'static str, state: State, found: impl Into<String>) -> Self {
        Self {
            part,
            state,
            found: found.into(),
            mend: None,
        }
    }

    fn mend(self, mend: Option<String>) -> Self {
        Self { mend, ..self }
    }
}

impl Survey {
    /// Tells whether every part is as it should be.
    pub fn is_whole(&self) -> bool {
        let whole = |finding: &Finding| matches!(finding.state, State::Good | State::Unneeded);
        self.verdict.refusal.is_none() && self.findings.iter().all(whole)
    }

    /// Says what isolation is left.
    pub fn left(&self) -> String {
        if self.verdict.refusal.is_some() {
            return "none: every call that needs a sandbox is refused, and chat goes on".to_owned();
        }
        let ids = match self.verdict.mode {
            Mode::Privileged => "ids that nothing else on this host has",
            Mode::Rootless => "the ids of this user, without any right",
        };
        let mut left = format!(
            "own user, pid, mount, network, ipc, uts and cgroup namespaces, a list of allowed \
             system calls, no capability, no_new_privs, {ids}"
        );
        match &self.verdict.cgroups {
            Cgroups::V1 { controllers } | Cgroups::V2 { controllers } => {
                left.push_str("; the kernel bounds ");
                left.push_str(&controllers.join(", "));
            }
            Cgroups::None { .. } => left.push_str(
                "; memory and processes are bounded by looking, but for memory that a program hides \
                 from that, and processor time is not bounded; a command that is refused a process is \
                 told if it says so or there are as many as there may be for a moment, else not",
            ),
        }
        left.push_str(match self.verdict.disk {
            Disk::Image => "; the kernel bounds disk and inodes",
            Disk::Measured { .. } => {
                "; disk and inodes are measured, but for deleted files that a mapping alone holds"
            }
        });
        left
    }
}

impl Launcher {
    /// Tries everything that a sandbox needs, one by one, in a folder that is made and removed.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn survey(&self, folder: &Path) -> io::Result<Survey> {
        let host = Host::look();
        crate::remove_tree(folder)?;
        tries::prepare(self, folder)?;
        let findings = vec![
            tries::users(self, &host),
            tries::others(self, &host),
            tries::overlay(self, &host, folder),
            tries::filter(self, &host),
            self.cgroups(&host),
            self.disks(&host),
            tries::id_maps(self, folder),
            host.programs_in_memory(),
            host.container_finding(),
            self.whole(),
        ];
        crate::remove_tree(folder)?;
        Ok(Survey {
            user: host.user.clone(),
            kernel: host.kernel.clone(),
            container: host.container,
            findings,
            verdict: self.verdict().clone(),
        })
    }

    /// Tells whether a sandbox with all of it starts: parts that work alone may not work together.
    fn whole(&self) -> Finding {
        const PART: &str = "whole sandbox";
        match self.verdict().refusal {
            None => Finding::new(PART, State::Good, "one was started"),
            Some(_) => Finding::new(PART, State::Missing, "none was started, as is said below"),
        }
    }

    /// Describes control groups.
    fn cgroups(&self, host: &Host) -> Finding {
        const PART: &str = "control groups";
        let (version, controllers) = match &self.verdict().cgroups {
            Cgroups::V1 { controllers } => ("version 1", controllers),
            Cgroups::V2 { controllers } => ("version 2", controllers),
            Cgroups::None { reason } => {
                return Finding::new(PART, State::Less, format!("none: {reason}"))
                    .mend(host.groups_mend());
            }
        };
        let found = format!("{version}: {}", controllers.join(", "));
        if controllers.iter().any(|name| name == "cpu") {
            return Finding::new(PART, State::Good, found);
        }
        let found =
            format!("{found}; processor time is not bounded, the cpu controller is missing");
        Finding::new(PART, State::Less, found).mend(host.groups_mend())
    }

    /// Describes disks.
    fn disks(&self, host: &Host) -> Finding {
        const PART: &str = "loop devices";
        match &self.verdict().disk {
            Disk::Image => Finding::new(PART, State::Good, "each sandbox has a disk of its own"),
            Disk::Measured { reason } => {
                let found = format!("disk use is measured while calls run: {reason}");
                Finding::new(PART, State::Less, found).mend(host.disks_mend(reason))
            }
        }
    }
}

impl fmt::Display for Survey {
    /// Writes it as a person reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.container {
            Some(kind) => format!(", in a container ({kind})"),
            None => String::new(),
        };
        writeln!(f, "for {} on Linux {}{place}", self.user, self.kernel)?;
        for finding in &self.findings {
            let word = match finding.state {
                State::Good => "ok",
                State::Less => "LESS",
                State::Missing => "MISSING",
                State::Unneeded => "-",
            };
            writeln!(f, "  {word:<8} {:<18} {}", finding.part, finding.found)?;
            if let Some(mend) = &finding.mend {
                writeln!(f, "  {:<8} {:<18} mend: {mend}", "", "")?;
            }
        }
        if let Some(refusal) = &self.verdict.refusal {
            writeln!(f, "no sandbox can be started: {refusal}")?;
        }
        writeln!(f, "isolation left: {}", self.left())
    }
}

/// Says whether layers are overlays.
fn layering(layering: Layering) -> &'static str {
    match layering {
        Layering::Overlay => "it works in a user namespace",
        Layering::Plain => "refused in a user namespace: layers are whole copies",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(refusal: Option<&str>, state: State) -> Survey {
        let mend = Some("sudo sysctl -w user.max_user_namespaces=15000".to_owned());
        Survey {
            user: "root (uid 0)".to_owned(),
            kernel: "6.18".to_owned(),
            container: None,
            findings: vec![Finding::new("user namespaces", state, "no").mend(mend)],
            verdict: Verdict {
                mode: Mode::Rootless,
                cgroups: Cgroups::None {
                    reason: "x".to_owned(),
                },
                layering: Layering::Overlay,
                disk: Disk::Image,
                refusal: refusal.map(str::to_owned),
            },
        }
    }

    #[test]
    fn what_is_missing_is_told_with_its_command() {
        let text = survey(Some("why"), State::Missing).to_string();
        assert!(text.contains("MISSING  user namespaces    no\n"), "{text}");
        assert!(text.contains("mend: sudo sysctl -w user.max_user_namespaces=15000\n"));
        assert!(text.contains("no sandbox can be started: why\n"));
        assert!(text.contains("isolation left: none: every call"), "{text}");
    }

    #[test]
    fn whole_is_what_lacks_nothing() {
        assert!(survey(None, State::Good).is_whole());
        assert!(survey(None, State::Unneeded).is_whole());
        assert!(!survey(None, State::Less).is_whole());
        assert!(!survey(Some("why"), State::Good).is_whole());
    }
}
