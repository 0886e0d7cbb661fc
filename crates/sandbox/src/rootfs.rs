//! The skeleton of the file tree inside, and the removal of trees.

mod dress;
mod stamp;

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use crate::mapping::{Ids, Owner};
pub use dress::dress;

/// Host folders that a system keeps programs in; links among them are kept as links.
const PROGRAMS: &[&str] = &["bin", "lib", "lib32", "lib64", "libx32", "sbin"];

/// Folders with owner and permissions.
const FOLDERS: &[(&str, Owner, u32)] = &[
    ("dev", Owner::Init, 0o755),
    ("etc", Owner::Init, 0o755),
    ("home", Owner::Init, 0o755),
    ("home/agent", Owner::Command, 0o755),
    ("mnt", Owner::Init, 0o755),
    ("mnt/session", Owner::Init, 0o755),
    ("mnt/session/outputs", Owner::Command, 0o755),
    ("mnt/session/tool-output", Owner::Init, 0o755),
    ("mnt/session/uploads", Owner::Init, 0o755),
    ("opt", Owner::Init, 0o755),
    ("proc", Owner::Init, 0o555),
    ("root", Owner::Init, 0o700),
    ("run", Owner::Init, 0o755),
    ("srv", Owner::Init, 0o755),
    ("sys", Owner::Init, 0o555),
    ("tmp", Owner::Init, 0o1777),
    ("usr", Owner::Init, 0o755),
    ("var", Owner::Init, 0o755),
    ("var/cache", Owner::Init, 0o755),
    ("var/lib", Owner::Init, 0o755),
    ("var/log", Owner::Init, 0o755),
    ("var/tmp", Owner::Init, 0o1777),
    ("workspace", Owner::Command, 0o755),
];

/// Files of our own `/etc`.
const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\n\
         agent:x:1000:1000:agent:/home/agent:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hostname", "sandbox\n"),
    ("etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\n",
    ),
    ("etc/resolv.conf", ""),
];

/// Which of several programs a name in `/usr` stands for; many links, so it is shown and not copied.
const ALTERNATIVES: &str = "etc/alternatives";

/// What programs need of the host's `/etc`, none of it secret: loader paths, trust anchors, tables.
const COPIED: &[&str] = &[
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "protocols",
    "services",
    "ssl/certs/ca-certificates.crt",
    "ssl/openssl.cnf",
    "timezone",
];

/// Links of our own.
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/mounts", "etc/mtab"),
    ("/usr/lib/os-release", "etc/os-release"),
];

/// Builds the skeleton at `at` unless the one there is as it would be; returns the host folders to
/// show.
pub(crate) fn ensure(at: &Path, ids: &Ids) -> io::Result<Vec<PathBuf>> {
    let wanted = stamp::describe(ids);
    if !stamp::holds(at, &wanted) {
        // First, so that what is half built does not pass for whole.
        stamp::clear(at)?;
        build(at, ids)?;
        stamp::set(at, &wanted)?;
    }
    Ok(shown())
}

/// Builds the skeleton at `at`, replacing an old one.
fn build(at: &Path, ids: &Ids) -> io::Result<()> {
    if at.exists() {
        remove_tree(at)?;
    }
    fs::create_dir_all(at)?;
    ids.own(at, Owner::Init)?;
    for (name, owner, mode) in FOLDERS {
        folder(&at.join(name), ids, *owner, *mode)?;
    }
    for (name, content) in FILES {
        fs::write(at.join(name), content)?;
        ids.own(&at.join(name), Owner::Init)?;
    }
    for (to, name) in LINKS {
        symlink(to, at.join(name))?;
    }
    for name in COPIED {
        copy_over(
            &Path::new("/etc").join(name),
            &at.join("etc").join(name),
            ids,
        )?;
    }
    programs(at, ids)
}

/// Prepares the places of the host's programs.
fn programs(at: &Path, ids: &Ids) -> io::Result<()> {
    for host in shown().iter().filter(|host| *host != Path::new("/usr")) {
        let name = host.strip_prefix("/").map_err(io::Error::other)?;
        folder(&at.join(name), ids, Owner::Init, 0o755)?;
    }
    for name in PROGRAMS {
        if let Ok(to) = fs::read_link(Path::new("/").join(name)) {
            symlink(to, at.join(name))?;
        }
    }
    Ok(())
}

/// Returns the host folders that are shown inside.
fn shown() -> Vec<PathBuf> {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|kind| !kind.is_symlink());
    let mut shown = vec![PathBuf::from("/usr")];
    let alternatives = Path::new("/").join(ALTERNATIVES);
    if alternatives.is_dir() {
        shown.push(alternatives);
    }
    let programs = PROGRAMS.iter().map(|name| Path::new("/").join(name));
    shown.extend(programs.filter(|path| is_folder(path)));
    shown
}

/// Makes one folder of the tree.
fn folder(at: &Path, ids: &Ids, owner: Owner, mode: u32) -> io::Result<()> {
    fs::create_dir_all(at)?;
    ids.own(at, owner)?;
    fs::set_permissions(at, fs::Permissions::from_mode(mode))
}

/// Copies a file, link or folder if it is there, and gives it to PID 1.
fn copy_over(from: &Path, to: &Path, ids: &Ids) -> io::Result<()> {
    let Ok(kind) = fs::symlink_metadata(from) else {
        return Ok(());
    };
    if let Some(parent) = to.parent().filter(|parent| !parent.exists()) {
        fs::create_dir_all(parent)?;
    }
    if kind.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if kind.is_dir() {
        folder(to, ids, Owner::Init, 0o755)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_over(&from.join(&name), &to.join(&name), ids)?;
        }
    } else if kind.is_file() {
        // What this user may not read is not for the sandbox either.
        let Ok(content) = fs::read(from) else {
            return Ok(());
        };
        fs::write(to, content)?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o644))?;
    }
    ids.own(to, Owner::Init)
}

/// Copies the skeleton into a plain layer, and leaves what is there already.
pub(crate) fn fill(layer: &Path, skeleton: &Path) -> io::Result<()> {
    for entry in fs::read_dir(skeleton)? {
        let entry = entry?;
        let (from, to) = (entry.path(), layer.join(entry.file_name()));
        let kind = fs::symlink_metadata(&from)?;
        let there = fs::symlink_metadata(&to).is_ok();
        if kind.is_symlink() && !there {
            symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            fill_folder(&from, &to, &kind, there)?;
        } else if kind.is_file() && !there {
            fs::copy(&from, &to)?;
        }
        if !there {
            same_owner(&to, &kind)?;
        }
    }
    Ok(())
}

/// Fills one folder, whose permissions may not let this user write.
fn fill_folder(from: &Path, to: &Path, kind: &fs::Metadata, there: bool) -> io::Result<()> {
    if !there {
        fs::create_dir(to)?;
    } else if !fs::symlink_metadata(to)?.is_dir() {
        return Ok(());
    }
    fill(to, from)?;
    if there {
        Ok(())
    } else {
        fs::set_permissions(to, kind.permissions())
    }
}

/// Gives a copy the owner of the original.
fn same_owner(path: &Path, of: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(path, Some(of.uid()), Some(of.gid()))?;
    }
    Ok(())
}

/// Removes a tree, opening folders that its owner closed to itself. Links are removed, not followed.
///
/// # Errors
///
/// If something in it belongs to somebody else or is a mount.
pub fn remove_tree(at: &Path) -> io::Result<()> {
    match fs::remove_dir_all(at) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(at)?;
            fs::remove_dir_all(at)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes every folder of a tree writable for its owner.
fn open_up(at: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(at)?.is_dir() {
        return Ok(());
    }
    fs::set_permissions(at, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(at)? {
        open_up(&entry?.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_layer_gets_what_it_lacks_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let (skeleton, layer) = (folder.path().join("skeleton"), folder.path().join("layer"));
        let ids = Ids::detect();
        let shown = ensure(&skeleton, &ids).unwrap();
        assert!(shown.contains(&PathBuf::from("/usr")));
        fs::create_dir_all(layer.join("etc")).unwrap();
        fs::write(layer.join("etc/hosts"), "mine").unwrap();
        fill(&layer, &skeleton).unwrap();
        fill(&layer, &skeleton).unwrap();
        assert_eq!(fs::read_to_string(layer.join("etc/hosts")).unwrap(), "mine");
        assert!(layer.join("etc/passwd").is_file() && layer.join("workspace").is_dir());
    }

    #[test]
    fn a_skeleton_is_built_again_only_if_it_must_be() {
        let folder = tempfile::tempdir().unwrap();
        let skeleton = folder.path().join("skeleton");
        let ids = Ids::detect();
        let shown = ensure(&skeleton, &ids).unwrap();
        let mark = skeleton.join("mark");
        fs::write(&mark, "").unwrap();
        assert_eq!(ensure(&skeleton, &ids).unwrap(), shown);
        assert!(mark.exists(), "it was left as it is");
        stamp::set(&skeleton, "of another host").unwrap();
        assert_eq!(ensure(&skeleton, &ids).unwrap(), shown);
        assert!(!mark.exists() && skeleton.join("etc/passwd").is_file());
    }

    #[test]
    fn a_closed_folder_is_removed_and_a_link_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, other) = (folder.path().join("tree"), folder.path().join("other"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&other).unwrap();
        symlink(&other, tree.join("a/link")).unwrap();
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && other.exists());
        remove_tree(&tree).unwrap();
    }
}
