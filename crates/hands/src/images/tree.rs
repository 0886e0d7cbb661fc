//! Unpacking into one folder and nowhere else.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Seek as _, SeekFrom, Write as _},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    },
    path::{Component, Path, PathBuf},
};

use outlast_sandbox::{Ids, remove_tree};
use rustix::{
    fs::{
        AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, chownat, linkat,
        mkdirat, openat, openat2, statat, symlinkat, utimensat,
    },
    io::Errno,
};
use tar::{Archive, Entry, EntryType};

use super::archive::{bad, unread};

/// Bytes that an image may unpack to.
const MOST_BYTES: u64 = 64 << 30;

/// Files, folders and links that it may have.
const MOST_ENTRIES: u64 = 4_000_000;

/// Folders in folders.
const DEEPEST: usize = 200;

/// Bytes that are copied at once.
const PIECE: usize = 64 * 1024;

/// Begins the name of what takes a file of a lower layer away.
const WHITEOUT: &[u8] = b".wh.";

/// Takes everything of the lower layers in its folder away.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A tree that is being unpacked.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    ids: Ids,
    bytes: u64,
    entries: u64,
}

impl Tree {
    /// Begins in an empty folder.
    pub(super) fn new(root: &Path, ids: &Ids) -> io::Result<Self> {
        let root = openat(CWD, root, FOLDER, Mode::empty())?;
        let tree = Self {
            root,
            ids: *ids,
            bytes: 0,
            entries: 0,
        };
        fs::set_permissions(place(&tree.root), fs::Permissions::from_mode(0o755))?;
        tree.own(&tree.root, OsStr::new("."), 0)?;
        Ok(tree)
    }

    /// Returns the bytes and entries that were unpacked.
    pub(super) const fn size(&self) -> (u64, u64) {
        (self.bytes, self.entries)
    }

    /// Takes away what a layer says.
    pub(super) fn take_away(&self, layer: &mut dyn Read) -> io::Result<()> {
        let mut archive = Archive::new(layer.take(MOST_BYTES));
        for (number, entry) in archive.entries()?.enumerate() {
            let entry = entry.map_err(|error| unread(number, error))?;
            let path = entry.path()?;
            let Some((folder, name)) = split(&path).map_err(|error| of(&path, &error))? else {
                continue;
            };
            let Some(gone) = name.as_bytes().strip_prefix(WHITEOUT) else {
                continue;
            };
            // What is not there needs not be taken away.
            let Ok(folder) = self.open(&folder) else {
                continue;
            };
            if name.as_bytes() == OPAQUE {
                for entry in fs::read_dir(place(&folder))? {
                    remove(&folder, &entry?.file_name())?;
                }
            } else if !matches!(gone, b"" | b"." | b"..") && !gone.contains(&b'/') {
                remove(&folder, OsStr::from_bytes(gone))?;
            }
        }
        Ok(())
    }

    /// Adds what a layer has.
    pub(super) fn add(&mut self, layer: &mut dyn Read) -> io::Result<()> {
        let mut archive = Archive::new(layer);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let added = self.one(&mut entry, &path);
            added.map_err(|error| of(&path, &error))?;
        }
        Ok(())
    }

    /// Adds one entry; devices and pipes are left out.
    fn one<R: Read>(&mut self, entry: &mut Entry<'_, R>, path: &Path) -> io::Result<()> {
        let Some((folder, name)) = split(path)? else {
            return Ok(());
        };
        if name.as_bytes().starts_with(WHITEOUT) {
            return Ok(());
        }
        let kind = entry.header().entry_type();
        // A file with holes in this form would come out as what describes it.
        if has_described_holes(entry)? {
            return Err(bad(
                "its holes are described in the form of POSIX; pack it without `--sparse`",
            ));
        }
        let known = matches!(
            kind,
            EntryType::Regular
                | EntryType::Continuous
                | EntryType::GNUSparse
                | EntryType::Directory
                | EntryType::Symlink
                | EntryType::Link
        );
        if !known {
            return Ok(());
        }
        self.entries += 1;
        if self.entries > MOST_ENTRIES {
            return Err(bad("the image has too many files"));
        }
        let parent = self.make(&folder)?;
        let header = entry.header();
        // What cannot be read is root's, and no program.
        let (mode, uid) = (header.mode().unwrap_or(0o644), header.uid().unwrap_or(0));
        if kind == EntryType::Directory {
            return self.folder(&parent, &name, mode, uid);
        }
        if kind == EntryType::Link {
            return self.link(&parent, &name, &link_of(entry)?);
        }
        if kind == EntryType::Symlink {
            remove(&parent, &name)?;
            let to = link_of(entry)?;
            symlinkat(to.as_os_str(), &parent, name.as_os_str())?;
            return self.own(&parent, &name, uid);
        }
        self.file(entry, &parent, &name, (mode, uid))
    }

    /// Makes a folder, or gives one that is there its new owner and rights.
    fn folder(&self, parent: &OwnedFd, name: &OsStr, mode: u32, uid: u64) -> io::Result<()> {
        let is_folder = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|kind| rustix::fs::FileType::from_raw_mode(kind.st_mode).is_dir());
        if !is_folder {
            remove(parent, name)?;
            mkdirat(parent, name, Mode::RWXU)?;
        }
        let folder = openat(parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        self.own(parent, name, uid)?;
        // Whoever owns it here must be able to unpack into it.
        let rights = fs::Permissions::from_mode((mode & 0o1777) | 0o700);
        fs::set_permissions(place(&folder), rights)
    }

    /// Gives a file another name; both lie in the tree.
    fn link(&self, parent: &OwnedFd, name: &OsStr, to: &Path) -> io::Result<()> {
        let Some((folder, file)) = split(to)? else {
            return Err(bad("it is a second name of the whole tree"));
        };
        let folder = self.open(&folder)?;
        let kind = statat(&folder, &file, AtFlags::SYMLINK_NOFOLLOW)?;
        if rustix::fs::FileType::from_raw_mode(kind.st_mode).is_dir() {
            return Err(bad("it is a second name of a folder"));
        }
        remove(parent, name)?;
        Ok(linkat(&folder, &file, parent, name, AtFlags::empty())?)
    }

    /// Writes a file.
    fn file<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        parent: &OwnedFd,
        name: &OsStr,
        (mode, uid): (u32, u64),
    ) -> io::Result<()> {
        let seconds = entry.header().mtime().unwrap_or(0);
        // Before anything of it is written: what is all hole costs its maker nothing.
        self.bytes = self.bytes.saturating_add(entry.size());
        if self.bytes > MOST_BYTES {
            return Err(bad("the image is too large"));
        }
        remove(parent, name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(
            parent,
            name,
            flags | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )?;
        let mut file = File::from(file);
        copy(entry, &mut file)?;
        self.own(parent, name, uid)?;
        // After the owner, because a change of owner takes bits away; none is given that gains rights.
        file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
        let at = Timespec {
            tv_sec: i64::try_from(seconds).unwrap_or(0),
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: at,
            last_modification: at,
        };
        Ok(utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives an entry to whom it belongs inside.
    fn own(&self, parent: &OwnedFd, name: &OsStr, uid: u64) -> io::Result<()> {
        let Some((uid, gid)) = self.ids.of_image(uid) else {
            return Ok(());
        };
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        Ok(chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Opens a folder of the tree; links on the way lead nowhere but into the tree.
    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.root, path, FOLDER, Mode::empty(), within)
    }

    /// Opens a folder of the tree, and makes it if need be.
    fn make(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.open(path) {
            Err(Errno::NOENT) => {}
            other => return Ok(other?),
        }
        let mut so_far = PathBuf::new();
        for part in path.components() {
            let parent = self.open(&so_far)?;
            so_far.push(part);
            if let Err(Errno::NOENT) = self.open(&so_far) {
                mkdirat(&parent, part.as_os_str(), Mode::from_raw_mode(0o755))?;
                self.own(&parent, part.as_os_str(), 0)?;
            }
        }
        Ok(self.open(path)?)
    }
}

/// Copies to an empty file, and leaves holes where pages of nothing are.
fn copy(from: &mut impl Read, to: &mut File) -> io::Result<()> {
    let (mut piece, mut length) = (vec![0; PIECE], 0);
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return to.set_len(length);
        }
        let part = piece.get(..read).unwrap_or_default();
        if read == PIECE && part.iter().all(|byte| *byte == 0) {
            to.seek(SeekFrom::Current(i64::try_from(read).unwrap_or(0)))?;
        } else {
            to.write_all(part)?;
        }
        length += read as u64;
    }
}

/// Tells whether an entry is the map of a file with holes and its data, in the form 0.1 or 1.0.
fn has_described_holes<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<bool> {
    let Some(extensions) = entry.pax_extensions()? else {
        return Ok(false);
    };
    for extension in extensions {
        if extension?.key_bytes().starts_with(b"GNU.sparse.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How folders are opened.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Returns a path of this process that means exactly this folder.
fn place(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// Removes a file, link or tree, if it is there.
fn remove(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(kind) if rustix::fs::FileType::from_raw_mode(kind.st_mode).is_dir() => {
            remove_tree(&place(parent).join(name))
        }
        Ok(_) => Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?),
    }
}

/// Says of which entry an error is.
fn of(path: &Path, error: &io::Error) -> io::Error {
    let shown = path.to_string_lossy().escape_debug().to_string();
    io::Error::new(error.kind(), format!("`{shown}`: {error}"))
}

/// Reads where a link leads.
fn link_of<R: Read>(entry: &Entry<'_, R>) -> io::Result<PathBuf> {
    let to = entry.link_name()?;
    to.map(std::borrow::Cow::into_owned)
        .ok_or_else(|| bad("it is a link to nothing"))
}

/// Parts a path into folder and name; `None` is the tree itself.
fn split(path: &Path) -> io::Result<Option<(PathBuf, OsString)>> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(bad("its path leads out of the image"));
            }
        }
    }
    if parts.len() > DEEPEST {
        return Err(bad("its folders are nested too deeply"));
    }
    let Some(name) = parts.pop() else {
        return Ok(None);
    };
    Ok(Some((parts.iter().collect(), name.to_owned())))
}
