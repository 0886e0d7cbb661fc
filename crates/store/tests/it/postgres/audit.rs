//! What an offline look at a Postgres finds, after every kind of damage.

use std::sync::Arc;

use outlast_protocol::id::SessionId;
use outlast_store::{
    Audit, End, Found, OfflineError, Onlooker as _,
    postgres::{Offline, Postgres},
};
use outlast_testkit::{postgres::Syncs, random::Seeded};
use tokio::{runtime::Handle, task::block_in_place};

use super::kit::Kit;
use crate::audit::eventful;

impl Kit {
    /// Opens a database to look at it.
    async fn offline(&self, database: &str) -> Result<Offline, OfflineError> {
        let (url, blobs) = (self.cluster.url(database), self.blobs("postgres"));
        Offline::open(&url, blobs, Arc::new(Seeded::new(99)), Handle::current()).await
    }

    async fn audit(&self, database: &str, session: SessionId, noted: &[End]) -> Audit {
        let offline = self.offline(database).await.unwrap();
        block_in_place(|| offline.audit(session, noted).unwrap())
    }

    /// Copies the database that nobody has open, and changes the copy behind everybody's back.
    fn damaged(&self, copy: &str, statement: &str) {
        let create = format!("CREATE DATABASE {copy} TEMPLATE postgres");
        self.cluster.tell_in("template1", &create).unwrap();
        let told = self.cluster.tell_in(copy, statement);
        assert!(told.is_some(), "{statement}");
    }
}

/// A database with one session of many records, and where that ends.
async fn lived(kit: &Kit) -> (SessionId, End) {
    let (store, world): (Postgres, _) = kit.world("postgres", "node").await;
    let session = eventful(&world).await;
    let whole = kit.audit("postgres", session, &[]).await;
    assert_eq!((&whole.found, whole.compared), (&Found::Whole, true));
    assert!(whole.end.tail > 500 && whole.erased == 0, "{whole:?}");
    // Beside its server: what comes meanwhile does not matter, and what was noted is still found.
    world.send(session, "more").await;
    let later = kit.audit("postgres", session, &[whole.end]).await;
    assert_eq!(later.found, Found::Whole);
    let deleted = world.session().await;
    let end = outlast_session::Proposal::Delete(world.key);
    world.propose(deleted, end).await.unwrap();
    assert_eq!(
        kit.audit("postgres", deleted, &[]).await.found,
        Found::Deleted
    );
    let gone = kit.audit("postgres", world.session_id(), &[]).await;
    assert_eq!(gone.found, Found::Gone);
    let offline = kit.offline("postgres").await.unwrap();
    block_in_place(|| {
        assert_eq!(offline.sessions().unwrap(), [session, deleted]);
        assert_eq!(offline.end(deleted).unwrap(), None);
        assert_eq!(offline.end(session).unwrap(), Some(later.end));
    });
    store.close().await;
    (session, later.end)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_found_where_it_is() {
    let kit = Kit::start(Syncs::None);
    let (session, end) = lived(&kit).await;
    let tail = end.tail;
    let of_record = [
        ("SET body = replace(body, 'n', 'm')", "body"),
        ("SET body = '{\"note\"'", "body"),
        ("SET salt = NULL", "untold"),
        ("SET body = NULL", "lost"),
        ("SET at = at + 1", "header"),
        ("SET thread = 1", "header"),
        ("SET origin = 's'", "header"),
        ("SET kind = 'x.of_the_future'", "unreadable"),
        ("SET hash = decode('0011', 'hex')", "unreadable"),
        ("SET public = NOT public", "projection"),
    ];
    let of_record = of_record.map(|(change, word)| {
        let statement = format!("UPDATE records {change} WHERE session_no = 1 AND position = 9");
        (statement, word, 9)
    });
    let beside = [
        (
            "DELETE FROM records WHERE session_no = 1 AND position = 9",
            "missing",
            9,
        ),
        (
            "UPDATE sessions SET state = 'nonsense' WHERE no = 1",
            "projection",
            tail,
        ),
        (
            "UPDATE sessions SET status = 'idle' WHERE no = 1",
            "projection",
            tail,
        ),
        (
            "UPDATE sessions SET epochs = '7' WHERE no = 1",
            "projection",
            tail,
        ),
        (
            "UPDATE threads SET holder = NULL WHERE session_no = 1",
            "projection",
            tail,
        ),
        ("DELETE FROM hands WHERE session_no = 1", "projection", tail),
        (
            "UPDATE sessions SET hash = decode('00', 'hex') || substr(hash, 2) WHERE no = 1",
            "head",
            tail,
        ),
        (
            "UPDATE sessions SET tail = tail + 1 WHERE no = 1",
            "cut",
            tail + 1,
        ),
    ];
    let beside = beside.map(|(text, word, at)| (text.to_owned(), word, at));
    for (number, (statement, word, at)) in of_record.into_iter().chain(beside).enumerate() {
        let copy = format!("copy_{number}");
        kit.damaged(&copy, &statement);
        let audit = kit.audit(&copy, session, &[]).await;
        let Found::Broken(damaged) = &audit.found else {
            panic!("{statement}: {audit:?}");
        };
        let found = (damaged.what.word(), damaged.position);
        assert_eq!(found, (word, at), "{statement}");
    }
    // A head that was noted elsewhere tells a tail that is gone with its head.
    let other = End {
        tail: 9,
        hash: [7; 32],
    };
    let rewritten = kit.audit("postgres", session, &[other]).await;
    assert!(
        matches!(rewritten.found, Found::Broken(ref found) if found.what.word() == "rewritten")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_tables_or_with_later_ones_is_refused() {
    let kit = Kit::start(Syncs::None);
    let schema = |refused: OfflineError| match refused {
        OfflineError::Schema { found, .. } => found,
        other @ (OfflineError::Missing(_) | OfflineError::Url(_) | OfflineError::Unreadable(_)) => {
            panic!("{other}")
        }
    };
    assert_eq!(schema(kit.offline("postgres").await.unwrap_err()), 0);
    // Looking makes nothing.
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(kit.cluster.tell(tables).as_deref(), Some("0"));
    kit.open("postgres", "node").await.unwrap().close().await;
    let later = "INSERT INTO outlast_migrations (version, name) VALUES (99, 'later')";
    kit.cluster.tell(later).unwrap();
    assert_eq!(schema(kit.offline("postgres").await.unwrap_err()), 99);
    let refused = kit.offline("not_there").await.unwrap_err();
    assert!(matches!(refused, OfflineError::Unreadable(_)), "{refused}");
}
