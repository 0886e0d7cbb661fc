//! Processes: what stands in their environments and arguments while they live.

use std::{collections::HashMap, fs};

use super::Search;

/// Returns everything that descends from some processes, without these.
pub fn descendants(of: &[u32]) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some((pid, parent)) = pid.and_then(|pid| Some((pid, parent(pid)?))) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut open, mut found) = (of.to_vec(), Vec::new());
    while let Some(pid) = open.pop() {
        let own = children.remove(&pid).unwrap_or_default();
        open.extend(&own);
        found.extend(own);
    }
    found
}

/// Returns the process that another one is a child of.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; the state and the parent stand behind it.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

impl Search {
    /// Tells what stands in the arguments of processes; what has ended has none.
    pub fn arguments(&self, pids: &[u32]) -> Vec<String> {
        self.each(pids, "cmdline", "the arguments")
    }

    /// Tells what stands in the environments of processes, of those that may be looked into.
    pub fn environments(&self, pids: &[u32]) -> Vec<String> {
        self.each(pids, "environ", "the environment")
    }

    fn each(&self, pids: &[u32], file: &str, what: &str) -> Vec<String> {
        let look = |pid: &u32| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            self.bytes(&format!("{what} of `{}` ({pid})", name.trim()), &bytes)
        };
        pids.iter().flat_map(look).collect()
    }
}
