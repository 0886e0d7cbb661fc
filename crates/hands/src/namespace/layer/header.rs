//! Entries as headers of a tar archive, and back.

use std::io;

use tar::{EntryType, Header};

use super::{
    broken,
    entry::{Attributes, Entry, Kind},
    pax::{self, Records},
};

/// Begins the key of an extended attribute, as other tools write it.
const XATTR: &[u8] = b"SCHILY.xattr.";

/// Says that an entry has holes, in the newest of the forms that GNU tar writes.
const SPARSE: [(&[u8], &[u8]); 2] = [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0")];

/// The path of a file with holes: the header's own is for tools that do not know holes.
const SPARSE_NAME: &[u8] = b"GNU.sparse.name";

/// The size of a file with holes.
const SPARSE_SIZE: &[u8] = b"GNU.sparse.realsize";

/// What the header itself can hold of a name.
const NAME: usize = 100;

/// Makes the header of an entry with `size` bytes of data, and the records before it.
pub(super) fn encode(entry: &Entry, size: u64) -> io::Result<(Header, Records)> {
    let attributes = &entry.attributes;
    let mut header = Header::new_ustar();
    let mut records = Records::new();
    header.set_mode(attributes.mode);
    header.set_uid(attributes.uid.into());
    header.set_gid(attributes.gid.into());
    header.set_size(size);
    let (seconds, nanoseconds) = attributes.mtime;
    header.set_mtime(seconds.clamp(0, 0o777_7777_7777).unsigned_abs());
    if seconds < 0 || nanoseconds > 0 {
        records.push((b"mtime".to_vec(), decimal(attributes.mtime).into_bytes()));
    }
    header.set_entry_type(match &entry.kind {
        Kind::Folder => EntryType::Directory,
        Kind::File { .. } | Kind::Sparse { .. } => EntryType::Regular,
        Kind::Symlink { .. } => EntryType::Symlink,
        Kind::Link { .. } => EntryType::Link,
        Kind::Fifo => EntryType::Fifo,
        Kind::Whiteout => EntryType::Char,
    });
    if let Kind::Symlink { to } | Kind::Link { to } = &entry.kind {
        place(
            &mut header.as_old_mut().linkname,
            to,
            b"linkpath",
            &mut records,
        );
    }
    if let Kind::Sparse { size } = &entry.kind {
        records.extend(SPARSE.map(|(key, value)| (key.to_vec(), value.to_vec())));
        records.push((SPARSE_NAME.to_vec(), entry.path.clone()));
        records.push((SPARSE_SIZE.to_vec(), size.to_string().into_bytes()));
    }
    if entry.kind == Kind::Whiteout {
        header.set_device_major(0)?;
        header.set_device_minor(0)?;
    }
    place(
        &mut header.as_old_mut().name,
        &entry.path,
        b"path",
        &mut records,
    );
    for (name, value) in &attributes.extended {
        records.push(([XATTR, &pax::escape(name)].concat(), value.clone()));
    }
    header.set_cksum();
    Ok((header, records))
}

/// Puts a name into a field, and into a record if the field is too short.
fn place(field: &mut [u8; NAME], name: &[u8], key: &[u8], records: &mut Records) {
    if name.len() > NAME {
        records.push((key.to_vec(), name.to_vec()));
    }
    for (slot, byte) in field.iter_mut().zip(name) {
        *slot = *byte;
    }
}

/// Reads a header and the records before it; returns the entry and how much data follows.
pub(super) fn decode(header: &Header, records: &Records) -> io::Result<(Entry, u64)> {
    let field = |key: &[u8]| {
        let found = records.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_slice())
    };
    let size = header.entry_size()?;
    let to = || {
        let short = field_of(&header.as_old().linkname);
        field(b"linkpath").unwrap_or(short).to_owned()
    };
    let sparse = match field(SPARSE_SIZE) {
        Some(text) => Some(number(text)?),
        None => None,
    };
    let kind = match (header.entry_type(), sparse) {
        (EntryType::Regular, Some(size)) => Kind::Sparse { size },
        (EntryType::Regular, None) => Kind::File { size },
        (EntryType::Directory, _) => Kind::Folder,
        (EntryType::Symlink, _) => Kind::Symlink { to: to() },
        (EntryType::Link, _) => Kind::Link { to: to() },
        (EntryType::Fifo, _) => Kind::Fifo,
        (EntryType::Char, _)
            if (header.device_major()?, header.device_minor()?) == (Some(0), Some(0)) =>
        {
            Kind::Whiteout
        }
        (other, _) => return Err(broken(&format!("an entry of type {other:?}"))),
    };
    let name = field(SPARSE_NAME).or_else(|| field(b"path"));
    let path = name.unwrap_or_else(|| field_of(&header.as_old().name));
    let mtime = match field(b"mtime") {
        Some(text) => time(text).ok_or_else(|| broken("a time"))?,
        None => (i64::try_from(header.mtime()?).unwrap_or(i64::MAX), 0),
    };
    let extended = records.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix(XATTR)?;
        Some((pax::unescape(name), value.clone()))
    });
    let id = |id: u64| u32::try_from(id).map_err(|_| broken("an owner"));
    let attributes = Attributes {
        mode: header.mode()? & 0o7777,
        uid: id(header.uid()?)?,
        gid: id(header.gid()?)?,
        mtime,
        extended: extended.collect(),
    };
    let path = path.to_owned();
    Ok((
        Entry {
            path,
            kind,
            attributes,
        },
        size,
    ))
}

/// Returns what stands in a field.
fn field_of(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Reads a number.
fn number(text: &[u8]) -> io::Result<u64> {
    let text = std::str::from_utf8(text).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| broken("a number"))
}

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// Writes a time as a decimal number of seconds.
fn decimal((seconds, nanoseconds): (i64, u32)) -> String {
    let all = i128::from(seconds) * SECOND + i128::from(nanoseconds);
    let sign = if all < 0 { "-" } else { "" };
    let (whole, part) = (all.abs() / SECOND, all.abs() % SECOND);
    format!("{sign}{whole}.{part:09}")
}

/// Reads a decimal number of seconds.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain("000000000".chars()).take(9).collect();
    let whole: u64 = whole.parse().ok()?;
    let all = sign * (i128::from(whole) * SECOND + i128::from(part.parse::<u32>().ok()?));
    let seconds = i64::try_from(all.div_euclid(SECOND)).ok()?;
    Some((seconds, u32::try_from(all.rem_euclid(SECOND)).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let long = vec![b'n'; 300];
        let kinds = [
            (b"a".to_vec(), Kind::Folder, 0),
            (vec![b'x'; NAME], Kind::File { size: 7 }, 7),
            (long.clone(), Kind::File { size: 9 << 30 }, 9 << 30),
            (
                long.clone(),
                Kind::Sparse {
                    size: u64::MAX >> 1,
                },
                512,
            ),
            (
                b"\xff\n ".to_vec(),
                Kind::Symlink {
                    to: b"//a/./..//".to_vec(),
                },
                0,
            ),
            (b"l".to_vec(), Kind::Symlink { to: long.clone() }, 0),
            (b"h".to_vec(), Kind::Link { to: long }, 0),
            (b"f".to_vec(), Kind::Fifo, 0),
            (b"w".to_vec(), Kind::Whiteout, 0),
        ];
        for (path, kind, size) in kinds {
            let attributes = Attributes {
                mode: 0o7751,
                uid: 1000,
                gid: 0,
                mtime: (-1, 5),
                extended: vec![(b"user.a=b".to_vec(), b"\n".to_vec())],
            };
            let entry = Entry {
                path,
                kind,
                attributes,
            };
            let (header, records) = encode(&entry, size).unwrap();
            assert_eq!(decode(&header, &records).unwrap(), (entry, size));
        }
    }

    #[test]
    fn times_before_and_after_the_epoch_come_back() {
        for at in [
            (0, 0),
            (-1, 500_000_000),
            (-5, 0),
            (1, 1),
            (1 << 40, 999_999_999),
        ] {
            assert_eq!(time(decimal(at).as_bytes()), Some(at));
        }
        assert_eq!(time(b"12"), Some((12, 0)));
        assert_eq!(time(b"x"), None);
    }
}
