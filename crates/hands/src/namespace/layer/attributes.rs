//! What belongs to a file beside its content: owner, permissions, time, extended attributes.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, BorrowedFd},
};

use outlast_sandbox::Ids;
use rustix::{
    fs::{
        AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod,
        fchown, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fsetxattr, futimens,
        utimensat,
    },
    io::Errno,
};

use super::{
    acl::{self, Way},
    broken,
    entry::Attributes,
};

/// Begins what the overlay notes, under the one name or the other.
const OVERLAY: [&[u8]; 2] = [b"user.overlay.", b"trusted.overlay."];

/// What of that says what the layer is; the rest is good for one mount.
///
/// `overlay.` begins what was written inside under the overlay's own names.
const NOTES: [&[u8]; 4] = [b"opaque", b"redirect", b"whiteout", b"overlay."];

/// Tells whether an extended attribute goes with the layer.
///
/// Capabilities of files do not: nothing of a layer is ever mounted so that they would count.
fn is_kept(name: &[u8]) -> bool {
    let note = OVERLAY.iter().find_map(|prefix| name.strip_prefix(*prefix));
    match note {
        Some(note) => NOTES.iter().any(|kept| note.starts_with(kept)),
        None => name.starts_with(b"user.") || acl::is_list(name),
    }
}

/// Makes attributes of what the kernel says of a file.
pub(super) fn of(stat: &Stat, ids: &Ids) -> Attributes {
    let (uid, gid) = ids.seen(stat.st_uid, stat.st_gid);
    Attributes {
        mode: stat.st_mode & 0o7777,
        uid,
        gid,
        mtime: (
            stat.st_mtime,
            u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        ),
        extended: Vec::new(),
    }
}

/// Reads the extended attributes of an open file or folder.
pub(super) fn extended(file: BorrowedFd<'_>, ids: &Ids) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let names = match sized(|| flistxattr_query(file), |list| flistxattr(file, list)) {
        // A file system without them.
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| is_kept(name)) {
        let text = CString::new(name)?;
        let name_of = text.as_c_str();
        let value = sized(
            || fgetxattr_query(file, name_of),
            |value| fgetxattr(file, name_of, value),
        )?;
        let value = if acl::is_list(name) {
            let seen = acl::translate(&value, ids, Way::In);
            seen.ok_or_else(|| broken("an access control list"))?
        } else {
            value
        };
        found.push((name.to_owned(), value));
    }
    Ok(found)
}

/// Asks how long an answer is, and for the answer.
fn sized(
    length: impl Fn() -> Result<usize, Errno>,
    fill: impl Fn(&mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    loop {
        let mut buffer = vec![0; length()?];
        if buffer.is_empty() {
            return Ok(buffer);
        }
        match fill(&mut buffer) {
            // It grew meanwhile.
            Err(Errno::RANGE) => {}
            filled => {
                buffer.truncate(filled?);
                return Ok(buffer);
            }
        }
    }
}

/// Gives an open file or folder its attributes.
pub(super) fn set(file: impl AsFd, attributes: &Attributes, ids: &Ids) -> io::Result<()> {
    let file = file.as_fd();
    // While its owner may still write to it.
    for (name, value) in &attributes.extended {
        if acl::is_list(name) {
            allow(file, name, value, ids)?;
            continue;
        }
        let name = CString::new(name.as_slice())?;
        fsetxattr(file, name.as_c_str(), value, XattrFlags::empty())?;
    }
    if let Some((uid, gid)) = ids.owners(attributes.uid, attributes.gid) {
        fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    // After the owner, whose change clears bits.
    fchmod(file, Mode::from_raw_mode(attributes.mode))?;
    Ok(futimens(file, &times(attributes))?)
}

/// Gives an access control list. A file system without them leaves the permissions, which the
/// lists only refine, to those that the file has.
fn allow(file: BorrowedFd<'_>, name: &[u8], list: &[u8], ids: &Ids) -> io::Result<()> {
    let list = acl::translate(list, ids, Way::Out);
    let list = list.ok_or_else(|| broken("an access control list"))?;
    let name = CString::new(name)?;
    match fsetxattr(file, name.as_c_str(), &list, XattrFlags::empty()) {
        Err(Errno::NOTSUP) => Ok(()),
        other => Ok(other?),
    }
}

/// Gives what cannot be opened its attributes: a link, a pipe.
pub(super) fn set_at(
    folder: BorrowedFd<'_>,
    name: &[u8],
    attributes: &Attributes,
    ids: &Ids,
    permissions: Permissions,
) -> io::Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if let Some((uid, gid)) = ids.owners(attributes.uid, attributes.gid) {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        chownat(folder, name, Some(uid), Some(gid), flags)?;
    }
    if permissions == Permissions::Set {
        chmodat(
            folder,
            name,
            Mode::from_raw_mode(attributes.mode),
            AtFlags::empty(),
        )?;
    }
    Ok(utimensat(folder, name, &times(attributes), flags)?)
}

/// Whether something has permissions of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Permissions {
    /// It has.
    Set,
    /// A symbolic link has none.
    None,
}

/// Returns the time of change, for both times that can be set.
fn times(attributes: &Attributes) -> Timestamps {
    let (seconds, nanoseconds) = attributes.mtime;
    let at = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.into(),
    };
    Timestamps {
        last_access: at,
        last_modification: at,
    }
}
