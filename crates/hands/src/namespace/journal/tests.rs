use std::{fs, io::Write as _};

use outlast_protocol::{Micros, Outcome, id::IncarnationId, seam::Entropy};

use super::{super::Folders, *};

/// Counts up.
#[derive(Debug)]
struct Counter;

impl Entropy for Counter {
    fn fill(&self, buffer: &mut [u8]) {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        buffer.fill(0);
        buffer[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    }
}

fn call() -> EventId {
    EventId::mint(Micros(1_700_000_000_000_000), &Counter)
}

fn folder() -> (tempfile::TempDir, Folder) {
    let room = tempfile::tempdir().unwrap();
    let folders = Folders::new(room.path()).unwrap();
    let folder = folders.of(IncarnationId::mint(Micros(1_700_000_000_000_000), &Counter));
    folder.make().unwrap();
    (room, folder)
}

fn result() -> CallResult {
    CallResult::error(Outcome::Done, "it failed")
}

/// A journal of the boot `before` with a call that is over and one that began.
fn written(folder: &Folder) -> (EventId, EventId) {
    let (done, begun) = (call(), call());
    let mut journal = Journal::create(folder, "before").unwrap();
    journal.begun(done).unwrap();
    journal.begun(begun).unwrap();
    let at = journal.settled(done, &result()).unwrap();
    assert_eq!(journal.read(at).unwrap(), result());
    (done, begun)
}

#[test]
fn the_boot_that_wrote_it_knows_what_was_not_started() {
    let (_room, folder) = folder();
    let (done, begun) = written(&folder);
    let says = |call| recall(&folder, "before", call);
    assert_eq!(says(done), Recalled::Settled(result()));
    assert_eq!(says(begun), Recalled::Begun);
    assert_eq!(says(call()), Recalled::NotStarted);
}

#[test]
fn another_boot_never_says_that_a_call_was_not_started() {
    let (_room, folder) = folder();
    let (done, begun) = written(&folder);
    // What was synced or happens to be there still counts; silence means nothing.
    for boot in ["after", "", "befor", "before2"] {
        let says = |call| recall(&folder, boot, call);
        assert_eq!(says(done), Recalled::Settled(result()), "{boot:?}");
        assert_eq!(says(begun), Recalled::Begun, "{boot:?}");
        assert_eq!(says(call()), Recalled::Unknown, "{boot:?}");
    }
}

#[test]
fn a_boot_that_has_no_name_is_no_boot_of_ours() {
    let (_room, folder) = folder();
    drop(Journal::create(&folder, "").unwrap());
    assert_eq!(recall(&folder, "", call()), Recalled::Unknown);
}

#[test]
fn a_journal_that_lost_its_first_line_or_is_torn_does_not_say_it_either() {
    let (_room, folder) = folder();
    let (done, _) = written(&folder);
    let whole = fs::read(folder.journal()).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let zeroed: Vec<u8> = vec![0; first]
        .into_iter()
        .chain(whole[first..].to_vec())
        .collect();
    for (torn, known) in [
        (whole[first..].to_vec(), true),
        (zeroed, true),
        (vec![0; whole.len()], false),
        (Vec::new(), false),
        (whole[..first - 2].to_vec(), false),
    ] {
        fs::write(folder.journal(), &torn).unwrap();
        assert_eq!(recall(&folder, "before", call()), Recalled::Unknown);
        let says = recall(&folder, "before", done);
        let wanted = if known {
            Recalled::Settled(result())
        } else {
            Recalled::Unknown
        };
        assert_eq!(says, wanted);
    }
    // The last line of a process that died while it wrote says nothing, of the same boot too.
    let mut torn = whole;
    torn.truncate(torn.len() - 5);
    fs::write(folder.journal(), &torn).unwrap();
    assert_eq!(recall(&folder, "before", done), Recalled::Begun);
    let mut file = OpenOptions::new()
        .append(true)
        .open(folder.journal())
        .unwrap();
    file.write_all(b"\n\xff{\"begun\":1}\n").unwrap();
    assert_eq!(recall(&folder, "before", call()), Recalled::NotStarted);
}

#[test]
fn there_is_one_journal_and_whoever_writes_it_has_it() {
    let (_room, folder) = folder();
    assert!(!is_held(&folder));
    let journal = Journal::create(&folder, "before").unwrap();
    assert!(Journal::create(&folder, "before").is_err());
    assert!(is_held(&folder));
    journal.release();
    assert!(!is_held(&folder));
}
