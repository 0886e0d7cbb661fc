//! From an archive to a folder.
//!
//! Nothing that a pack says leads out of the folder: every step down is one plain name, opened
//! without following links, and an entry comes right behind the folder that it is in.

use std::{
    fs::File,
    io::{self, Read, Seek as _, SeekFrom, Write},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use outlast_sandbox::Ids;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, chmodat, linkat, mkdirat, mknodat, openat, symlinkat,
};

use super::{
    DEEPEST,
    attributes::{self, Permissions},
    broken,
    entry::{Attributes, Entry, Kind, ROOT},
    flow::PIECE,
    pack, read, sparse,
};

/// A way down one step.
const STEP: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A new folder.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A new file.
const FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Unpacks into the empty folder `at`; returns how many entries there were, at most `most`.
pub(super) fn unpack(archive: impl Read, at: &Path, ids: &Ids, most: u64) -> io::Result<u64> {
    let root = pack::open_root(at)?;
    let mut unpacker = Unpacker {
        root,
        root_attributes: None,
        open: Vec::new(),
        closed: Vec::new(),
        ids,
    };
    let mut entries = 0;
    read::each(archive, |entry, data| {
        entries += 1;
        if entries > most {
            return Err(broken("more entries than it should have"));
        }
        unpacker.entry(&entry, data)
    })?;
    unpacker.finish()?;
    Ok(entries)
}

/// A folder whose content is on its way.
struct Open {
    name: Vec<u8>,
    folder: OwnedFd,
    attributes: Attributes,
}

/// What unpacking needs.
struct Unpacker<'a> {
    root: OwnedFd,
    /// Set last, as with every folder: making something in it would change its time.
    root_attributes: Option<Attributes>,
    open: Vec<Open>,
    /// Folders that their owner closed to itself, the inner ones first. Closed at the end, because
    /// a file in one of them may get another name.
    closed: Vec<(Vec<u8>, Mode)>,
    ids: &'a Ids,
}

impl Unpacker<'_> {
    /// Unpacks one entry.
    fn entry(&mut self, entry: &Entry, data: &mut dyn Read) -> io::Result<()> {
        if entry.path == ROOT {
            if entry.kind != Kind::Folder || self.root_attributes.is_some() {
                return Err(broken("the layer itself"));
            }
            self.root_attributes = Some(entry.attributes.clone());
            return Ok(());
        }
        let mut parts = parts(&entry.path)?;
        let name = parts.pop().ok_or_else(|| broken("an empty path"))?;
        self.go_to(&parts)?;
        if entry.kind == Kind::Folder {
            return self.folder(name, &entry.attributes);
        }
        self.member(name, entry, data)
    }

    /// Leaves folders until the last one is where `parts` lead.
    fn go_to(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let same = self.open.iter().zip(parts);
        let common = same.take_while(|(open, part)| open.name == **part).count();
        if common < parts.len() {
            return Err(broken("an entry without its folder"));
        }
        while self.open.len() > common {
            self.leave()?;
        }
        Ok(())
    }

    /// Gives the last folder its attributes and leaves it.
    fn leave(&mut self) -> io::Result<()> {
        let names = self.open.iter().map(|open| open.name.as_slice());
        let path = names.collect::<Vec<_>>().join(&b'/');
        let Some(Open {
            folder,
            mut attributes,
            ..
        }) = self.open.pop()
        else {
            return Ok(());
        };
        let mode = attributes.mode;
        attributes.mode |= 0o100;
        attributes::set(&folder, &attributes, self.ids)?;
        if attributes.mode != mode {
            self.closed.push((path, Mode::from_raw_mode(mode)));
        }
        Ok(())
    }

    /// Returns the folder that it is in.
    fn here(&self) -> BorrowedFd<'_> {
        let last = self.open.last();
        last.map_or_else(|| self.root.as_fd(), |open| open.folder.as_fd())
    }

    /// Makes a folder and enters it.
    fn folder(&mut self, name: &[u8], attributes: &Attributes) -> io::Result<()> {
        if self.open.len() >= DEEPEST {
            return Err(broken("folders that are too deep"));
        }
        mkdirat(self.here(), name, Mode::RWXU)?;
        let folder = openat(self.here(), name, FOLDER, Mode::empty())?;
        self.open.push(Open {
            name: name.to_owned(),
            folder,
            attributes: attributes.clone(),
        });
        Ok(())
    }

    /// Makes anything else.
    fn member(&self, name: &[u8], entry: &Entry, data: &mut dyn Read) -> io::Result<()> {
        let (here, ids) = (self.here(), self.ids);
        let own = |permissions| attributes::set_at(here, name, &entry.attributes, ids, permissions);
        let special = |kind| mknodat(here, name, kind, Mode::RUSR | Mode::WUSR, 0);
        match &entry.kind {
            Kind::Folder => Ok(()),
            Kind::File { size } => {
                let mut file = File::from(openat(here, name, FILE, Mode::RUSR | Mode::WUSR)?);
                copy(data, &mut file, *size)?;
                attributes::set(&file, &entry.attributes, ids)
            }
            Kind::Sparse { size } => {
                let file = File::from(openat(here, name, FILE, Mode::RUSR | Mode::WUSR)?);
                fill(&file, data, *size)?;
                attributes::set(&file, &entry.attributes, ids)
            }
            Kind::Symlink { to } => {
                symlinkat(to.as_slice(), here, name)?;
                own(Permissions::None)
            }
            Kind::Link { to } => self.link(to, name),
            Kind::Fifo => {
                special(FileType::Fifo)?;
                own(Permissions::Set)
            }
            Kind::Whiteout => {
                special(FileType::CharacterDevice)?;
                own(Permissions::Set)
            }
        }
    }

    /// Gives a file another name.
    fn link(&self, to: &[u8], name: &[u8]) -> io::Result<()> {
        let (folder, file) = self.find(to)?;
        Ok(linkat(&folder, file, self.here(), name, AtFlags::empty())?)
    }

    /// Opens the folder that something is in; returns it with the thing's name.
    fn find<'p>(&self, path: &'p [u8]) -> io::Result<(OwnedFd, &'p [u8])> {
        let mut parts = parts(path)?;
        let name = parts.pop().ok_or_else(|| broken("an empty path"))?;
        let mut folder = openat(&self.root, ".", STEP, Mode::empty())?;
        for part in parts {
            folder = openat(&folder, part, STEP, Mode::empty())?;
        }
        Ok((folder, name))
    }

    /// Leaves every folder.
    fn finish(mut self) -> io::Result<()> {
        while !self.open.is_empty() {
            self.leave()?;
        }
        for (path, mode) in &self.closed {
            let (above, name) = self.find(path)?;
            chmodat(above, name, *mode, AtFlags::empty())?;
        }
        match &self.root_attributes {
            Some(attributes) => attributes::set(&self.root, attributes, self.ids),
            None => Err(broken("no layer in it")),
        }
    }
}

/// Takes a path apart; every part is a plain name.
fn parts(path: &[u8]) -> io::Result<Vec<&[u8]>> {
    let parts: Vec<_> = path.split(|byte| *byte == b'/').collect();
    let plain = |part: &&[u8]| !matches!(*part, b"" | b"." | b"..") && !part.contains(&0);
    if parts.iter().all(plain) {
        Ok(parts)
    } else {
        Err(broken("a path that leads elsewhere"))
    }
}

/// Copies up to `most` bytes; returns how many there were.
fn copy(data: &mut dyn Read, file: &mut impl Write, most: u64) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE.min(usize::try_from(most).unwrap_or(PIECE))];
    let mut copied = 0;
    loop {
        let left = usize::try_from(most - copied).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        let part = buffer.get_mut(..length).unwrap_or_default();
        let length = data.read(part)?;
        if length == 0 {
            return Ok(copied);
        }
        file.write_all(part.get(..length).unwrap_or_default())?;
        copied += length as u64;
    }
}

/// Fills a file that has holes.
fn fill(mut file: &File, data: &mut dyn Read, size: u64) -> io::Result<()> {
    for (offset, length) in sparse::decode(data, size)? {
        file.seek(SeekFrom::Start(offset))?;
        if copy(data, &mut file, length)? != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    file.set_len(size)
}
