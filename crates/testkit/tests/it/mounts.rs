//! Mounted files that cannot be brought into a hand: what the model is told of it, and how often.

use std::io::Cursor;

use outlast_blobs::{Blobs as _, Key};
use outlast_kernel::Schedule;
use outlast_protocol::{
    id::SessionId,
    session::{AddFile, MountPath},
};

use crate::{
    checkpoints::{results, state, turn, world},
    lives::{Life, World},
};

/// What a result says of files that are not there.
const TOLD: &str = "could not be brought into the sandbox";

/// Uploads a file and mounts it; returns where its content is stored.
async fn mount(life: &Life, session: SessionId, path: &str) -> Key {
    let kernel = &life.kernel;
    let received = kernel.receive(Box::pin(Cursor::new(b"a,b")));
    let received = received.await.unwrap();
    let name = ("a.csv".to_owned(), "text/csv".to_owned());
    let file = kernel.upload(&received, name, None);
    let file_id = file.id;
    kernel.keep(received, file, None).await.unwrap();
    let path = MountPath::parse(path).unwrap();
    let resource = kernel.mount_of(&AddFile { file_id, path });
    let mounted = kernel.mount(life.key, session, resource, None);
    mounted.await.unwrap();
    Key::new(format!("files/{file_id}")).unwrap()
}

/// What each result says of files that are not there.
async fn told(world: &World, session: SessionId) -> Vec<Option<String>> {
    let results = results(world, session).await;
    let fine = results
        .iter()
        .all(|text| text.contains("\"is_error\":false"));
    assert!(fine, "{results:?}");
    let told = results.into_iter();
    told.map(|text| text.contains(TOLD).then_some(text))
        .collect()
}

/// How many files the session's hand shows.
async fn shown(world: &World, life: &Life, session: SessionId) -> usize {
    use outlast_hands::Provisioner as _;
    let hand = state(life, session).await.hand.unwrap();
    let uploads = world.hands.uploads(hand.incarnation).await;
    uploads.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn one_that_is_gone_is_named_once_with_its_cause() {
    let (world, life, session) = world(Schedule::NEVER).await;
    let gone = mount(&life, session, "/in/gone.csv").await;
    mount(&life, session, "/in/there.csv").await;
    world.blobs.delete(&gone).await.unwrap();
    turn(&life, session).await;
    turn(&life, session).await;
    let told = told(&world, session).await;
    let [Some(first), None] = told.as_slice() else {
        panic!("not told once: {told:?}");
    };
    let named = "/mnt/session/uploads/in/gone.csv\\\": its content is no longer stored";
    assert!(first.contains(named), "{first}");
    assert!(!first.contains("there.csv"), "{first}");
    assert_eq!(shown(&world, &life, session).await, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_later_is_brought_and_one_that_goes_on_another_way_is_told_again() {
    let (world, life, session) = world(Schedule::NEVER).await;
    turn(&life, session).await;
    mount(&life, session, "/back.csv").await;
    // The next one has none yet.
    let hand = state(&life, session).await.hand.unwrap();
    world.hands.kill(hand.incarnation);
    let lost = mount(&life, session, "/lost.csv").await;
    world.blobs.fail(true);
    turn(&life, session).await;
    turn(&life, session).await;
    world.blobs.fail(false);
    world.blobs.delete(&lost).await.unwrap();
    turn(&life, session).await;
    turn(&life, session).await;
    let told = told(&world, session).await;
    let [None, Some(away), None, Some(gone), None] = told.as_slice() else {
        panic!("not told twice: {told:?}");
    };
    assert!(away.contains("lost.csv\\\": the place where files are stored cannot be read now"));
    assert!(
        !away.contains("told to fail"),
        "no words of the store: {away}"
    );
    assert!(gone.contains("lost.csv\\\": its content is no longer stored"));
    assert!(!gone.contains("back.csv"), "it is there by now: {gone}");
    assert_eq!(shown(&world, &life, session).await, 1);
}
