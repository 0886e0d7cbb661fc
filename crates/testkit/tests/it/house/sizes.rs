//! Files stay small, so that a name is enough to know where to look.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Lines of code of one file, tests aside.
const CEILING: usize = 500;

/// Nine files of ten are no longer than this.
const NINE_OF_TEN: usize = 350;

/// Lines of one room, tests aside.
const ROOM: usize = 8_000;

/// Lines of `store`: each statement stands there twice, once for each database, and a log is read
/// once more by who only looks at it; the lines in which writes wait for a bound, and a Postgres of
/// one's own for trials, are there too. Keys, the audit log and sealed secrets are twice there as well.
const STORE: usize = 17_500;

/// Lines of `protocol`: a room that everybody uses grows first, with every noun of the API.
const PROTOCOL: usize = 8_200;

/// Lines of `hands`: the driver, its packs, images, packages, ways out, the host and the fake driver that
/// other rooms test with are one room, and so is who is told of each bound, with a kernel that keeps it or
/// by looking.
const HANDS: usize = 12_400;

/// Lines of `kernel`: every verb stands there, and the life of hands with their files and ways out, and what is
/// swept of them here or elsewhere.
const KERNEL: usize = 9_430;

/// Lines of `server`: every command of the binary stands there beside the wiring of all rooms, and
/// `torture` is a program of its own; so is the egress of another user.
const SERVER: usize = 13_700;

/// Returns the source files below a folder, tests aside.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // A suite that implementations have to pass is a test, wherever it stands.
        let tests = name == "tests" || name == "conformance";
        if path.is_dir() && !tests {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" && !path.is_dir() {
            found.push(path);
        }
    }
}

/// Counts the lines of a file before its tests, blank ones aside.
fn lines(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    let tests = |line: &&str| line.trim_end() != "mod tests {";
    text.lines()
        .take_while(tests)
        .filter(|line| !line.trim().is_empty())
        .count()
}

/// Returns every room's files with their lines.
fn rooms() -> Vec<(String, Vec<(PathBuf, usize)>)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut rooms = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        let mut files = Vec::new();
        sources(&path.join("src"), &mut files);
        let files = files
            .into_iter()
            .map(|file| (file.clone(), lines(&file)))
            .collect();
        rooms.push((
            path.file_name().unwrap().to_string_lossy().into_owned(),
            files,
        ));
    }
    rooms
}

#[test]
fn no_file_is_longer_than_the_ceiling() {
    let all = rooms().into_iter().flat_map(|(_, files)| files);
    let long: Vec<_> = all.filter(|(_, lines)| *lines > CEILING).collect();
    assert!(long.is_empty(), "longer than {CEILING} lines: {long:#?}");
}

#[test]
fn nine_files_of_ten_are_short() {
    let mut sizes: Vec<_> = rooms()
        .into_iter()
        .flat_map(|(_, files)| files)
        .map(|(_, lines)| lines)
        .collect();
    sizes.sort_unstable();
    let at = sizes.len() * 9 / 10;
    assert!(
        sizes[at] <= NINE_OF_TEN,
        "the 90th percentile is {} lines",
        sizes[at]
    );
}

#[test]
fn no_room_outgrows_its_bound() {
    let total = |files: &[(PathBuf, usize)]| files.iter().map(|(_, lines)| lines).sum::<usize>();
    let bound = |room: &str| match room {
        "protocol" => PROTOCOL,
        "hands" => HANDS,
        "server" => SERVER,
        "store" => STORE,
        "kernel" => KERNEL,
        _ => ROOM,
    };
    let large: Vec<_> = rooms()
        .into_iter()
        .map(|(room, files)| (total(&files), room))
        .filter(|(lines, room)| *lines > bound(room))
        .collect();
    assert!(large.is_empty(), "rooms above their bound: {large:?}");
}
