//! What a server must not leave behind, and what must stand nowhere.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::SeekFrom;

/// Returns every place below `dir` that holds one of the needles, but for the file that may.
pub(crate) fn holding(dir: &Path, needles: &[&str], but: &str) -> Vec<PathBuf> {
    let mut found = files(dir);
    found.retain(|path| !path.ends_with(but) && holds(path, needles).unwrap_or(false));
    found
}

/// Returns every file below `dir`.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(kind) = fs::symlink_metadata(&path) else {
            continue;
        };
        if kind.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|at| at.path()),
            );
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

/// Looks through a file piece by piece, and not through its holes: disks of sandboxes are large.
fn holds(path: &Path, needles: &[&str]) -> io::Result<bool> {
    const PIECE: usize = 1 << 20;
    let longest = needles.iter().map(|needle| needle.len()).max().unwrap_or(0);
    let file = File::open(path)?;
    let (mut at, mut bytes) = (0, vec![0; PIECE]);
    // Past the last data the system says so by an error.
    while let Ok(data) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(data))?;
        let piece = usize::try_from(hole - data).unwrap_or(PIECE).min(PIECE);
        let read = file.read_at(&mut bytes[..piece], data)?;
        if read == 0 {
            break;
        }
        if needles
            .iter()
            .any(|needle| contains(&bytes[..read], needle))
        {
            return Ok(true);
        }
        // The next piece begins a little before, for what lies across the edge.
        let step = if read == PIECE { read - longest } else { read };
        at = data + step as u64;
    }
    Ok(false)
}

fn contains(bytes: &[u8], needle: &str) -> bool {
    let needle = needle.as_bytes();
    // A page of nothing holds nothing; most are.
    let blank = |part: &[u8]| part.iter().all(|byte| *byte == 0);
    !blank(bytes) && bytes.windows(needle.len()).any(|part| part == needle)
}

/// Returns processes in the control groups of a data directory's hands.
pub(crate) fn processes(dir: &Path) -> Vec<String> {
    let hands = hands(dir);
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let lives = |pid: &String| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        hands.iter().any(|hand| groups.contains(hand.as_str()))
    };
    pids.filter(lives).collect()
}

/// Returns mounts of this namespace that lie in a data directory.
pub(crate) fn mounts(dir: &Path) -> Vec<String> {
    let below = format!("{}/", dir.display());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts
        .lines()
        .filter(|line| line.contains(&below))
        .map(str::to_owned)
        .collect()
}

/// Returns the names of the hands that a data directory ever had and still knows.
pub(crate) fn hands(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("hands"))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("hand_")).collect()
}

/// Returns control groups of the hands of a data directory.
pub(crate) fn groups(dir: &Path) -> Vec<PathBuf> {
    let names = hands(dir);
    let of_ours = |group: &PathBuf| {
        let group = group.to_string_lossy();
        names.iter().any(|hand| group.contains(hand.as_str()))
    };
    let mut found = all_groups();
    found.retain(of_ours);
    found
}

/// Returns control groups of the hands of any data directory.
pub(crate) fn all_groups() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((path, depth)) = open.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("hand_") {
            found.push(path);
        } else if depth < 8 {
            let below = fs::read_dir(&path).into_iter().flatten().flatten();
            let dirs = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            open.extend(dirs.map(|entry| (entry.path(), depth + 1)));
        }
    }
    found
}

/// Returns the pids of PID 1 of every sandbox of a data directory that lives.
pub(crate) fn inits(dir: &Path) -> Vec<u32> {
    let first = |pid: &String| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mut lines = status.lines();
        lines.any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
    };
    let found = processes(dir).into_iter().filter(first);
    found.filter_map(|pid| pid.parse().ok()).collect()
}

/// Reads a file of the workspace of a sandbox that lives, as it is seen inside: its disk may be seen
/// nowhere else.
pub(crate) fn inside(dir: &Path, name: &str) -> Option<String> {
    let mut paths = inits(dir)
        .into_iter()
        .map(|pid| format!("/proc/{pid}/root/workspace/{name}"));
    paths.find_map(|path| fs::read_to_string(path).ok())
}
