//! Slices in both directions with every filter, and finding a place in a log.

use std::time::Duration;

use outlast_protocol::Micros;
use outlast_session::{Kind, Record};

use super::fixture::{World, note};
use crate::{Order, ReadError, Slice};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    slices_are_the_same_for_ever(&world().await).await;
    slices_have_bounds(&world().await).await;
    events_are_found(&world().await).await;
    moments_are_found(&world().await).await;
    nothing_is_read_of_nobody(&world().await).await;
}

/// What a slice has to be, from the whole log.
fn expected(log: &[Record], slice: &Slice) -> Vec<u64> {
    let fits = |record: &&Record| {
        let side = match slice.order {
            Order::Forwards => record.position > slice.from,
            Order::Backwards => record.position < slice.from,
        };
        let shown = !slice.public || record.kind.is_public();
        let kind = slice.kinds.is_empty() || slice.kinds.contains(&record.kind);
        side && shown && kind && slice.thread.is_none_or(|thread| thread == record.thread)
    };
    let mut found: Vec<u64> = log
        .iter()
        .filter(fits)
        .map(|record| record.position)
        .collect();
    if slice.order == Order::Backwards {
        found.reverse();
    }
    found.truncate(slice.limit);
    found
}

fn positions(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.position).collect()
}

async fn slices_are_the_same_for_ever(world: &World) {
    let mut brain = world.running().await;
    for number in 0..12 {
        brain.say(note(&number.to_string())).await.unwrap();
        world.send(brain.session, &number.to_string()).await;
    }
    world.asks(&mut brain).await;
    let log = world.log(brain.session).await;
    let end = log.len() as u64;
    let kinds = [
        vec![],
        vec![Kind::UserMessage],
        vec![
            Kind::Noted,
            Kind::UserMessage,
            Kind::Noted,
            Kind::SessionRunning,
        ],
        vec![Kind::ArrivedMessage, Kind::ThreadRunning],
        vec![Kind::AgentToolUse],
        vec![Kind::Response, Kind::ArrivedMessage, Kind::AgentToolResult],
    ];
    for from in [0, 1, 2, end / 2, end, end + 1, u64::MAX] {
        for order in [Order::Forwards, Order::Backwards] {
            for (public, thread) in [
                (false, None),
                (true, None),
                (false, Some(0)),
                (true, Some(1)),
            ] {
                for kinds in &kinds {
                    for limit in [0, 1, 5, 1000] {
                        let kinds = kinds.clone();
                        let slice = Slice {
                            from,
                            order,
                            limit,
                            bytes: 0,
                            public,
                            kinds,
                            thread,
                        };
                        let found = world
                            .store
                            .read(brain.session, slice.clone())
                            .await
                            .unwrap();
                        assert_eq!(positions(&found), expected(&log, &slice), "{slice:?}");
                    }
                }
            }
        }
    }
}

async fn slices_have_bounds(world: &World) {
    let mut brain = world.running().await;
    for _ in 0..6 {
        brain.say(note(&"n".repeat(1_000))).await.unwrap();
    }
    let tail = world.state(brain.session).await.tail;
    let notes = |bytes| {
        let mut slice = Slice::after(tail - 6, 100);
        slice.bytes = bytes;
        world.store.read(brain.session, slice)
    };
    assert_eq!(notes(0).await.unwrap().len(), 6);
    assert_eq!(notes(1).await.unwrap().len(), 1);
    assert_eq!(notes(3_500).await.unwrap().len(), 3);
}

async fn events_are_found(world: &World) {
    let brain = world.running().await;
    let log = world.log(brain.session).await;
    let placed = log
        .iter()
        .find(|record| record.kind == Kind::UserMessage)
        .unwrap();
    let found = world
        .store
        .find(brain.session, placed.event.unwrap())
        .await
        .unwrap();
    assert_eq!((found.position, found.hash), (placed.position, placed.hash));

    let sent = world.send(brain.session, "waits").await;
    let waiting = sent.records[0].event.unwrap();
    let found = world.store.find(brain.session, waiting).await.unwrap();
    assert_eq!(found.kind, Kind::ArrivedMessage);

    let nobody = world
        .store
        .find(brain.session, world.event())
        .await
        .unwrap_err();
    assert!(matches!(nobody, ReadError::NotFound(_)), "{nobody}");
    let other = world.session().await;
    let elsewhere = world.store.find(other, waiting).await.unwrap_err();
    assert!(matches!(elsewhere, ReadError::NotFound(_)), "{elsewhere}");
}

async fn moments_are_found(world: &World) {
    let start = world.clock.now();
    let session = world.session().await;
    for number in 0..9 {
        if number % 3 != 0 {
            world.pass(Duration::from_secs(10));
        }
        world.send(session, &number.to_string()).await;
    }
    let log = world.log(session).await;
    for seconds in [-1, 0, 5, 10, 15, 20, 25, 40, 59, 60, 1_000] {
        let at = Micros(start.0 + seconds * 1_000_000);
        let last = log
            .iter()
            .rfind(|record| record.at <= at)
            .map_or(0, |record| record.position);
        assert_eq!(
            world.store.position_at(session, at).await.unwrap(),
            last,
            "{seconds} s"
        );
    }
}

async fn nothing_is_read_of_nobody(world: &World) {
    let (nobody, event) = (world.session_id(), world.event());
    let errors = [
        world.store.head(nobody).await.unwrap_err(),
        world
            .store
            .read(nobody, Slice::after(0, 1))
            .await
            .unwrap_err(),
        world.store.find(nobody, event).await.unwrap_err(),
        world
            .store
            .position_at(nobody, Micros(0))
            .await
            .unwrap_err(),
        world.store.watch(nobody).await.unwrap_err(),
        world.store.snapshot(nobody, 0, "a").await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(&error, ReadError::NotFound(id) if *id == nobody.to_string()),
            "{error}"
        );
    }
}
