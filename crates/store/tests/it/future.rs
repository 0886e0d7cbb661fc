//! Records that a later program wrote.

use outlast_session::Kind;
use outlast_store::{
    ReadError, Slice,
    conformance::fixture::{World, note},
};
use rusqlite::Connection;

use crate::kit::Kit;

/// Makes a log and has a later program write the record of one kind.
async fn with(statement: &str) -> (tempfile::TempDir, World, outlast_protocol::id::SessionId) {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let mut brain = world.running().await;
    brain.say(note("a note")).await.unwrap();
    let session = brain.session;
    kit.store.close().await;
    let connection = Connection::open(dir.path().join("outlast.db")).unwrap();
    assert_eq!(connection.execute(statement, []).unwrap(), 1);
    drop(connection);
    let world = Kit::open(dir.path(), 2).await.unwrap().world().await;
    (dir, world, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_known_is_refused_by_name_and_nothing_else_is() {
    for (statement, words) in [
        (
            "UPDATE records SET version = 2 WHERE kind = 'x.noted'",
            "record kind `x.noted` in version 2 is not known to this version, which knows it up to \
             version 1",
        ),
        (
            "UPDATE records SET kind = 'x.teleported' WHERE kind = 'x.noted'",
            "record kind `x.teleported` is not known to this version",
        ),
    ] {
        let (_dir, world, session) = with(statement).await;
        let read = async |slice| world.store.read(session, slice).await;
        match read(Slice::after(0, 100)).await {
            Err(ReadError::Unreadable(told)) => assert_eq!(told, words),
            other => panic!("{other:?}"),
        }
        // What stands beside it is read, and so is every other session.
        let message = Slice {
            kinds: vec![Kind::UserMessage],
            ..Slice::after(0, 100)
        };
        assert_eq!(read(message).await.unwrap().len(), 1);
        let other = world.session().await;
        world.send(other, "hello").await;
        assert_eq!(world.log(other).await.len(), 2);
    }
}
