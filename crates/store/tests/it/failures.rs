//! One write that fails costs its neighbours nothing.

use std::path::Path;

use futures::future::join_all;
use outlast_store::{Append, AppendError, Log as _, verify};
use rusqlite::Connection;

use crate::kit::Kit;

fn beside(dir: &Path) -> Connection {
    Connection::open(dir.join("outlast.db")).unwrap()
}

/// The database refuses one record by a trigger, in the middle of a batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_culprit_of_a_batch_fails() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(world.session().await);
    }
    let beside = beside(dir.path());
    let trigger = "CREATE TRIGGER poison BEFORE INSERT ON records WHEN NEW.body LIKE '%poison%' \
                   BEGIN SELECT RAISE(ABORT, 'poisoned'); END";
    beside.execute_batch(trigger).unwrap();
    // While another connection writes, the writer waits, and what comes meanwhile is one batch.
    beside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let texts = (0..32).map(|number| if number == 17 { "poison" } else { "fine" });
    let sends: Vec<_> = (0..)
        .zip(texts)
        .map(|(number, text): (usize, _)| {
            let append = Append {
                proposal: world.message(text),
                receipt: None,
            };
            kit.store.append(sessions[number % 4], append)
        })
        .collect();
    beside.execute_batch("COMMIT").unwrap();
    let answers = join_all(sends).await;
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Ok(_) => assert_ne!(number, 17),
            Err(error) => {
                assert!(matches!(error, AppendError::Failed(_)), "{error}");
                assert_eq!(number, 17, "{error}");
            }
        }
    }
    for (number, session) in sessions.iter().enumerate() {
        let log = world.log(*session).await;
        verify(*session, &log).unwrap();
        assert_eq!(log.len(), if number == 1 { 8 } else { 9 });
    }
    // And the session of the culprit takes more.
    world.send(sessions[1], "fine again").await;
}

/// Dropping the answer withdraws nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_has_to_wait_for_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let session = world.session().await;
    for number in 0..10 {
        let proposal = world.message(&number.to_string());
        drop(kit.store.append(
            session,
            Append {
                proposal,
                receipt: None,
            },
        ));
    }
    assert_eq!(world.send(session, "last").await.state.tail, 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_store_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::open(dir.path(), 1).await.unwrap();
    let world = kit.world().await;
    let session = world.session().await;
    let pending: Vec<_> = (0..200)
        .map(|number| {
            let proposal = world.message(&number.to_string());
            kit.store.append(
                session,
                Append {
                    proposal,
                    receipt: None,
                },
            )
        })
        .collect();
    kit.store.close().await;
    let answers = join_all(pending).await;
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    let unavailable = |answer: &Result<_, AppendError>| {
        answer.as_ref().is_ok_and(|_| true) || matches!(answer, Err(AppendError::Unavailable(_)))
    };
    assert!(answers.iter().all(unavailable));
    let late = world
        .propose(session, world.message("late"))
        .await
        .unwrap_err();
    assert!(matches!(late, AppendError::Unavailable(_)), "{late}");
    world.store.probe().await.unwrap_err();
    world.store.head(world.session_id()).await.unwrap_err();

    // What was accepted is there, and nothing else; the directory is free again.
    let again = Kit::open(dir.path(), 2).await.unwrap();
    let state = again.store.head(session).await.unwrap();
    assert_eq!(state.tail, 1 + accepted as u64);
}
