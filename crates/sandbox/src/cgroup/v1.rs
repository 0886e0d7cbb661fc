//! Version 1: a folder per controller.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Freezer, Group, find::Host, make};
use crate::Limits;

/// The period of the processor quota, in microseconds.
const PERIOD: u64 = 100_000;

/// The server's own group in each hierarchy that lets it make groups.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchies {
    found: Vec<(&'static str, PathBuf)>,
}

impl Hierarchies {
    /// Returns the hierarchies in which a group can be made; memory and pids must be among them.
    pub(super) fn usable(host: &Host) -> Result<Self, String> {
        let mut found = Vec::new();
        for name in ["memory", "pids", "cpu", "freezer"] {
            let tried = host
                .v1(name)
                .ok_or_else(|| "not mounted".to_owned())
                .and_then(|folder| attempt(folder).map_err(|error| error.to_string()));
            match tried {
                Ok(folder) => found.push((name, folder)),
                // Without a processor quota a sandbox can only be slow to others, and without a freezer
                // its processes are stopped by signals.
                Err(_) if matches!(name, "cpu" | "freezer") => {}
                Err(reason) => return Err(format!("{name}: {reason}")),
            }
        }
        Ok(Self { found })
    }

    /// Returns the names of the controllers in use.
    pub(super) fn names(&self) -> Vec<String> {
        self.found
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect()
    }

    /// Returns the folders that groups are made in.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.found
            .iter()
            .map(|(_, folder)| folder.clone())
            .collect()
    }

    /// Makes the group `name` in every hierarchy.
    pub(super) fn create(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        let mut group = Group::default();
        for (controller, parent) in &self.found {
            let folder = parent.join(name);
            if let Err(error) = make(&folder).and_then(|()| bound(controller, &folder, limits)) {
                group.folders.push(folder);
                group.remove();
                return Err(error);
            }
            match *controller {
                "memory" => group.oom = Some(folder.join("memory.oom_control")),
                "pids" => group.pids = Some(folder.join("pids.events")),
                "freezer" => group.freezer = Some(Freezer::V1(folder.clone())),
                "cpu" => group.cpu = Some(folder.join("cpu.stat")),
                _ => {}
            }
            group.folders.push(folder);
        }
        Ok(group)
    }
}

/// Makes a group below `folder` and removes it.
fn attempt(folder: PathBuf) -> io::Result<PathBuf> {
    let trial = folder.join(format!("{}{}", super::PREFIX, super::trial()));
    make(&trial)?;
    fs::remove_dir(&trial)?;
    Ok(folder)
}

/// Writes the bounds of one controller.
fn bound(controller: &str, folder: &Path, limits: &Limits) -> io::Result<()> {
    match controller {
        "memory" => {
            let bytes = limits.memory_bytes.to_string();
            fs::write(folder.join("memory.limit_in_bytes"), &bytes)?;
            // Without swap accounting in the kernel the file does not exist.
            drop(fs::write(
                folder.join("memory.memsw.limit_in_bytes"),
                &bytes,
            ));
            Ok(())
        }
        "pids" => fs::write(
            folder.join("pids.max"),
            super::most_pids(limits).to_string(),
        ),
        "freezer" => Ok(()),
        _ => {
            fs::write(folder.join("cpu.cfs_period_us"), PERIOD.to_string())?;
            let quota = u64::from(limits.cpu_millis) * PERIOD / 1000;
            fs::write(folder.join("cpu.cfs_quota_us"), quota.max(1000).to_string())
        }
    }
}
