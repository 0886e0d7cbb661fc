//! The sandboxes.

use std::time::Duration;

use outlast_hands::{Limits, Requirement};
use outlast_kernel::Schedule;
use serde::{Deserialize, Serialize};

use super::{HandPackages, Impossible, within};

/// Upper bounds of each sandbox.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Hands {
    /// Memory of everything together.
    pub memory_mib: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Processors, in fractions where wanted.
    pub cpus: f64,
    /// The longest that one call may run.
    pub call_seconds: u64,
    /// How much of a command's output is kept.
    pub output_kib: usize,
    /// How long one may lie unused before it is let go.
    pub idle_seconds: u64,
    /// How many may live at once; unused ones beyond that are let go early.
    pub most: usize,
    /// How long a session must have been quiet before its workspace is brought into a blob.
    pub checkpoint_idle_seconds: u64,
    /// How long a turn goes on before that happens between two calls.
    pub checkpoint_seconds: u64,
    /// What its files may take on the disk.
    pub disk_mib: u64,
    /// How many files, folders and links it may have.
    pub inodes: u64,
    /// What the host must be able to isolate.
    #[serde(deserialize_with = "super::choice::words")]
    pub require: Vec<Requirement>,
    /// How old one may become before it is let go between two calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u64>,
    /// How long their host waits for a server before it ends them.
    pub orphan_seconds: u64,
    /// Where packages of environments come from.
    pub packages: HandPackages,
}

impl Default for Hands {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            memory_mib: limits.memory_bytes >> 20,
            pids: limits.pids,
            cpus: f64::from(limits.cpu_millis) / 1_000.0,
            call_seconds: limits.call.as_secs(),
            output_kib: limits.output_bytes >> 10,
            idle_seconds: 900,
            most: 512,
            checkpoint_idle_seconds: 10,
            checkpoint_seconds: 300,
            disk_mib: limits.disk_bytes >> 20,
            inodes: limits.inodes,
            require: Vec::new(),
            max_age_seconds: None,
            orphan_seconds: 600,
            packages: HandPackages::default(),
        }
    }
}

impl Hands {
    pub(super) fn check(&self) -> Result<(), Impossible> {
        within("hands.memory_mib", self.memory_mib, 16..=16_777_216)?;
        within("hands.pids", self.pids, 8..=4_194_304)?;
        within("hands.cpus", self.cpus, 0.01..=4_096.0)?;
        within("hands.call_seconds", self.call_seconds, 1..=604_800)?;
        within("hands.output_kib", self.output_kib, 1..=102_400)?;
        within("hands.idle_seconds", self.idle_seconds, 1..=31_536_000)?;
        within("hands.most", self.most, 1..=1_000_000)?;
        within(
            "hands.checkpoint_idle_seconds",
            self.checkpoint_idle_seconds,
            0..=31_536_000,
        )?;
        within(
            "hands.checkpoint_seconds",
            self.checkpoint_seconds,
            0..=31_536_000,
        )?;
        within("hands.disk_mib", self.disk_mib, 1..=16_777_216)?;
        within("hands.inodes", self.inodes, 64..=1_000_000_000)?;
        if let Some(seconds) = self.max_age_seconds {
            within("hands.max_age_seconds", seconds, 1..=31_536_000)?;
        }
        within("hands.orphan_seconds", self.orphan_seconds, 1..=31_536_000)?;
        self.packages.check()
    }

    /// Returns the bounds as a driver takes them.
    pub fn limits(&self) -> Limits {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to lie between 0.01 and 4,096"
        )]
        let cpu_millis = (self.cpus * 1_000.0).round() as u32;
        Limits {
            memory_bytes: self.memory_mib << 20,
            pids: self.pids,
            cpu_millis,
            call: Duration::from_secs(self.call_seconds),
            output_bytes: self.output_kib << 10,
            disk_bytes: self.disk_mib << 20,
            inodes: self.inodes,
        }
    }

    /// Returns when workspaces are brought into blobs.
    pub fn checkpoints(&self) -> Schedule {
        let seconds = |seconds| (seconds > 0).then(|| Duration::from_secs(seconds));
        Schedule {
            at_rest: seconds(self.checkpoint_idle_seconds),
            within_turns: seconds(self.checkpoint_seconds),
        }
    }

    /// Returns how old a hand may become.
    pub fn max_age(&self) -> Option<Duration> {
        self.max_age_seconds.map(Duration::from_secs)
    }

    /// Returns how long their host waits for a server.
    pub fn orphan(&self) -> Duration {
        Duration::from_secs(self.orphan_seconds)
    }

    /// Returns how long a hand may lie unused.
    pub fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_driver() {
        assert_eq!(Hands::default().limits(), Limits::default());
        let half = Hands {
            cpus: 0.5,
            ..Hands::default()
        };
        assert_eq!(half.limits().cpu_millis, 500);
    }
}
