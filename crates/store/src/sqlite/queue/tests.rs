use std::sync::Arc;

use outlast_blobs::Away;
use outlast_protocol::{
    Micros,
    id::{ApiKeyId, SessionId},
};
use outlast_session::Proposal;
use outlast_testkit::random::Constant;
use tokio::sync::oneshot;

use super::*;
use crate::{Append, sqlite::job::Task};

fn session(number: u8) -> SessionId {
    SessionId::mint(Micros(0), &Constant(number))
}

/// An append that is known by its size.
fn append(number: u8, size: usize) -> AppendJob {
    let proposal = Proposal::Archive(ApiKeyId::mint(Micros(0), &Constant(0)));
    AppendJob {
        session: session(number),
        append: Append {
            proposal,
            receipt: None,
        },
        staged: Ok(Vec::new()),
        size,
        large: 0,
        since: Instant::now(),
        reply: oneshot::channel().0,
    }
}

fn write() -> Job {
    Task::job(|_| Ok(Ok(()))).0
}

/// Takes a batch without waiting; returns the sizes of its appends, 0 for another write.
fn batch(queue: &Queue) -> Vec<usize> {
    let taken = queue.take(Some(Duration::ZERO), Background::Last);
    let Taken::Batch(batch) = taken else {
        panic!("{taken:?}")
    };
    batch.iter().map(size).collect()
}

fn size(job: &Job) -> usize {
    match job {
        Job::Append(job) => job.size,
        Job::Write(_) => 0,
    }
}

fn nothing(queue: &Queue) -> bool {
    matches!(
        queue.take(Some(Duration::ZERO), Background::Last),
        Taken::Nothing
    )
}

#[test]
fn a_batch_has_bounds() {
    let queue = Queue::default();
    for number in 0..600 {
        queue.push_append(append(1, number)).unwrap();
    }
    assert_eq!(batch(&queue), (0..512).collect::<Vec<_>>());
    assert_eq!(batch(&queue), (512..600).collect::<Vec<_>>());
    for size in [3_000_000, 1_000_000, 1_000_000, 9_000_000, 1] {
        queue.push_append(append(1, size)).unwrap();
    }
    assert_eq!(batch(&queue), [3_000_000, 1_000_000]);
    assert_eq!(batch(&queue), [1_000_000]);
    assert_eq!(batch(&queue), [9_000_000], "one that is larger goes alone");
    assert_eq!(batch(&queue), [1]);
    assert!(nothing(&queue));
}

#[test]
fn a_session_waits_for_its_bodies_in_order() {
    let queue = Queue::default();
    let first = queue.push_staging(append(1, 10)).unwrap();
    queue.push_append(append(1, 11)).unwrap();
    let second = queue.push_staging(append(1, 12)).unwrap();
    queue.push_append(append(1, 13)).unwrap();
    queue.push_append(append(2, 20)).unwrap();
    assert_eq!(batch(&queue), [20]);
    queue.staged(second, Ok(Vec::new()));
    assert!(nothing(&queue), "the first is not there yet");
    queue.staged(first, Err(Away::full("no room")));
    assert_eq!(batch(&queue), [10, 11, 12, 13]);
    queue.push_append(append(1, 14)).unwrap();
    assert_eq!(batch(&queue), [14], "nothing is left behind");
    assert_eq!(queue.lock().lines.len(), 0);
}

#[test]
fn work_in_no_hurry_goes_between_batches() {
    let queue = Queue::default();
    queue.push_background(write()).unwrap();
    queue.push_append(append(1, 1)).unwrap();
    assert_eq!(batch(&queue), [1]);
    queue.push_append(append(1, 2)).unwrap();
    let first = queue.take(None, Background::First);
    assert!(
        matches!(first, Taken::Background(_)),
        "it has waited long enough"
    );
    assert_eq!(batch(&queue), [2]);
}

#[test]
fn riders_go_along_or_leave_after_a_while() {
    let queue = Queue::default();
    queue.push_rider(write()).unwrap();
    assert!(nothing(&queue), "it waits for company");
    queue.push_append(append(1, 1)).unwrap();
    assert_eq!(batch(&queue), [1, 0]);
    queue.push_rider(write()).unwrap();
    let alone = queue.take(None, Background::Last);
    assert!(matches!(alone, Taken::Batch(batch) if batch.len() == 1));
    assert!(nothing(&queue));
}

#[test]
fn lingering_ends_with_the_last_that_was_waited_for() {
    let queue = Arc::new(Queue::default());
    queue.push_append(append(1, 1)).unwrap();
    let Taken::Batch(mut batch) = queue.take(None, Background::Last) else {
        panic!()
    };
    let other = queue.clone();
    let pushing = std::thread::spawn(move || {
        for size in 2..=4 {
            other.push_append(append(1, size)).unwrap();
        }
    });
    queue.linger(&mut batch, 4, Duration::from_secs(600));
    pushing.join().unwrap();
    assert_eq!(batch.iter().map(size).collect::<Vec<_>>(), [1, 2, 3, 4]);
    queue.linger(&mut batch, 9, Duration::ZERO);
    assert_eq!(batch.len(), 4, "no patience, no wait");
}

#[test]
fn closing_drops_what_waits() {
    let queue = Queue::default();
    let (reply, mut answer) = oneshot::channel();
    queue
        .push_append(AppendJob {
            reply,
            ..append(1, 1)
        })
        .unwrap();
    let ticket = queue.push_staging(append(2, 1)).unwrap();
    queue.close();
    assert!(matches!(
        answer.try_recv(),
        Err(oneshot::error::TryRecvError::Closed)
    ));
    assert!(matches!(
        queue.push_append(append(1, 1)),
        Err(Turned::Closed)
    ));
    assert!(matches!(
        queue.push_background(write()),
        Err(Turned::Closed)
    ));
    queue.staged(ticket, Ok(Vec::new()));
    assert!(matches!(queue.take(None, Background::Last), Taken::Closed));
}

#[test]
fn too_much_is_turned_away() {
    let queue = Queue::default();
    for number in (0..32).cycle().take(WAITING.writes) {
        queue.push_append(append(number, 1)).unwrap();
    }
    let turned = queue.push_append(append(99, 1));
    assert_eq!(turned, Err(Turned::Full));
    assert!(matches!(
        queue.push_staging(append(99, 1)),
        Err(Turned::Full)
    ));
    assert_eq!(queue.push_rider(write()), Err(Turned::Full));
    assert_eq!(queue.push_background(write()), Err(Turned::Full));
    batch(&queue);
    queue.push_append(append(99, 1)).unwrap();
}
