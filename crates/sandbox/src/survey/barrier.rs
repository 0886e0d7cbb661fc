//! A system call filter that somebody else put around the server.

use std::{fs, path::Path};

use super::host;

/// Says how a filter around this process is lifted, if there is one.
pub(crate) fn lifted() -> Option<String> {
    lifted_from(Path::new("/proc/self"), host::container().is_some())
}

/// The same by the process folder `proc`, in a container or not.
fn lifted_from(proc: &Path, is_container: bool) -> Option<String> {
    let status = fs::read_to_string(proc.join("status")).ok()?;
    if !status.lines().any(|line| line == "Seccomp:\t2") {
        return None;
    }
    let container = "start the container with `--security-opt seccomp=unconfined`";
    let unit = "set `RestrictNamespaces=no` and leave `@mount` and `@privileged` in \
                `SystemCallFilter=`";
    let how = match unit_of(proc) {
        _ if is_container => container.to_owned(),
        Some(name) => format!("in `systemctl edit {name}` {unit}"),
        None => format!("in its unit {unit}, in a container {container}"),
    };
    Some(format!(
        "a system call filter around the server refuses it: {how}"
    ))
}

/// Returns the name of the service that a process belongs to, by its control groups.
fn unit_of(proc: &Path) -> Option<String> {
    let groups = fs::read_to_string(proc.join("cgroup")).ok()?;
    let names = groups.lines().flat_map(|line| line.split('/'));
    let mut units = names.filter(|name| name.ends_with(".service"));
    units.next_back().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(status: &str, cgroup: &str, is_container: bool) -> Option<String> {
        let proc = tempfile::tempdir().unwrap();
        fs::write(proc.path().join("status"), status).unwrap();
        fs::write(proc.path().join("cgroup"), cgroup).unwrap();
        lifted_from(proc.path(), is_container)
    }

    #[test]
    fn it_is_told_where_it_was_put() {
        let filtered = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(advice("Seccomp:\t0\n", "0::/\n", true), None);
        assert_eq!(
            advice(filtered, "0::/a.service\n", true).unwrap(),
            "a system call filter around the server refuses it: start the container with \
             `--security-opt seccomp=unconfined`"
        );
        let groups = "0::/system.slice/outlast.service/outlast-server\n";
        assert_eq!(
            advice(filtered, groups, false).unwrap(),
            "a system call filter around the server refuses it: in `systemctl edit \
             outlast.service` set `RestrictNamespaces=no` and leave `@mount` and `@privileged` in \
             `SystemCallFilter=`"
        );
        let both = advice(filtered, "0::/user.slice\n", false).unwrap();
        assert!(both.contains("RestrictNamespaces=no") && both.contains("seccomp=unconfined"));
    }
}
