//! Receipts: what answers a repeat of an accepted request.

use std::time::Duration;

use outlast_protocol::Micros;
use outlast_session::{Proposal, Send};

use super::fixture::{World, input};
use crate::{Append, AppendError, Receipt, Reply, ResourceKind, Unless, WriteError};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    an_accepted_request_leaves_one(&world().await).await;
    a_fulfilled_wish_leaves_one(&world().await).await;
    a_refused_request_leaves_none(&world().await).await;
    objects_leave_theirs(&world().await).await;
    they_are_swept(&world().await).await;
    one_of_two_attempts_is_accepted(&world().await).await;
}

/// Attempts that do not know of each other, as those at two nodes: one is accepted.
async fn one_of_two_attempts_is_accepted(world: &World) {
    let (session, since) = (world.session().await, world.clock.now());
    let attempt = |number, unless| Receipt {
        attempt: number,
        unless,
        ..records(world, 1)
    };
    let send = async |receipt| {
        let (proposal, receipt) = (world.message("once"), Some(receipt));
        let sent = world.store.append(session, Append { proposal, receipt });
        sent.await.map(|outcome| outcome.state.tail)
    };
    let original = attempt(0, Unless::Later(world.clock.now()));
    world.pass(Duration::from_secs(1));
    let retry = attempt(1, Unless::Other(since));
    let tail = send(retry.clone()).await.unwrap();
    // The original was on its way somewhere else, and its retry was faster.
    let late = send(original).await.unwrap_err();
    assert!(matches!(late, AppendError::Answered), "{late}");
    // Or it came behind it, held up by whatever stood still.
    let later = attempt(0, Unless::Later(since));
    let late = send(later).await.unwrap_err();
    assert!(matches!(late, AppendError::Answered), "{late}");
    let third = attempt(2, Unless::Other(since));
    let again = send(third.clone()).await.unwrap_err();
    assert!(matches!(again, AppendError::Answered), "{again}");
    let new = world.resource(ResourceKind::Agent, "agent_a");
    let refused = world.store.insert(new, Some(third.clone())).await;
    assert!(matches!(refused, Err(WriteError::Answered)), "{refused:?}");
    assert_eq!(world.state(session).await.tail, tail);
    let found = world.store.receipt([1; 32], since).await.unwrap().unwrap();
    assert_eq!(found.attempt, 1);

    // An answer that arrived answers no retry, and a wish of its own is one.
    world.store.written_out([1; 32]).await.unwrap();
    assert_eq!(send(third).await.unwrap(), tail + 1);
    // Its repeats that are too old for it are of another chain.
    let after = world.pass(Duration::from_secs(1));
    let wish = attempt(0, Unless::Later(after));
    assert_eq!(send(wish).await.unwrap(), tail + 2);
    let keyed = attempt(7, Unless::Any(since));
    let known = send(keyed).await.unwrap_err();
    assert!(matches!(known, AppendError::Answered), "{known}");
    let keyed = attempt(7, Unless::Any(world.pass(Duration::from_secs(1))));
    assert_eq!(send(keyed).await.unwrap(), tail + 3, "the other is too old");
}

fn receipt(world: &World, print: u8, reply: Reply) -> Receipt {
    let (at, attempt) = (world.clock.now(), 0);
    Receipt {
        fingerprint: [print; 32],
        attempt,
        at,
        written: false,
        reply,
        unless: Unless::Never,
    }
}

fn records(world: &World, print: u8) -> Receipt {
    let session = world.session_id();
    receipt(
        world,
        print,
        Reply::Records {
            session,
            first: 0,
            last: 0,
        },
    )
}

async fn an_accepted_request_leaves_one(world: &World) {
    let session = world.session().await;
    let since = world.clock.now();
    let inputs = vec![input("one"), input("two")];
    let proposal = Proposal::Send(Send {
        inputs,
        by: world.key,
        claim: None,
    });
    let receipt = Some(Receipt {
        attempt: 2,
        ..records(world, 1)
    });
    world
        .store
        .append(session, Append { proposal, receipt })
        .await
        .unwrap();
    let found = world.store.receipt([1; 32], since).await.unwrap().unwrap();
    assert_eq!(
        found.reply,
        Reply::Records {
            session,
            first: 2,
            last: 3
        }
    );
    assert_eq!((found.attempt, found.written, found.at), (2, false, since));
    assert_eq!(
        world
            .store
            .receipt([1; 32], Micros(since.0 + 1))
            .await
            .unwrap(),
        None
    );
    assert_eq!(world.store.receipt([2; 32], since).await.unwrap(), None);

    world.store.written_out([1; 32]).await.unwrap();
    world.store.written_out([9; 32]).await.unwrap();
    assert!(
        world
            .store
            .receipt([1; 32], since)
            .await
            .unwrap()
            .unwrap()
            .written
    );

    // The same request again, as a wish of its own: the newest answer counts.
    let append = Append {
        proposal: world.message("three"),
        receipt: Some(records(world, 1)),
    };
    world.store.append(session, append).await.unwrap();
    let found = world.store.receipt([1; 32], since).await.unwrap().unwrap();
    assert_eq!(
        found.reply,
        Reply::Records {
            session,
            first: 4,
            last: 4
        }
    );
    assert!(!found.written);
}

/// A wish that was fulfilled already is accepted too, and appends nothing.
async fn a_fulfilled_wish_leaves_one(world: &World) {
    let since = world.clock.now();
    let archive = || Proposal::Archive(world.key);
    let other = world.session().await;
    world.propose(other, archive()).await.unwrap();
    let append = Append {
        proposal: archive(),
        receipt: Some(records(world, 3)),
    };
    let again = world.store.append(other, append).await.unwrap();
    assert!(again.records.is_empty());
    let tail = again.state.tail;
    let found = world.store.receipt([3; 32], since).await.unwrap().unwrap();
    let reply = Reply::Records {
        session: other,
        first: tail + 1,
        last: tail,
    };
    assert_eq!(found.reply, reply);
}

async fn a_refused_request_leaves_none(world: &World) {
    let session = world.session().await;
    world
        .propose(session, Proposal::Archive(world.key))
        .await
        .unwrap();
    let append = Append {
        proposal: world.message("late"),
        receipt: Some(records(world, 1)),
    };
    let error = world.store.append(session, append).await.unwrap_err();
    assert!(matches!(error, AppendError::Refused(_)), "{error}");
    assert_eq!(world.store.receipt([1; 32], Micros(0)).await.unwrap(), None);
}

async fn objects_leave_theirs(world: &World) {
    let new = world.resource(ResourceKind::Agent, "agent_a");
    let reply = Reply::Body("{\"id\":\"agent_a\"}".to_owned());
    let first = receipt(world, 1, reply.clone());
    world
        .store
        .insert(new.clone(), Some(first.clone()))
        .await
        .unwrap();
    assert_eq!(
        world.store.receipt([1; 32], Micros(0)).await.unwrap(),
        Some(first)
    );
    let late = receipt(world, 2, reply);
    let error = world.store.insert(new, Some(late)).await.unwrap_err();
    assert!(matches!(error, WriteError::Moved { .. }), "{error}");
    assert_eq!(world.store.receipt([2; 32], Micros(0)).await.unwrap(), None);
}

async fn they_are_swept(world: &World) {
    let session = world.session().await;
    for print in 1..=5 {
        let proposal = world.message(&print.to_string());
        let receipt = Some(records(world, print));
        world
            .store
            .append(session, Append { proposal, receipt })
            .await
            .unwrap();
        world.pass(Duration::from_secs(60));
    }
    let before = Micros(world.clock.now().0 - 120_000_000);
    assert_eq!(world.store.sweep_receipts(before).await.unwrap(), 3);
    assert_eq!(world.store.sweep_receipts(before).await.unwrap(), 0);
    for (print, there) in [(3, false), (4, true)] {
        let found = world.store.receipt([print; 32], Micros(0)).await.unwrap();
        assert_eq!(found.is_some(), there, "{print}");
    }
}
