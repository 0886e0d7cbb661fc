//! From a folder to an archive.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek as _, SeekFrom, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use outlast_sandbox::Ids;
use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, Stat, chmodat, fchmod, fstat, open, openat,
        readlinkat, statat,
    },
    io::Errno,
    process::geteuid,
};
use tar::{EntryType, Header};

use super::{
    DEEPEST, Stop, attributes,
    entry::{Entry, Kind, ROOT},
    flow::{PIECE, Source},
    header,
    pax::{self, Records},
    read::Exact,
    sparse,
};

/// An archive consists of blocks of this many bytes, and two of zeroes end it.
const BLOCK: usize = 512;

/// How folders are opened.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How files are opened: never waiting for the other end of a pipe.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Opens the layer.
pub(super) fn open_root(at: &Path) -> io::Result<OwnedFd> {
    Ok(open(at, FOLDER, Mode::empty())?)
}

/// Counts what is to be packed, the layer itself included.
pub(super) fn count(root: BorrowedFd<'_>, stop: &Stop) -> io::Result<u64> {
    Ok(count_in(root, stop, 0)? + 1)
}

fn count_in(folder: BorrowedFd<'_>, stop: &Stop, depth: usize) -> io::Result<u64> {
    stop.check()?;
    let mut found = 0;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            kind = FileType::from_raw_mode(stat.st_mode);
        }
        if kind == FileType::Directory {
            let inner = Folder::open(folder, name)?;
            found += count_in(inner.folder.as_fd(), stop, deeper(depth)?)?;
        }
        found += u64::from(kind != FileType::Socket);
    }
    Ok(found)
}

/// Goes one level down.
fn deeper(depth: usize) -> io::Result<usize> {
    if depth >= DEEPEST {
        let words = format!("it has folders more than {DEEPEST} levels deep");
        return Err(io::Error::other(words));
    }
    Ok(depth + 1)
}

/// A folder that is open for reading; one that its owner had closed to itself is closed again.
struct Folder {
    folder: OwnedFd,
    closed: Option<Mode>,
}

impl Folder {
    fn open(above: BorrowedFd<'_>, name: &[u8]) -> io::Result<Self> {
        let stat = statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        let wanted = Mode::RUSR | Mode::XUSR;
        // Whoever may do everything needs no permission.
        let closed = (!mode.contains(wanted) && !geteuid().is_root()).then_some(mode);
        if closed.is_some() {
            chmodat(above, name, mode | wanted, AtFlags::empty())?;
        }
        let folder = openat(above, name, FOLDER, Mode::empty())?;
        Ok(Self { folder, closed })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(mode) = self.closed {
            // It was changed a moment ago, so it can be changed back.
            let _ = fchmod(&self.folder, mode);
        }
    }
}

/// Opens a file that its owner may have closed to itself; permissions stay as they are.
fn open_file(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    match openat(folder, name, FILE, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
            chmodat(folder, name, mode | Mode::RUSR, AtFlags::empty())?;
            let opened = openat(folder, name, FILE, Mode::empty());
            chmodat(folder, name, mode, AtFlags::empty())?;
            Ok(opened?)
        }
        other => Ok(other?),
    }
}

/// Writes the layer as an archive; returns how many entries it has.
pub(super) fn pack(root: BorrowedFd<'_>, out: Source, ids: &Ids, stop: &Stop) -> io::Result<u64> {
    let mut packer = Packer {
        out,
        buffer: vec![0; PIECE],
        ids,
        stop,
        seen: HashMap::new(),
        path: Vec::new(),
        entries: 0,
    };
    let stat = fstat(root)?;
    packer.folder(root, &stat, 0)?;
    packer.out.write_all(&[0; 2 * BLOCK])?;
    packer.out.end()?;
    Ok(packer.entries)
}

/// What a pack in the making needs.
struct Packer<'a> {
    out: Source,
    /// What is read of a file at once.
    buffer: Vec<u8>,
    ids: &'a Ids,
    stop: &'a Stop,
    /// Files with several names, by device and number, under the first of their paths.
    seen: HashMap<(u64, u64), Vec<u8>>,
    /// Where it is.
    path: Vec<u8>,
    entries: u64,
}

impl Packer<'_> {
    /// Packs a folder and what is in it.
    fn folder(&mut self, folder: BorrowedFd<'_>, stat: &Stat, depth: usize) -> io::Result<()> {
        let mut entry = self.entry(Kind::Folder, stat);
        entry.attributes.extended = attributes::extended(folder, self.ids)?;
        self.put(&entry, io::empty(), 0)?;
        for found in Dir::read_from(folder)? {
            let found = found?;
            let name = found.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let length = self.path.len();
            if length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name);
            self.member(folder, name, depth)?;
            self.path.truncate(length);
        }
        Ok(())
    }

    /// Packs one thing of a folder.
    fn member(&mut self, folder: BorrowedFd<'_>, name: &[u8], depth: usize) -> io::Result<()> {
        self.stop.check()?;
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            let inner = Folder::open(folder, name)?;
            return self.folder(inner.folder.as_fd(), &stat, deeper(depth)?);
        }
        if kind == FileType::Socket {
            return Ok(());
        }
        if let Some(to) = self.first_name(&stat) {
            let entry = self.entry(Kind::Link { to }, &stat);
            return self.put(&entry, io::empty(), 0);
        }
        match kind {
            FileType::RegularFile => self.file(open_file(folder, name)?.into(), &stat),
            FileType::Symlink => {
                let to = readlinkat(folder, name, Vec::new())?.into_bytes();
                let entry = self.entry(Kind::Symlink { to }, &stat);
                self.put(&entry, io::empty(), 0)
            }
            FileType::Fifo => self.put(&self.entry(Kind::Fifo, &stat), io::empty(), 0),
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                self.put(&self.entry(Kind::Whiteout, &stat), io::empty(), 0)
            }
            FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Directory
            | FileType::Socket
            | FileType::Unknown => Err(io::Error::other(format!(
                "`{}` is a device, which a pack does not hold",
                String::from_utf8_lossy(&self.path)
            ))),
        }
    }

    /// Returns the path under which a file was packed before; notes this one if it is the first.
    fn first_name(&mut self, stat: &Stat) -> Option<Vec<u8>> {
        if stat.st_nlink < 2 {
            return None;
        }
        let id = (stat.st_dev, stat.st_ino);
        let first = self.seen.get(&id).cloned();
        if first.is_none() {
            self.seen.insert(id, self.path.clone());
        }
        first
    }

    /// Packs a file.
    fn file(&mut self, mut file: File, stat: &Stat) -> io::Result<()> {
        let size = file.metadata()?.len();
        let extended = attributes::extended(file.as_fd(), self.ids)?;
        // Without holes it has a block for every 512 bytes.
        let holes = u64::try_from(stat.st_blocks).unwrap_or(0) < size / 512;
        let map = if holes {
            sparse::map(&file, size)?
        } else {
            None
        };
        let Some(map) = map else {
            file.rewind()?;
            let mut entry = self.entry(Kind::File { size }, stat);
            entry.attributes.extended = extended;
            return self.put(&entry, file, size);
        };
        let mut entry = self.entry(Kind::Sparse { size }, stat);
        entry.attributes.extended = extended;
        let head = sparse::encode(&map);
        let held: u64 = map.iter().map(|(_, length)| length).sum();
        let length = head.len() as u64 + held;
        let parts = Parts {
            file,
            rest: map.into_iter(),
            left: 0,
        };
        self.put(&entry, head.as_slice().chain(parts), length)
    }

    /// Makes the entry of where it is.
    fn entry(&self, kind: Kind, stat: &Stat) -> Entry {
        let path = if self.path.is_empty() {
            ROOT
        } else {
            &self.path
        };
        Entry {
            path: path.to_owned(),
            kind,
            attributes: attributes::of(stat, self.ids),
        }
    }

    /// Writes an entry and its data.
    fn put(&mut self, entry: &Entry, data: impl Read, size: u64) -> io::Result<()> {
        let (header, records) = header::encode(entry, size)?;
        if !records.is_empty() {
            self.records(&records)?;
        }
        let data = Exact {
            inner: data,
            left: size,
        };
        self.append(&header, data)?;
        self.entries += 1;
        Ok(())
    }

    /// Writes a header and data, up to a whole block.
    fn append(&mut self, header: &Header, mut data: impl Read) -> io::Result<()> {
        self.out.write_all(header.as_bytes())?;
        let mut size = 0;
        loop {
            self.stop.check()?;
            let length = data.read(&mut self.buffer)?;
            if length == 0 {
                break;
            }
            let part = self.buffer.get(..length).unwrap_or_default();
            self.out.write_all(part)?;
            size += length;
        }
        let rest = size.next_multiple_of(BLOCK) - size;
        let zeroes = [0; BLOCK];
        self.out.write_all(zeroes.get(..rest).unwrap_or_default())
    }

    /// Writes the extended header of the next entry.
    fn records(&mut self, records: &Records) -> io::Result<()> {
        let text = pax::encode(records);
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::XHeader);
        header.set_path("extended")?;
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        header.set_cksum();
        self.append(&header, text.as_slice())
    }
}

/// Reads what a file holds between its holes.
struct Parts {
    file: File,
    rest: std::vec::IntoIter<(u64, u64)>,
    left: u64,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == 0 {
            let Some((offset, length)) = self.rest.next() else {
                return Ok(0);
            };
            self.file.seek(SeekFrom::Start(offset))?;
            self.left = length;
        }
        let length = (&mut self.file).take(self.left).read(buffer)?;
        if length == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= length as u64;
        Ok(length)
    }
}
