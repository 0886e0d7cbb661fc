//! What was erased is in no byte of the data directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use outlast_blobs::{Blobs as _, Folder, Key};
use outlast_protocol::id::SessionId;
use outlast_session::{Act, Erase, Erasure, Input, Kind, Proposal, Send, Step, json, remains};
use outlast_store::{
    Blob, INLINE, Snapshot,
    conformance::fixture::{World, note},
};
use rusqlite::Connection;

use crate::kit::Kit;

/// Stands in every body that is erased.
const CANARY: &str = "canary-of-the-erased";

/// Returns the files below a folder that have the canary.
fn found(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(self::found(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            let has = bytes
                .windows(CANARY.len())
                .any(|part| part == CANARY.as_bytes());
            found.extend(has.then_some(path));
        }
    }
    found
}

/// Messages of many sizes, among others that stay: in the row, over several pages, in a blob.
pub(crate) async fn said(world: &World) -> SessionId {
    let session = world.session().await;
    for size in [
        1,
        40,
        900,
        3_000,
        4_050,
        9_000,
        60_000,
        INLINE + 1,
        3 * INLINE,
    ] {
        for words in [CANARY, "stays"] {
            let text = format!("{words} ").repeat(size / words.len() + 1);
            world.send(session, &text).await;
        }
    }
    let mut brain = world.brain(session).await;
    for number in 0..50 {
        brain.say(note(&format!("note {number}"))).await.unwrap();
    }
    brain.say(Step::Release).await.unwrap();
    stop(world, session).await;
    session
}

/// Ends the turn of a session that nobody works on.
async fn stop(world: &World, session: SessionId) {
    let body = json(&serde_json::json!({}));
    let act = Act::Interrupt { thread: None };
    let interrupt = Send {
        inputs: vec![Input { act, body }],
        by: world.key,
        claim: None,
    };
    let ended = world.propose(session, Proposal::Send(interrupt)).await;
    ended.unwrap();
}

/// Makes the proposal to erase every message that has the canary.
pub(crate) async fn wish(world: &World, session: SessionId) -> (Proposal, Vec<[u8; 32]>) {
    let (mut erasures, mut digests) = (Vec::new(), Vec::new());
    for record in world.log(session).await {
        let text = record.body.text();
        if let Some(event) = record.event.filter(|_| text.contains(CANARY)) {
            let remains = remains(record.kind, text, &|_| true).unwrap();
            let (position, kind) = (record.position, record.kind);
            digests.push(record.digest);
            erasures.push(Erasure {
                position,
                kind,
                event,
                remains,
            });
        }
    }
    let because = "a canary".to_owned();
    let by = Some(world.key);
    let wish = Erase {
        erasures,
        because,
        by,
    };
    (Proposal::Erase(wish), digests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_is_left_of_what_was_erased() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let session = said(&world).await;
    let snapshot = Snapshot {
        session,
        thread: 0,
        name: "whole/1".to_owned(),
        position: world.state(session).await.tail,
        body: CANARY.repeat(10_000).into_bytes(),
    };
    kit.subject().store.save_snapshot(snapshot).await.unwrap();
    let files = found(dir.path());
    assert!(files.len() > 2, "it was there: {files:?}");

    let (wish, digests) = wish(&world, session).await;
    world.propose(session, wish).await.unwrap();
    let loose = world.store.loose_blobs(100).await.unwrap();
    assert_eq!(loose.len(), 2, "one for each body, not for each record");
    let blobs = Folder::beside(dir.path().join("blobs"));
    for blob in loose {
        let Blob::Session { key, .. } = &blob else {
            panic!("{blob:?}");
        };
        assert!(
            digests
                .iter()
                .any(|digest| Blob::of_body(session, digest) == blob)
        );
        blobs
            .delete(&Key::new(key.as_str()).unwrap())
            .await
            .unwrap();
        world.store.forget_blob(blob).await.unwrap();
    }
    world.store.scrub().await.unwrap();
    assert_eq!(found(dir.path()), Vec::<PathBuf>::new());
    let log = world.log(session).await;
    assert!(log.iter().any(|record| record.kind == Kind::Erased));
    assert!(
        log.iter()
            .any(|record| record.body.text().contains("stays stays"))
    );
    kit.store.close().await;
    assert_eq!(found(dir.path()), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stays_is_waited_for_and_a_crash_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let session = world.session().await;
    world.send(session, CANARY).await;
    let mut brain = world.brain(session).await;
    brain.say(Step::Release).await.unwrap();
    stop(&world, session).await;
    let reader = Connection::open(dir.path().join("outlast.db")).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = |reader: &Connection| -> i64 {
        let text = "SELECT count(*) FROM records";
        reader.query_row(text, [], |row| row.get(0)).unwrap()
    };
    count(&reader);
    let (wish, _) = wish(&world, session).await;
    world.propose(session, wish).await.unwrap();
    let others = async {
        // Others write meanwhile, and at some time nobody reads any more.
        world.send(session, "stays").await;
        reader.execute_batch("COMMIT").unwrap();
    };
    let (scrubbed, ()) = tokio::join!(world.store.scrub(), others);
    scrubbed.unwrap();
    let files = found(dir.path());
    assert_eq!(files, Vec::<PathBuf>::new());
    kit.store.close().await;
}
