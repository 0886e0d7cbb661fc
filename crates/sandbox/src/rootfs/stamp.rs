//! Whether the skeleton that is there is the one that would be built.
//!
//! Building it writes some sixty files, which on a busy disk takes longer than all the rest of a
//! start. So what it was built from is written down beside it, as seen: a host whose programs or
//! tables changed since has another stamp.

use std::{fmt::Write as _, fs, io, os::unix::fs::MetadataExt as _, path::Path};

use super::{ALTERNATIVES, COPIED, FILES, FOLDERS, LINKS, PROGRAMS};
use crate::{boot, mapping::Ids};

/// Tells whether the skeleton at `at` was built whole from what `wanted` describes.
pub(super) fn holds(at: &Path, wanted: &str) -> bool {
    at.is_dir() && fs::read_to_string(place(at)).is_ok_and(|made| made == wanted)
}

/// Notes that the skeleton is whole.
pub(super) fn set(at: &Path, made: &str) -> io::Result<()> {
    fs::write(place(at), made)
}

/// Notes that it is not.
pub(super) fn clear(at: &Path) -> io::Result<()> {
    match fs::remove_file(place(at)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn place(at: &Path) -> std::path::PathBuf {
    at.with_extension("made")
}

/// Describes all that a skeleton is built from.
pub(super) fn describe(ids: &Ids) -> String {
    // What the power took from a file it did not take from what only memory says of it.
    let boot = boot();
    let mut out = format!("{boot}\n{ids:?}\n{FOLDERS:?}\n{FILES:?}\n{LINKS:?}\n");
    for name in COPIED {
        seen(&mut out, &Path::new("/etc").join(name));
    }
    // Of these only what they are counts: what is in them is shown, not copied.
    for name in PROGRAMS.iter().chain([&ALTERNATIVES]) {
        let path = Path::new("/").join(name);
        let link = fs::read_link(&path).ok();
        let _ = writeln!(out, "{name} {link:?} {}", path.is_dir());
    }
    out
}

/// Adds how a file, link or folder looks; every change of a file moves its change time.
fn seen(out: &mut String, path: &Path) {
    let Ok(kind) = fs::symlink_metadata(path) else {
        return;
    };
    let (seconds, nanos) = (kind.ctime(), kind.ctime_nsec());
    // Writing to a string never fails.
    let _ = writeln!(
        out,
        "{} {} {} {seconds}.{nanos}",
        path.display(),
        kind.ino(),
        kind.len()
    );
    if !kind.is_dir() {
        return;
    }
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    for path in &paths {
        seen(out, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let look = || {
            let mut out = String::new();
            seen(&mut out, folder.path());
            out
        };
        fs::write(&file, "one").unwrap();
        let before = look();
        assert_eq!(look(), before);
        fs::write(&file, "longer").unwrap();
        let longer = look();
        assert_ne!(longer, before);
        fs::write(folder.path().join("b"), "").unwrap();
        assert_ne!(look(), longer);
    }

    #[test]
    fn what_is_half_built_does_not_hold() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("skeleton");
        assert!(!holds(&at, "x"));
        set(&at, "x").unwrap();
        assert!(!holds(&at, "x"), "there is a stamp and nothing else");
        fs::create_dir(&at).unwrap();
        assert!(holds(&at, "x") && !holds(&at, "y"));
        clear(&at).unwrap();
        clear(&at).unwrap();
        assert!(!holds(&at, "x"));
    }
}
