//! What a sandbox holds that no folder shows: memory, also what is shared, and deleted files that are open.
//!
//! Looked at from outside, by what the kernel says of each process. A program can hide some of it: behind
//! descriptors that are on their way through a socket, or pages that it let go of in a mapping.

use std::{collections::HashSet, fs, io, path::Path};

use rustix::{
    fs::{FileType, MemfdFlags, Stat, fstat, major, memfd_create, minor, stat, statfs},
    param::page_size,
};

use crate::family::family;

/// Deleted files on the disk that are held open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Deleted {
    /// Bytes that they take.
    pub bytes: u64,
    /// How many there are.
    pub files: u64,
}

/// Memory of processes, their own and what they share; folders in memory are not in it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Memory {
    pub(crate) bytes: u64,
    /// The process that has most of it.
    pub(crate) largest: Option<i32>,
}

/// Adds up deleted files that `first` and all that descend from it have open. Blocks.
pub(crate) fn deleted(first: i32) -> io::Result<Deleted> {
    let mut sum = Sum::new()?;
    for pid in family(first)? {
        sum.open(pid);
    }
    Ok(sum.deleted)
}

/// Adds up their memory. Blocks.
pub(crate) fn memory(first: i32) -> io::Result<Memory> {
    let mut sum = Sum::new()?;
    // Before any mapping, so that what is both is counted once.
    let open = family(first)?.into_iter().map(|pid| (pid, sum.open(pid)));
    let open: Vec<_> = open.collect();
    let (mut largest, mut most) = (None, 0);
    for (pid, files) in open {
        let own = own(pid);
        sum.memory += own;
        let all = own + files + sum.mapped(pid);
        // PID 1 is nobody's to end.
        if all > most && pid != first {
            (most, largest) = (all, Some(pid));
        }
    }
    let bytes = sum.memory;
    Ok(Memory { bytes, largest })
}

/// A sum on its way.
#[derive(Debug)]
struct Sum {
    memory: u64,
    deleted: Deleted,
    /// The device of memory that has no folder.
    device: u64,
    /// Files that are counted, by device and number.
    seen: HashSet<(u64, u64)>,
}

/// Returns the memory of a process that it shares with nothing.
fn own(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut pages = text
        .split(' ')
        .skip(1)
        .map(|field| field.parse().unwrap_or(0));
    let (resident, shared): (u64, u64) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared) * page_size() as u64
}

impl Sum {
    fn new() -> io::Result<Self> {
        let device = fstat(memfd_create("device", MemfdFlags::CLOEXEC)?)?.st_dev;
        Ok(Self {
            memory: 0,
            deleted: Deleted::default(),
            device,
            seen: HashSet::new(),
        })
    }

    /// Adds the files that a process has open; returns how much memory they are.
    fn open(&mut self, pid: i32) -> u64 {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
        let mut memory = 0;
        for entry in entries.flatten().flatten() {
            let Ok(file) = stat(entry.path()) else {
                continue;
            };
            let is_memory = file.st_dev == self.device;
            if !is_memory && !is_deleted(&file, &entry.path()) {
                continue;
            }
            let bytes = u64::try_from(file.st_blocks).unwrap_or(0) * 512;
            memory += if is_memory { bytes } else { 0 };
            if self.seen.insert((file.st_dev, file.st_ino)) {
                self.add(bytes, is_memory);
            }
        }
        memory
    }

    fn add(&mut self, bytes: u64, is_memory: bool) {
        if is_memory {
            self.memory += bytes;
        } else {
            self.deleted.bytes += bytes;
            self.deleted.files += 1;
        }
    }

    /// Adds a process's part of shared memory that it has mapped and nobody has open; returns how much it
    /// has mapped.
    fn mapped(&mut self, pid: i32) -> u64 {
        let device = format!(" {:02x}:{:02x} ", major(self.device), minor(self.device));
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        if !maps.contains(&device) {
            return 0;
        }
        // Only now: it has the kernel look at every page.
        let text = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
        let mut within = None;
        let mut mapped = 0;
        for line in text.lines() {
            if let Some((_, number)) = line.split_once(&device) {
                let number = number
                    .split(' ')
                    .next()
                    .and_then(|number| number.parse().ok());
                within = number.map(|number: u64| self.seen.contains(&(self.device, number)));
            } else if is_head(line) {
                within = None;
            } else if let (Some(seen), Some(bytes)) = (within, kib(line, "Rss:")) {
                mapped += if seen { 0 } else { bytes };
            } else if let (Some(false), Some(bytes)) = (within, kib(line, "Pss:")) {
                self.memory += bytes;
            }
        }
        mapped
    }
}

/// Tells whether a line of `smaps` begins another mapping.
fn is_head(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or_default();
    first.contains('-')
}

/// Reads a line `NAME 12 kB`.
fn kib(line: &str, name: &str) -> Option<u64> {
    let number = line.strip_prefix(name)?.trim().strip_suffix(" kB")?;
    Some(number.parse::<u64>().ok()? << 10)
}

/// Tells whether a file is one of the sandbox's on the disk without a name: folders in memory have a bound
/// of their own, and what is root's is the host's.
fn is_deleted(file: &Stat, path: &Path) -> bool {
    const IN_MEMORY: u64 = 0x0102_1994;
    FileType::from_raw_mode(file.st_mode).is_file()
        && file.st_nlink == 0
        && file.st_uid != 0
        && statfs(path).is_ok_and(|place| place.f_type as u64 != IN_MEMORY)
}
