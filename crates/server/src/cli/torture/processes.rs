//! Processes of the storm: found by descent, killed by a descriptor that names them for ever.

use std::{collections::HashMap, fs, io, path::Path};

use outlast_hands::host::Place;
use outlast_protocol::id::IncarnationId;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Returns the process that has the sandboxes of a data directory, if one has.
pub(super) fn hand_host(data: &Path) -> Option<u32> {
    let place = Place::usual(data);
    if !place.is_held().unwrap_or(false) {
        return None;
    }
    place.holder()?.parse().ok()
}

/// Returns the first processes of all sandboxes of a data directory.
pub(super) fn inits(data: &Path) -> Vec<u32> {
    let Some(host) = hand_host(data) else {
        return Vec::new();
    };
    let children = children();
    let (mut found, mut open) = (Vec::new(), vec![host]);
    while let Some(pid) = open.pop() {
        let below = children.get(&pid).map_or(&[][..], Vec::as_slice);
        for child in below {
            if is_first(*child) {
                found.push(*child);
            } else {
                open.push(*child);
            }
        }
    }
    found
}

/// Kills a process, if it still is what it was when it was found.
pub(super) fn kill(pid: u32, still: impl FnOnce() -> bool) -> io::Result<bool> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(io::ErrorKind::InvalidInput)?;
    let held = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(held) => held,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    // Asked once it is held: from here on the number means nobody else.
    if !still() {
        return Ok(false);
    }
    match pidfd_send_signal(held, Signal::KILL) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the hand that a process belongs to, where control groups tell.
pub(super) fn hand_of(pid: u32) -> Option<IncarnationId> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let start = groups.find(IncarnationId::PREFIX)?;
    let rest = groups.get(start..)?;
    let end = rest.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    IncarnationId::parse(rest.get(..end.unwrap_or(rest.len()))?)
}

/// Returns all processes there are.
pub(super) fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Returns the children of each process.
fn children() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in all() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Tells whether a process is the first of a pid namespace that is not ours.
fn is_first(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let numbers = lines.find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| {
        let numbers: Vec<_> = numbers.split_whitespace().collect();
        numbers.len() > 1 && numbers.last() == Some(&"1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descent_is_known() {
        let own = std::process::id();
        let above = parent(own).unwrap();
        assert!(all().contains(&own) && children()[&above].contains(&own));
        assert!(!is_first(own));
    }

    #[test]
    fn only_what_is_still_meant_is_killed() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(!kill(child.id(), || false).unwrap());
        assert!(child.try_wait().unwrap().is_none());
        assert!(kill(child.id(), || true).unwrap());
        child.wait().unwrap();
        assert!(!kill(child.id(), || true).unwrap());
    }
}
