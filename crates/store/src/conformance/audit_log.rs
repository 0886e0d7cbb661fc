//! Who did what: lines are added in order, and outcomes find their entries.

use std::{sync::Arc, time::Duration};

use outlast_protocol::{
    Micros,
    audit::{Actor, AuditEntry, AuditOutcome, Ended, Entry},
    id::{ApiKeyId, RequestId},
};
use tokio::time::sleep;

use super::fixture::World;
use crate::{AuditLine, AuditQuery, Order, Trim};

/// How long lines may take that nothing else is written with.
const SOON: Duration = Duration::from_secs(5);

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    lines_are_kept_in_their_order(&world().await).await;
    outcomes_find_their_entries(&world().await).await;
    what_is_written_later_comes_with_them(&world().await).await;
    lists_have_filters_and_pages(&world().await).await;
}

/// Runs what operators alone may do.
pub(super) async fn run_trim<T: Trim>(world: &impl AsyncFn() -> (World, Arc<T>)) {
    let (world, store) = world().await;
    old_entries_go_and_that_is_told(&world, &*store).await;
}

fn entry(world: &World, action: &str) -> Entry {
    Entry::new(world.clock.now(), Actor::Key(world.key), action)
}

fn all() -> AuditQuery {
    AuditQuery {
        actor: None,
        action: None,
        subject: None,
        since: None,
        until: None,
        order: Order::Forwards,
        after: None,
        limit: 1_000,
    }
}

async fn add(world: &World, entries: &[Entry]) {
    let lines = entries.iter().cloned().map(AuditLine::Entry).collect();
    world.store.audit(lines).await.unwrap();
}

/// Lists once so many are there.
async fn listed(world: &World, count: usize) -> Vec<AuditEntry> {
    let tries = SOON.as_millis() / 10;
    for _ in 0..tries {
        let found = world.store.audit_log(&all()).await.unwrap().items;
        if found.len() >= count {
            return found;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{count} entries do not come");
}

async fn lines_are_kept_in_their_order(world: &World) {
    let full = Entry {
        request_id: Some(RequestId::mint(world.clock.now(), &*world.entropy)),
        outcome: Some(AuditOutcome::Refused),
        status: Some(403),
        ..entry(world, "POST /v1/agents")
            .of("agent_1")
            .with("host", "a.example")
    };
    let bare = Entry {
        actor: Actor::Cli,
        ..entry(world, "keys.create")
    };
    add(world, &[full.clone(), bare.clone()]).await;
    add(world, std::slice::from_ref(&full)).await;
    let found = listed(world, 3).await;
    let entries: Vec<&Entry> = found.iter().map(|found| &found.entry).collect();
    assert_eq!(entries, [&full, &bare, &full]);
    assert!(found.is_sorted_by(|one, next| one.position < next.position));
}

async fn outcomes_find_their_entries(world: &World) {
    let requests = [1, 2, 3].map(|_| RequestId::mint(world.clock.now(), &*world.entropy));
    let [made, refused, unknown] = requests.map(|id| Entry {
        request_id: Some(id),
        ..entry(world, "POST /v1/sessions").of("parent")
    });
    add(world, &[made.clone(), refused.clone(), unknown.clone()]).await;
    let ended = |request_id, status, outcome, subject_id| {
        AuditLine::Ended(Ended {
            request_id,
            outcome,
            status,
            subject_id,
        })
    };
    let [first, second, _] = requests;
    let child = Some("child".to_owned());
    world
        .store
        .audit(vec![
            ended(first, 200, AuditOutcome::Done, child),
            ended(second, 404, AuditOutcome::Refused, None),
            ended(first, 500, AuditOutcome::Failed, None),
        ])
        .await
        .unwrap();
    // Behind them, so that they are there too.
    add(world, &[entry(world, "last")]).await;
    let found = listed(world, 4).await;
    let shown: Vec<_> = found
        .iter()
        .map(|found| {
            (
                found.entry.outcome,
                found.entry.status,
                found.entry.subject_id.as_deref(),
            )
        })
        .collect();
    let expected = [
        (Some(AuditOutcome::Done), Some(200), Some("child")),
        (Some(AuditOutcome::Refused), Some(404), Some("parent")),
        (None, None, Some("parent")),
        (None, None, None),
    ];
    assert_eq!(shown, expected);
    for (subject, count) in [("child", 1), ("parent", 3), ("nobody", 0)] {
        let query = AuditQuery {
            subject: Some(subject.to_owned()),
            ..all()
        };
        let found = world.store.audit_log(&query).await.unwrap();
        assert_eq!(found.items.len(), count, "{subject}");
    }
}

async fn what_is_written_later_comes_with_them(world: &World) {
    for count in 1..=20 {
        add(world, &[entry(world, "POST /v1/sessions")]).await;
        world.session().await;
        let found = world.store.audit_log(&all()).await.unwrap();
        assert_eq!(found.items.len(), count, "as soon as the session is there");
    }
}

async fn lists_have_filters_and_pages(world: &World) {
    let other = ApiKeyId::mint(world.clock.now(), &*world.entropy);
    let mut expected = Vec::new();
    for number in 0..9 {
        let at = world.pass(Duration::from_secs(1));
        let actor = if number % 3 == 0 {
            Actor::Key(other)
        } else {
            Actor::Cli
        };
        let action = if number % 2 == 0 {
            "keys.create"
        } else {
            "keys.revoke"
        };
        let one = Entry::new(at, actor, action);
        add(world, std::slice::from_ref(&one)).await;
        expected.push(one);
    }
    listed(world, 9).await;
    let moment = |number: usize| Some(expected[number].at);
    let cases = [
        (all(), (0..9).collect::<Vec<_>>()),
        (
            AuditQuery {
                actor: Some(other.to_string()),
                ..all()
            },
            vec![0, 3, 6],
        ),
        (
            AuditQuery {
                action: Some("keys.rev".to_owned()),
                ..all()
            },
            vec![1, 3, 5, 7],
        ),
        (
            AuditQuery {
                actor: Some("cli".to_owned()),
                action: Some("keys.create".to_owned()),
                since: moment(3),
                until: moment(8),
                ..all()
            },
            vec![4, 8],
        ),
    ];
    for (query, mut wanted) in cases {
        for order in [Order::Forwards, Order::Backwards] {
            for limit in [1, 2, 100] {
                let query = AuditQuery {
                    order,
                    limit,
                    ..query.clone()
                };
                let found = pages(world, query.clone()).await;
                let wanted: Vec<&Entry> = wanted.iter().map(|no: &usize| &expected[*no]).collect();
                assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{query:?}");
            }
            wanted.reverse();
        }
    }
}

async fn pages(world: &World, mut query: AuditQuery) -> Vec<Entry> {
    let mut found = Vec::new();
    loop {
        let page = world.store.audit_log(&query).await.unwrap();
        assert!(page.items.len() <= query.limit);
        query.after = page.items.last().map(|last| last.position);
        found.extend(page.items.into_iter().map(|item| item.entry));
        if !page.more {
            return found;
        }
    }
}

async fn old_entries_go_and_that_is_told(world: &World, store: &impl Trim) {
    let request = RequestId::mint(world.clock.now(), &*world.entropy);
    let old = Entry {
        request_id: Some(request),
        ..entry(world, "old")
    };
    add(world, &[old, entry(world, "old too")]).await;
    let now = world.pass(Duration::from_secs(60));
    let young = entry(world, "young");
    add(world, std::slice::from_ref(&young)).await;
    listed(world, 3).await;
    let by = Entry::new(now, Actor::Server, "audit.trim");
    let none = store.trim(Micros(0), by.clone()).await.unwrap();
    assert_eq!(
        (none, listed(world, 3).await.len()),
        (0, 3),
        "nothing is old"
    );
    assert_eq!(store.trim(now, by.clone()).await.unwrap(), 2);
    let told = by.with("before", now.to_string()).with("entries", 2);
    let left = listed(world, 2).await;
    let left: Vec<Entry> = left.into_iter().map(|found| found.entry).collect();
    assert_eq!(left, [young, told]);
    // Its outcome went with it.
    let again = Entry {
        request_id: Some(request),
        ..entry(world, "again")
    };
    add(world, std::slice::from_ref(&again)).await;
    let found = listed(world, 3).await;
    assert_eq!(found.last().map(|found| &found.entry), Some(&again));
}
