//! The processes of a sandbox, as the host sees them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
};

/// Returns a process and all that descend from it: everything in its pid namespace, where orphans are its
/// children.
///
/// Asked of their namespace, processes of a sandbox that hide from their own user would not answer.
pub(crate) fn family(first: i32) -> io::Result<BTreeSet<i32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(pid) = pid
            && let Some(parent) = parent(pid)
        {
            parents.insert(pid, parent);
        }
    }
    let mut family = BTreeSet::from([first]);
    loop {
        let known = family.len();
        let more = parents.iter().filter(|(_, parent)| family.contains(parent));
        let more: Vec<_> = more.map(|(pid, _)| *pid).collect();
        family.extend(more);
        if family.len() == known {
            return Ok(family);
        }
    }
}

/// Returns the parent of a process, if it is there.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}
