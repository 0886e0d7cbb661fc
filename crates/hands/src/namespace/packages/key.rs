//! What names a layer: all that it depends on.

use std::{fmt::Write as _, fs, os::unix::fs::MetadataExt as _};

use outlast_protocol::environment::{Manager, Packages};
use outlast_sandbox::{Ids, Layering};

/// Raised when layers are made in another way.
const FORMAT: u32 = 1;

/// What changes when somebody installs or removes programs of this host, whatever its distribution.
const PROGRAMS: &[&str] = &[
    "/etc/os-release",
    "/lib/apk/db/installed",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/sbin",
    "/var/lib/dpkg/status",
    "/var/lib/pacman/local",
    "/var/lib/rpm/rpmdb.sqlite",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
];

/// Returns the name of the layer with these packages over an image, or over this host's programs.
pub(super) fn of(digest: Option<&str>, ids: &Ids, layering: Layering, wanted: &Packages) -> String {
    let mut text = format!("{FORMAT}\n{}\n{layering:?}\n", ids.label());
    match digest {
        Some(digest) => text.push_str(digest),
        None => programs(&mut text),
    }
    for (name, manager) in Manager::TABLE {
        // Writing to a string never fails. No item holds a space.
        let _ = write!(text, "\n{name} {}", wanted.of(*manager).join(" "));
    }
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Adds how this host's programs look.
fn programs(text: &mut String) {
    for path in PROGRAMS {
        if let Ok(kind) = fs::metadata(path) {
            let (seconds, nanos) = (kind.mtime(), kind.mtime_nsec());
            // Writing to a string never fails.
            let _ = writeln!(text, "{path} {seconds}.{nanos} {}", kind.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_counts() {
        let ids = Ids::detect();
        let pip = |list: &[&str]| Packages {
            pip: list.iter().map(|item| (*item).to_owned()).collect(),
            ..Packages::default()
        };
        let one = pip(&["a", "b"]);
        let name = of(Some("sha256:1"), &ids, Layering::Overlay, &one);
        assert_eq!(name, of(Some("sha256:1"), &ids, Layering::Overlay, &one));
        assert!(name.bytes().all(|sign| sign.is_ascii_hexdigit()));
        let npm = Packages {
            npm: one.pip.clone(),
            ..Packages::default()
        };
        for other in [
            of(Some("sha256:2"), &ids, Layering::Overlay, &one),
            of(None, &ids, Layering::Overlay, &one),
            of(Some("sha256:1"), &ids, Layering::Plain, &one),
            of(Some("sha256:1"), &ids, Layering::Overlay, &pip(&["a"])),
            of(Some("sha256:1"), &ids, Layering::Overlay, &npm),
        ] {
            assert_ne!(name, other);
        }
        let host = of(None, &ids, Layering::Overlay, &one);
        assert_eq!(host, of(None, &ids, Layering::Overlay, &one));
    }
}
