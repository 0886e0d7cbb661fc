//! What an offline look at a database finds, after every kind of damage.

use std::{fs, path::Path, sync::Arc};

use outlast_blobs::Folder;
use outlast_protocol::id::{IncarnationId, SessionId};
use outlast_session::{Fact, Proposal, body::HandWanted};
use outlast_store::{
    Audit, End, Found, INLINE, OfflineError, Onlooker as _,
    conformance::fixture::{World, note},
    sqlite::Offline,
};
use rusqlite::Connection;
use tokio::runtime::Handle;

use crate::{erased, kit::Kit};

/// A data directory that no server has, with one session of many records.
struct Case {
    dir: tempfile::TempDir,
    session: SessionId,
    end: End,
}

impl Case {
    async fn new() -> Self {
        Self::of(async |world| eventful(world).await).await
    }

    /// One in which something was said.
    async fn said() -> Self {
        Self::of(async |world| erased::said(world).await).await
    }

    /// The same, and some of it was erased.
    async fn erased() -> Self {
        let erase = async |world: &World| {
            let session = erased::said(world).await;
            let (wish, _) = erased::wish(world, session).await;
            world.propose(session, wish).await.unwrap();
            session
        };
        Self::of(erase).await
    }

    async fn of(live: impl AsyncFn(&World) -> SessionId) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let kit = Kit::open(dir.path(), 1).await.unwrap();
        let world = kit.world().await;
        let session = live(&world).await;
        kit.store.close().await;
        let end = look(dir.path(), move |offline| {
            offline.end(session).unwrap().unwrap()
        })
        .await;
        Self { dir, session, end }
    }

    /// Changes the database behind everybody's back.
    fn damage(&self, statements: &str) {
        let connection = Connection::open(self.dir.path().join("outlast.db")).unwrap();
        connection
            .pragma_update(None, "foreign_keys", false)
            .unwrap();
        connection.execute_batch(statements).unwrap();
        assert!(connection.changes() > 0, "nothing was changed");
    }

    async fn audit(&self, noted: &[End]) -> Audit {
        let (session, noted) = (self.session, noted.to_vec());
        look(self.dir.path(), move |offline| {
            offline.audit(session, &noted).unwrap()
        })
        .await
    }

    /// Returns the word and the position of what is found.
    async fn broken(&self, noted: &[End]) -> (&'static str, u64) {
        let audit = self.audit(noted).await;
        match &audit.found {
            Found::Broken(damaged) => (damaged.what.word(), damaged.position),
            Found::Whole | Found::Deleted | Found::Gone => panic!("{audit:?}"),
        }
    }
}

async fn look<T: Send + 'static>(
    dir: &Path,
    work: impl FnOnce(&Offline) -> T + Send + 'static,
) -> T {
    let (dir, handle) = (dir.to_owned(), Handle::current());
    let looking = tokio::task::spawn_blocking(move || {
        let blobs = Arc::new(Folder::beside(dir.join("blobs")));
        work(&Offline::open(&dir, blobs, handle).unwrap())
    });
    looking.await.unwrap()
}

/// A session with messages, large bodies, a lease, calls and a hand.
pub(crate) async fn eventful(world: &World) -> SessionId {
    let mut brain = world.running().await;
    let (session, epoch) = (brain.session, brain.epoch);
    world.send(session, "a second message").await;
    world.send(session, &"large ".repeat(INLINE)).await;
    let wanted = HandWanted {
        name: "default".to_owned(),
        incarnation: IncarnationId::mint(world.clock.now(), &*world.entropy),
        predecessor: None,
        forgotten: Vec::new(),
        loss: None,
        networking: None,
    };
    let hand = Proposal::Keyed {
        thread: 0,
        epoch,
        key: world.event(),
        fact: Fact::HandWanted(wanted),
    };
    world.propose(session, hand).await.unwrap();
    for number in 0..500 {
        brain.say(note(&format!("note {number}"))).await.unwrap();
    }
    brain.say(note(&"x".repeat(2 * INLINE))).await.unwrap();
    world.asks(&mut brain).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_touched_is_whole_beside_its_server_too() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let session = eventful(&world).await;
    let (empty, gone) = (world.session().await, world.session_id());
    let deleted = world.session().await;
    let end = Proposal::Delete(world.key);
    world.propose(deleted, end).await.unwrap();
    let audits = look(dir.path(), move |offline| {
        assert_eq!(offline.sessions().unwrap(), [session, empty, deleted]);
        assert_eq!(offline.end(deleted).unwrap(), None);
        [session, empty, deleted, gone].map(|one| offline.audit(one, &[]).unwrap())
    })
    .await;
    let found = audits.clone().map(|audit| audit.found);
    use Found::{Deleted, Gone, Whole};
    assert_eq!(found, [Whole, Whole, Deleted, Gone]);
    assert!(audits[0].compared && audits[0].end.tail > 500 && audits[0].erased == 0);
    // And the server goes on, with what was noted meanwhile still to be found.
    let noted = look(dir.path(), move |offline| offline.end(session)).await;
    let noted = noted.unwrap().unwrap();
    assert_eq!(noted, audits[0].end);
    world.send(session, "more").await;
    let audit = look(dir.path(), move |offline| offline.audit(session, &[noted])).await;
    assert_eq!(audit.unwrap().found, Whole);
    kit.store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_of_a_record_is_found_where_it_is() {
    const AT: &str = "WHERE position = 9";
    let cases = [
        ("UPDATE records SET body = replace(body, 'n', 'm')", "body"),
        ("UPDATE records SET body = '{\"note\"'", "body"),
        ("UPDATE records SET body = CAST(x'ff00' AS TEXT)", "body"),
        ("UPDATE records SET salt = zeroblob(16)", "body"),
        // What has no salt is what is left of an erased body; this is not.
        ("UPDATE records SET salt = NULL", "untold"),
        ("UPDATE records SET body = NULL", "lost"),
        ("UPDATE records SET at = at + 1", "header"),
        ("UPDATE records SET thread = 1", "header"),
        ("UPDATE records SET origin = 's'", "header"),
        ("UPDATE records SET kind = 'x.prefix'", "header"),
        ("UPDATE records SET kind = 'x.of_the_future'", "unreadable"),
        ("UPDATE records SET version = 7", "unreadable"),
        ("UPDATE records SET digest = zeroblob(32)", "header"),
        ("UPDATE records SET hash = zeroblob(32)", "header"),
        ("UPDATE records SET hash = zeroblob(5)", "unreadable"),
        ("UPDATE records SET public = 1 - public", "projection"),
        ("DELETE FROM records", "missing"),
    ];
    let whole = Case::new().await;
    for (statement, word) in cases {
        let case = whole.copy();
        case.damage(&format!("{statement} {AT}"));
        assert_eq!(case.broken(&[]).await, (word, 9), "{statement}");
    }
    let case = whole.copy();
    case.damage(
        "CREATE TEMP TABLE swap AS SELECT position, body, salt FROM records WHERE position IN (9, 10); \
         UPDATE records SET body = (SELECT body FROM swap WHERE position = 19 - records.position) \
         WHERE position IN (9, 10);",
    );
    assert_eq!(case.broken(&[]).await, ("body", 9));
    // Their salts and digests along with them: now the chain says it.
    case.damage(
        "UPDATE records SET salt = (SELECT salt FROM records r WHERE r.position = 11), \
         digest = (SELECT digest FROM records r WHERE r.position = 11), \
         body = (SELECT body FROM records r WHERE r.position = 11) WHERE position = 9;",
    );
    assert_eq!(case.broken(&[]).await, ("header", 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_was_erased_is_no_damage_if_the_log_tells_of_it() {
    let whole = Case::erased().await;
    let audit = whole.audit(&[whole.end]).await;
    assert_eq!((&audit.found, audit.compared), (&Found::Whole, true));
    // Nine messages, each with its arrival.
    assert_eq!((audit.erased, audit.erased_at.len()), (18, 18));
    let first = audit.erased_at[0];
    let hole = format!("WHERE position = {first}");
    let cases = [
        (
            format!("UPDATE records SET body = replace(body, 'erased', 'e') {hole}"),
            "remains",
            first,
        ),
        (
            format!("UPDATE records SET salt = zeroblob(16) {hole}"),
            "body",
            first,
        ),
        (
            "UPDATE records SET body = NULL, salt = NULL WHERE kind = 'x.noted' AND position % 2"
                .to_owned(),
            "untold",
            0,
        ),
        (
            "DELETE FROM records WHERE kind = 'x.erased'".to_owned(),
            "cut",
            audit.end.tail,
        ),
    ];
    for (statement, word, at) in cases {
        let case = whole.copy();
        case.damage(&statement);
        let (found, position) = case.broken(&[]).await;
        assert_eq!(found, word, "{statement}");
        assert!(at == 0 || at == position, "{statement}: {position}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_stands_where_it_was_erased_is_found() {
    let (before, after) = (Case::said().await, Case::erased().await);
    // The same draws, so the same log up to what was erased.
    let (session, from) = (before.session, before.dir.path().join("outlast.db"));
    assert_eq!(session, after.session);
    after.damage(&format!(
        "ATTACH '{}' AS old; UPDATE records SET \
         body = (SELECT body FROM old.records o WHERE o.position = records.position), \
         salt = (SELECT salt FROM old.records o WHERE o.position = records.position) \
         WHERE position = 2;",
        from.display()
    ));
    assert_eq!(after.broken(&[]).await, ("restored", 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_that_was_cut_is_found() {
    let whole = Case::new().await;
    let tail = whole.end.tail;
    let case = whole.copy();
    case.damage(&format!("DELETE FROM records WHERE position > {tail} - 3"));
    assert_eq!(case.broken(&[]).await, ("cut", tail - 2));
    // The head says so too: what is projected from the log does not.
    let head = "UPDATE sessions SET tail = tail - 3, hash = (SELECT hash FROM records \
                ORDER BY position DESC LIMIT 1)";
    case.damage(head);
    assert_eq!(case.broken(&[]).await, ("projection", tail - 3));
    // That as well: only who noted the head elsewhere can tell.
    let kit = Kit::open(case.dir.path(), 2).await.unwrap();
    kit.store.rebuild().await.unwrap();
    kit.store.close().await;
    assert_eq!(case.audit(&[]).await.found, Found::Whole);
    assert_eq!(case.broken(&[case.end]).await, ("cut_since", tail - 2));
    let other = End {
        tail: 9,
        hash: [7; 32],
    };
    assert_eq!(case.broken(&[other]).await, ("rewritten", 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_beside_the_log_is_compared_with_it() {
    let whole = Case::new().await;
    let tail = whole.end.tail;
    let projection = ("projection", tail);
    let cases = [
        (
            "UPDATE sessions SET state = json_set(state, '$.usage.cost', 5)",
            projection,
        ),
        ("UPDATE sessions SET state = 'nonsense'", projection),
        (
            "UPDATE configs SET body = json_set(body, '$.title', 'other')",
            projection,
        ),
        ("UPDATE sessions SET status = 'idle'", projection),
        ("UPDATE sessions SET archived = 1", projection),
        ("UPDATE sessions SET deleted = 1", projection),
        ("UPDATE threads SET epoch = epoch + 1", projection),
        ("UPDATE threads SET holder = NULL", projection),
        ("DELETE FROM threads", projection),
        ("DELETE FROM hands", projection),
        ("UPDATE sessions SET hash = zeroblob(32)", ("head", tail)),
        ("UPDATE sessions SET tail = tail + 1", ("cut", tail + 1)),
        ("UPDATE sessions SET tail = tail - 1", ("head", tail - 1)),
        (
            "UPDATE sessions SET tail = tail - 1, hash = (SELECT hash FROM records \
             WHERE position = sessions.tail - 1)",
            ("stray", tail),
        ),
    ];
    for (statement, found) in cases {
        let case = whole.copy();
        case.damage(statement);
        assert_eq!(case.broken(&[]).await, found, "{statement}");
    }
    let case = whole.copy();
    case.damage("UPDATE sessions SET state_version = state_version + 1, state = '{}'");
    let audit = case.audit(&[]).await;
    assert_eq!((audit.found, audit.compared), (Found::Whole, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_in_blobs_are_looked_at() {
    let whole = Case::new().await;
    let away = Connection::open(whole.dir.path().join("outlast.db")).unwrap();
    let away: (u64, [u8; 32]) = away
        .query_row(
            "SELECT position, digest FROM records WHERE blob IS NOT NULL ORDER BY position LIMIT 1",
            [],
            |row| Ok((row.get::<_, u32>(0)?.into(), row.get(1)?)),
        )
        .unwrap();
    let (position, digest) = away;
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let blob = |case: &Case| {
        let folder = case.dir.path().join("blobs/sessions");
        folder.join(case.session.to_string()).join(&hex)
    };
    let case = whole.copy();
    fs::remove_file(blob(&case)).unwrap();
    assert_eq!(case.broken(&[]).await, ("lost", position));
    for change in [
        |bytes: &mut Vec<u8>| bytes[40] ^= 1,
        |bytes: &mut Vec<u8>| bytes.truncate(100),
        |bytes: &mut Vec<u8>| bytes[40] = 0xff,
    ] {
        let case = whole.copy();
        let mut bytes = fs::read(blob(&case)).unwrap();
        change(&mut bytes);
        fs::write(blob(&case), bytes).unwrap();
        assert_eq!(case.broken(&[]).await, ("body", position));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_changes_nothing_and_another_schema_is_refused_by_name() {
    let case = Case::new().await;
    let file = case.dir.path().join("outlast.db");
    let before = fs::read(&file).unwrap();
    case.audit(&[]).await;
    assert!(before == fs::read(&file).unwrap());
    let connection = Connection::open(&file).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let open = |dir: &Path| {
        let blobs = Arc::new(Folder::beside(dir.join("blobs")));
        Offline::open(dir, blobs, Handle::current())
    };
    let refused = open(case.dir.path()).unwrap_err();
    assert!(
        matches!(refused, OfflineError::Schema { found: 99, .. }),
        "{refused}"
    );
    let nowhere = tempfile::tempdir().unwrap();
    let refused = open(nowhere.path()).unwrap_err();
    assert!(matches!(refused, OfflineError::Missing(_)), "{refused}");
    assert_eq!(fs::read_dir(nowhere.path()).unwrap().count(), 0);
}

impl Case {
    /// Copies the directory, to be damaged.
    fn copy(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(self.dir.path(), dir.path());
        let (session, end) = (self.session, self.end);
        Self { dir, session, end }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
