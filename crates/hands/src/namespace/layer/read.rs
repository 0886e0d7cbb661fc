//! Reading a pack entry by entry.

use std::io::{self, Read};

use super::{
    broken,
    entry::Entry,
    header,
    pax::{self, Records},
};

/// Hands every entry over with its data, in order.
///
/// # Errors
///
/// If the archive is broken, or what `take` says.
pub(super) fn each(
    archive: impl Read,
    mut take: impl FnMut(Entry, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let mut archive = tar::Archive::new(archive);
    let mut records: Option<Records> = None;
    // Raw, because extended headers are read here.
    for found in archive.entries()?.raw(true) {
        let mut found = found?;
        if found.header().entry_type().is_pax_local_extensions() {
            let mut text = Vec::new();
            (&mut found).take(pax::LONGEST + 1).read_to_end(&mut text)?;
            if text.len() as u64 > pax::LONGEST || records.is_some() {
                return Err(broken("an extended header"));
            }
            records = Some(pax::decode(&text)?);
            continue;
        }
        let records = records.take().unwrap_or_default();
        let (entry, size) = header::decode(found.header(), &records)?;
        let mut data = Exact {
            inner: &mut found,
            left: size,
        };
        take(entry, &mut data)?;
    }
    match records {
        Some(_) => Err(broken("an extended header without an entry")),
        None => Ok(()),
    }
}

/// Gives as many bytes as there should be, or fails.
pub(super) struct Exact<R> {
    pub(super) inner: R,
    pub(super) left: u64,
}

impl<R: Read> Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX);
        let buffer = match buffer.split_at_mut_checked(room) {
            Some((first, _)) => first,
            None => buffer,
        };
        // Some readers take being asked for nothing for their end.
        if buffer.is_empty() {
            return Ok(0);
        }
        let length = self.inner.read(buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(length as u64);
        Ok(length)
    }
}
