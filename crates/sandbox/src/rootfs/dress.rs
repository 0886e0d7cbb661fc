//! What an image gets on top: the places of mounts, the workspace, and the commands' user.

use std::{fs, io, io::Read as _, os::unix::fs::symlink, path::Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use super::{FILES, FOLDERS, folder};
use crate::mapping::{Ids, Owner};

/// Folders that hide what the image has there, or lie over it.
const KEPT: &[&str] = &[
    "dev",
    "etc",
    "home",
    "home/agent",
    "mnt",
    "mnt/session",
    "mnt/session/outputs",
    "mnt/session/tool-output",
    "mnt/session/uploads",
    "proc",
    "run",
    "sys",
    "tmp",
    "workspace",
];

/// Files that speak of the machine, not of the image.
const OURS: &[&str] = &["etc/hostname", "etc/hosts", "etc/resolv.conf"];

/// No table of users is longer.
const LONGEST: u64 = 1 << 20;

/// Makes at `over` what lies over the image at `root`.
///
/// # Errors
///
/// If it cannot be written.
pub fn dress(root: &Path, over: &Path, ids: &Ids) -> io::Result<()> {
    fs::create_dir_all(over)?;
    folder(over, ids, Owner::Init, 0o755)?;
    let ours = |name: &str| KEPT.contains(&name);
    for (name, owner, mode) in FOLDERS.iter().filter(|(name, ..)| ours(name)) {
        folder(&over.join(name), ids, *owner, *mode)?;
    }
    let write = |name: &str, content: &str| -> io::Result<()> {
        let path = over.join(name);
        fs::write(&path, content)?;
        ids.own(&path, Owner::Init)
    };
    for (name, content) in FILES {
        if OURS.contains(name) {
            write(name, content)?;
        }
    }
    symlink("/proc/self/mounts", over.join("etc/mtab"))?;
    for name in ["etc/passwd", "etc/group"] {
        let line = FILES.iter().find(|(file, _)| file == &name);
        let of_host = line.map_or("", |(_, content)| *content);
        let of_image = read_within(root, name).unwrap_or_default();
        write(name, &with_agent(&of_image, of_host))?;
    }
    Ok(())
}

/// Puts the commands' user into a table of the image, or takes our own table where it has none.
fn with_agent(of_image: &str, ours: &str) -> String {
    let others = of_image.lines().filter(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next(), fields.nth(1));
        name != Some("agent") && number != Some("1000") && !line.is_empty()
    });
    let mut table: String = others.map(|line| format!("{line}\n")).collect();
    if table.is_empty() {
        return ours.to_owned();
    }
    let agent = ours.lines().find(|line| line.starts_with("agent:"));
    table.push_str(agent.unwrap_or_default());
    table.push('\n');
    table
}

/// Reads a file of the image; a link in it leads nowhere but into it.
fn read_within(root: &Path, name: &str) -> io::Result<String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty())?;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = fs::File::from(openat2(&root, name, flags, Mode::empty(), within)?);
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_takes_its_number() {
        let ours =
            "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n";
        assert_eq!(with_agent("", ours), ours);
        let image =
            "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n\nagent:x:7:7:::";
        assert_eq!(
            with_agent(image, ours),
            "root:x:0:0::/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n"
        );
    }

    #[test]
    fn a_link_does_not_lead_to_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let (root, over) = (dir.path().join("root"), dir.path().join("over"));
        fs::create_dir_all(&root).unwrap();
        symlink("/etc", root.join("etc")).unwrap();
        assert!(read_within(&root, "etc/passwd").is_err());
        dress(&root, &over, &Ids::detect()).unwrap();
        let users = fs::read_to_string(over.join("etc/passwd")).unwrap();
        assert!(
            users.contains("agent:x:1000") && over.join("workspace").is_dir(),
            "{users}"
        );
    }
}
