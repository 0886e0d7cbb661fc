//! What a sandbox leaves below `/mnt/session/outputs`, read from its layer from outside.
//!
//! The agent owns that folder, so nothing in it is trusted: paths are walked by descriptor, symbolic
//! links are never followed, and only regular files of the commands' user count.
//!
//! A file may have several names. A second name is made inside one mount only: what is mounted beside
//! the layer, as uploads and the host's programs are, cannot get one in it, and a file from below the
//! layer is copied up into it first. So every name here is one of a file of this layer. Where the
//! kernel lets a user link files that it may not read, it could name one of PID 1's or of the image
//! so; its owner tells.

use std::{
    collections::HashMap,
    ffi::CStr,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll},
};

use outlast_protocol::id::IncarnationId;
use outlast_sandbox::Layer;
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, statat},
    io::Errno,
};
use tokio::io::{AsyncRead, ReadBuf};

use super::{Folder, uploads::blocking};
use crate::files::{Published, Reader, escaped, is_below, unescaped};

/// Where outputs stand in a layer.
const FOLDER: &str = "mnt/session/outputs";

/// Files that are listed: more than are published of a session, because some that were published or
/// are too large may come first.
const FILES: usize = 4_000;

/// Names that are looked at.
const NAMES: usize = 20_000;

/// Folders in folders.
const DEPTH: usize = 32;

/// Bytes of a path as text.
const PATH: usize = 1_024;

/// Layers of incarnations that do not run, for as long as somebody reads them.
///
/// One may be a file system in a file, which only one mount can have: whoever reads it shares that.
#[derive(Debug, Default)]
pub(super) struct Layers(Mutex<HashMap<IncarnationId, Arc<Slot>>>);

/// The one mount of a layer, while it is in use.
type Slot = tokio::sync::Mutex<Weak<Layer>>;

impl Layers {
    /// Finds the layer of an incarnation that does not run.
    pub(super) async fn of(&self, folder: Folder) -> io::Result<Arc<Layer>> {
        let slot = self.slot(folder.incarnation());
        let mut slot = slot.lock().await;
        // One that was removed or taken over may still be read by somebody.
        if let Some(layer) = slot.upgrade().filter(|_| folder.has_layer()) {
            return Ok(layer);
        }
        let found = blocking(move || folder.layer()).await?;
        let layer = Arc::new(found.ok_or(io::ErrorKind::NotFound)?);
        *slot = Arc::downgrade(&layer);
        Ok(layer)
    }

    fn slot(&self, incarnation: IncarnationId) -> Arc<Slot> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = |slot: &Slot| {
            slot.try_lock()
                .map_or(true, |layer| layer.strong_count() > 0)
        };
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || used(slot));
        Arc::clone(slots.entry(incarnation).or_default())
    }
}

/// An output that is read; its layer stays where it is meanwhile.
struct Output {
    content: tokio::fs::File,
    _layer: Arc<Layer>,
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.content).poll_read(cx, buffer)
    }
}

/// Opens an output of a layer to be read.
pub(super) async fn read(layer: Arc<Layer>, path: String) -> io::Result<Reader> {
    let held = Arc::clone(&layer);
    let file = blocking(move || open(layer.path(), &path)).await?;
    Ok(Box::pin(Output {
        content: tokio::fs::File::from_std(file),
        _layer: held,
    }))
}

/// A walk on its way.
#[derive(Debug)]
struct Walk {
    owner: u32,
    found: Vec<Published>,
    seen: usize,
    passed: Passed,
}

/// What is not listed.
#[derive(Debug, Default, Eq, PartialEq)]
struct Passed {
    /// Names that were looked at.
    names: usize,
    /// Whether there are names that were not.
    unseen: bool,
}

/// Lists the files, by path.
pub(super) fn list(layer: &Path) -> io::Result<Vec<Published>> {
    let (found, passed) = look(layer)?;
    if passed != Passed::default() {
        let unseen = if passed.unseen {
            ", and all behind those"
        } else {
            ""
        };
        tracing::warn!(
            "of the names of outputs in `{}` {} are listed, {} are passed over{unseen}",
            layer.display(),
            found.len(),
            passed.names
        );
    }
    Ok(found)
}

/// Finds the files, by path, and what is passed over.
fn look(layer: &Path) -> io::Result<(Vec<Published>, Passed)> {
    let folder = open_at(&root(layer)?, FOLDER, OFlags::DIRECTORY);
    let Some(folder) = absent_is_none(folder)? else {
        return Ok(<_>::default());
    };
    let mut walk = Walk {
        owner: rustix::fs::fstat(&folder)?.st_uid,
        found: Vec::new(),
        seen: 0,
        passed: Passed::default(),
    };
    walk.folder(&folder, "", 0)?;
    let Walk {
        mut found,
        mut passed,
        ..
    } = walk;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    passed.names += found.len().saturating_sub(FILES);
    found.truncate(FILES);
    Ok((found, passed))
}

/// Opens one of them; whatever else is there is not found.
pub(super) fn open(layer: &Path, path: &str) -> io::Result<File> {
    if !is_below(path) {
        let words = format!("`{}` is no path of an output", path.escape_debug());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let path = unescaped(path).ok_or_else(missing)?;
    let folder = open_at(&root(layer)?, FOLDER, OFlags::DIRECTORY);
    let folder = absent_is_none(folder)?.ok_or_else(missing)?;
    // A pipe must not keep us waiting for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = absent_is_none(open_at(&folder, path, flags))?.ok_or_else(missing)?;
    let owner = rustix::fs::fstat(&folder)?.st_uid;
    if !is_file_of(owner, &rustix::fs::fstat(&file)?) {
        return Err(missing());
    }
    Ok(file.into())
}

fn root(layer: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, layer, flags, Mode::empty())?)
}

/// Opens what lies below a folder, without a link on the way.
fn open_at(at: impl AsFd, path: impl rustix::path::Arg, flags: OFlags) -> io::Result<OwnedFd> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat2(at, path, flags, Mode::empty(), within)?)
}

/// Takes what is not there, or is no file or folder, for nothing.
fn absent_is_none(opened: io::Result<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    let absent = |error: &io::Error| {
        let errno = Errno::from_io_error(error);
        // The third is a link on the way, the fourth a socket.
        let known = [
            Errno::NOENT,
            Errno::NOTDIR,
            Errno::LOOP,
            Errno::NXIO,
            Errno::NAMETOOLONG,
        ];
        errno.is_some_and(|errno| known.contains(&errno))
    };
    match opened {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tells whether it is a regular file of whom the folder of outputs belongs to: the commands' user,
/// who may not give a file away.
fn is_file_of(owner: u32, stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_uid == owner
}

impl Walk {
    fn folder(&mut self, folder: &OwnedFd, prefix: &str, depth: usize) -> io::Result<()> {
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.seen += 1;
            if self.seen > NAMES {
                self.passed.unseen = true;
                return Ok(());
            }
            if self.entry(folder, name, prefix, depth).is_none() {
                self.passed.names += 1;
            }
        }
        Ok(())
    }

    /// Looks at one name; `None` if it is passed over.
    fn entry(&mut self, at: &OwnedFd, name: &CStr, prefix: &str, depth: usize) -> Option<()> {
        let path = format!("{prefix}{}", escaped(name.to_bytes()));
        let stat = statat(at, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            if depth >= DEPTH {
                return None;
            }
            let folder = open_at(at, name, OFlags::DIRECTORY | OFlags::NOFOLLOW).ok()?;
            return self.folder(&folder, &format!("{path}/"), depth + 1).ok();
        }
        if !is_file_of(self.owner, &stat) || path.len() > PATH {
            return None;
        }
        self.found.push(Published {
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            version: format!(
                "{}-{}.{:09}-{}",
                stat.st_ino, stat.st_ctime, stat.st_ctime_nsec, stat.st_size
            ),
            path,
        });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsStr,
        fs,
        os::unix::{ffi::OsStrExt as _, fs::symlink},
        path::PathBuf,
    };

    use super::*;

    fn layer() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let outputs = root.path().join(FOLDER);
        fs::create_dir_all(&outputs).unwrap();
        (root, outputs)
    }

    fn paths(layer: &Path) -> Vec<String> {
        let listed = list(layer).unwrap().into_iter();
        listed.map(|published| published.path).collect()
    }

    fn content(layer: &Path, path: &str) -> String {
        let mut text = String::new();
        let mut file = open(layer, path).unwrap();
        io::Read::read_to_string(&mut file, &mut text).unwrap();
        text
    }

    #[test]
    fn regular_files_alone_are_listed_and_opened() {
        let (root, outputs) = layer();
        fs::write(root.path().join("secret"), "s").unwrap();
        fs::create_dir_all(outputs.join("sub/deeper")).unwrap();
        for name in ["a", "sub/deeper/b", "-rf", "\u{1f980} '\"$(x)"] {
            fs::write(outputs.join(name), name).unwrap();
        }
        symlink("../../../secret", outputs.join("link")).unwrap();
        symlink("/etc", outputs.join("etc")).unwrap();
        rustix::fs::mknodat(CWD, outputs.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(outputs.join("socket")).unwrap();
        assert_eq!(
            paths(root.path()),
            ["-rf", "a", "sub/deeper/b", "\u{1f980} '\"$(x)"]
        );
        assert_eq!(content(root.path(), "sub/deeper/b"), "sub/deeper/b");
        for path in ["../secret", "", "/a", "sub/", "a/../a", "a\0"] {
            let kind = open(root.path(), path).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidInput, "{path}");
        }
        let long = "x".repeat(256);
        for path in [
            "link",
            "etc/passwd",
            "pipe",
            "socket",
            "sub",
            "none",
            "a/b",
            "%61",
            "%2E%2E/a",
            &long,
            &"x/".repeat(3_000).as_str()[..5_999],
        ] {
            let kind = open(root.path(), path).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::NotFound, "{path}");
        }
    }

    #[test]
    fn a_name_of_any_bytes_is_listed_as_text() {
        let (root, outputs) = layer();
        let whole = "\u{fd}".repeat(127) + "x";
        let names: [(&[u8], &str); 6] = [
            (b"\xff\xfe", "%FF%FE"),
            (b"new\nline", "new%0Aline"),
            (b"%2E%2E", "%252E%252E"),
            (b"100%", "100%"),
            (&[0xe9; 255], &"%E9".repeat(255)),
            (whole.as_bytes(), &whole),
        ];
        for (name, text) in names {
            fs::write(outputs.join(OsStr::from_bytes(name)), text).unwrap();
        }
        let mut listed = names.map(|(_, text)| text.to_owned());
        listed.sort();
        assert_eq!(paths(root.path()), listed);
        for text in listed {
            assert_eq!(content(root.path(), &text), text);
        }
    }

    #[test]
    fn every_name_of_a_file_counts_and_files_of_others_do_not() {
        let (root, outputs) = layer();
        fs::write(outputs.join("a"), "1").unwrap();
        fs::hard_link(outputs.join("a"), outputs.join("b")).unwrap();
        let other = root.path().join("other");
        fs::write(&other, "2").unwrap();
        fs::hard_link(&other, outputs.join("c")).unwrap();
        assert_eq!(paths(root.path()), ["a", "b", "c"]);
        assert_eq!(content(root.path(), "c"), "2");
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(&other, Some(7), None).unwrap();
        assert_eq!(paths(root.path()), ["a", "b"]);
        let kind = open(root.path(), "c").unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_that_is_gone_or_a_link_holds_nothing() {
        let (root, outputs) = layer();
        fs::remove_dir(&outputs).unwrap();
        assert_eq!(paths(root.path()), [""; 0]);
        symlink("/etc", &outputs).unwrap();
        assert_eq!(paths(root.path()), [""; 0]);
        assert_eq!(
            list(&root.path().join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_change_makes_another_version() {
        let (root, outputs) = layer();
        fs::write(outputs.join("a"), "one").unwrap();
        let first = list(root.path()).unwrap();
        assert_eq!(list(root.path()).unwrap(), first);
        fs::write(outputs.join("b"), "two").unwrap();
        fs::rename(outputs.join("b"), outputs.join("a")).unwrap();
        let second = list(root.path()).unwrap();
        assert!(second[0].path == first[0].path && second[0].version != first[0].version);
    }

    #[test]
    fn a_deep_tree_and_many_files_are_bounded() {
        let (root, outputs) = layer();
        let deep = "d/".repeat(DEPTH + 5);
        fs::create_dir_all(outputs.join(&deep)).unwrap();
        fs::write(outputs.join(&deep).join("x"), "").unwrap();
        for number in 0..FILES + 5 {
            fs::write(outputs.join(format!("{number:05}")), "").unwrap();
        }
        let (found, passed) = look(root.path()).unwrap();
        assert_eq!(found.len(), FILES);
        assert_eq!(found[0].path, "00000");
        // The folder that is too deep, and the files that are too many.
        let all_seen = Passed {
            names: 1 + 5,
            unseen: false,
        };
        assert_eq!(passed, all_seen);
        for number in FILES + 5..NAMES {
            fs::write(outputs.join(format!("{number:05}")), "").unwrap();
        }
        let (found, passed) = look(root.path()).unwrap();
        assert_eq!(found.len(), FILES);
        assert!(passed.unseen);
    }
}
