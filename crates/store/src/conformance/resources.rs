//! Plain objects: revisions, lists, references.

use std::time::Duration;

use outlast_session::{Proposal, json};
use serde_json::json;

use super::fixture::World;
use crate::{Order, ReadError, Resource, ResourceKind, ResourcePage, ResourceQuery, WriteError};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    revisions_stay(&world().await).await;
    an_amendment_is_no_revision(&world().await).await;
    one_of_two_writers_is_first(&world().await).await;
    lists_have_filters_and_pages(&world().await).await;
    what_a_session_names_stays(&world().await).await;
    world().await.store.probe().await.unwrap();
}

fn at(world: &World, revision: u64, text: &str) -> Resource {
    let body = json(&json!({ "text": text }));
    Resource {
        revision,
        body,
        ..world.resource(ResourceKind::Agent, "agent_a")
    }
}

fn texts(page: &ResourcePage) -> Vec<(u64, &str)> {
    page.items
        .iter()
        .map(|item| (item.revision, item.body.get()))
        .collect()
}

async fn revisions_stay(world: &World) {
    let kind = ResourceKind::Agent;
    let missing = world.store.get(kind, "agent_a", None).await.unwrap_err();
    assert!(matches!(missing, ReadError::NotFound(_)), "{missing}");
    world.store.insert(at(world, 1, "one"), None).await.unwrap();
    let made = world.clock.now();
    world.pass(Duration::from_secs(1));
    world
        .store
        .replace(at(world, 2, "two"), None)
        .await
        .unwrap();
    world
        .store
        .replace(at(world, 3, "three"), None)
        .await
        .unwrap();
    for (revision, text) in [
        (None, "three"),
        (Some(1), "one"),
        (Some(2), "two"),
        (Some(3), "three"),
    ] {
        let found = world.store.get(kind, "agent_a", revision).await.unwrap();
        assert_eq!(found.body.get(), json!({ "text": text }).to_string());
        assert_eq!(found.created_at, made, "all revisions are of one object");
    }
    for revision in [0, 4] {
        let missing = world
            .store
            .get(kind, "agent_a", Some(revision))
            .await
            .unwrap_err();
        assert!(matches!(missing, ReadError::NotFound(_)), "{missing}");
    }
    let elsewhere = world
        .store
        .get(ResourceKind::Environment, "agent_a", None)
        .await
        .unwrap_err();
    assert!(matches!(elsewhere, ReadError::NotFound(_)), "{elsewhere}");

    let list = |before, limit| world.store.revisions(kind, "agent_a", before, limit);
    let page = list(None, 2).await.unwrap();
    let expected = [(3, "{\"text\":\"three\"}"), (2, "{\"text\":\"two\"}")];
    assert_eq!((texts(&page), page.more), (expected.to_vec(), true));
    let page = list(Some(2), 2).await.unwrap();
    assert_eq!(
        (texts(&page), page.more),
        (vec![(1, "{\"text\":\"one\"}")], false)
    );
    assert_eq!(list(None, 3).await.unwrap().items.len(), 3);
    let missing = world
        .store
        .revisions(kind, "agent_b", None, 2)
        .await
        .unwrap_err();
    assert!(matches!(missing, ReadError::NotFound(_)), "{missing}");
}

async fn an_amendment_is_no_revision(world: &World) {
    world.store.insert(at(world, 1, "one"), None).await.unwrap();
    world
        .store
        .replace(at(world, 2, "two"), None)
        .await
        .unwrap();
    let now = world.pass(Duration::from_secs(5));
    let archived = Resource {
        archived_at: Some(now),
        ..at(world, 2, "two, archived")
    };
    world.store.amend(archived.clone(), None).await.unwrap();
    let found = world
        .store
        .get(ResourceKind::Agent, "agent_a", None)
        .await
        .unwrap();
    assert_eq!((found.revision, found.archived_at), (2, Some(now)));
    let page = world
        .store
        .revisions(ResourceKind::Agent, "agent_a", None, 9)
        .await
        .unwrap();
    assert_eq!(page.items.len(), 2);
    let stale = world
        .store
        .amend(at(world, 1, "stale"), None)
        .await
        .unwrap_err();
    assert!(
        matches!(stale, WriteError::Moved { revision: 2, .. }),
        "{stale}"
    );
}

async fn one_of_two_writers_is_first(world: &World) {
    world.store.insert(at(world, 1, "one"), None).await.unwrap();
    let (left, right) = tokio::join!(
        world.store.replace(at(world, 2, "left"), None),
        world.store.replace(at(world, 2, "right"), None)
    );
    let refused = match (left, right) {
        (Ok(()), Err(error)) | (Err(error), Ok(())) => error,
        other => panic!("exactly one may be first: {other:?}"),
    };
    let moved = matches!(&refused, WriteError::Moved { id, revision: 2 } if id == "agent_a");
    assert!(moved, "{refused}");
    let again = world
        .store
        .insert(at(world, 1, "again"), None)
        .await
        .unwrap_err();
    assert!(matches!(again, WriteError::Moved { .. }), "{again}");
    let nobody = Resource {
        id: "agent_b".to_owned(),
        ..at(world, 2, "two")
    };
    let missing = world.store.replace(nobody, None).await.unwrap_err();
    assert!(matches!(missing, WriteError::NotFound(id) if id == "agent_b"));
}

async fn lists_have_filters_and_pages(world: &World) {
    let kind = ResourceKind::Environment;
    let start = world.pass(Duration::from_secs(10));
    for number in 0..9 {
        if number % 2 == 0 {
            world.pass(Duration::from_secs(1));
        }
        let mut new = world.resource(kind, &format!("env_{number}"));
        new.archived_at = (number % 4 == 0).then(|| world.clock.now());
        world.store.insert(new, None).await.unwrap();
    }
    let second = |seconds| Some(start.after(Duration::from_secs(seconds)));
    let base = ResourceQuery {
        kind,
        parent: None,
        created_gte: Some(start),
        created_lte: None,
        archived: true,
        order: Order::Forwards,
        after: None,
        limit: 100,
    };
    let cases = [
        (base.clone(), vec![0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (
            ResourceQuery {
                archived: false,
                ..base.clone()
            },
            vec![1, 2, 3, 5, 6, 7],
        ),
        (
            ResourceQuery {
                created_gte: second(3),
                ..base.clone()
            },
            vec![4, 5, 6, 7, 8],
        ),
        (
            ResourceQuery {
                created_lte: second(2),
                ..base.clone()
            },
            vec![0, 1, 2, 3],
        ),
    ];
    for (query, mut wanted) in cases {
        for order in [Order::Forwards, Order::Backwards] {
            for limit in [1, 2, 100] {
                let query = ResourceQuery {
                    order,
                    limit,
                    ..query.clone()
                };
                assert_eq!(pages(world, query.clone()).await, wanted, "{query:?}");
            }
            wanted.reverse();
        }
    }
}

async fn pages(world: &World, mut query: ResourceQuery) -> Vec<u32> {
    let mut found = Vec::new();
    loop {
        let page = world.store.list(&query).await.unwrap();
        assert!(page.items.len() <= query.limit);
        let number = |item: &Resource| {
            item.id
                .strip_prefix("env_")
                .unwrap()
                .parse::<u32>()
                .unwrap()
        };
        found.extend(page.items.iter().map(number));
        if !page.more {
            return found;
        }
        query.after = page
            .items
            .last()
            .map(|item| (item.created_at, item.id.clone()));
    }
}

async fn what_a_session_names_stays(world: &World) {
    let (kind, id) = (ResourceKind::Environment, world.environment.to_string());
    let session = world.session().await;
    for (kind, id) in [
        (kind, id.clone()),
        (ResourceKind::Agent, world.agent.to_string()),
    ] {
        let error = world.store.remove(kind, &id).await.unwrap_err();
        assert!(
            matches!(&error, WriteError::Referenced(named) if *named == id),
            "{error}"
        );
    }
    world
        .propose(session, Proposal::Delete(world.key))
        .await
        .unwrap();
    world.store.remove(kind, &id).await.unwrap();
    let gone = world.store.remove(kind, &id).await.unwrap_err();
    assert!(matches!(gone, WriteError::NotFound(_)), "{gone}");
    let new = world.create();
    world
        .propose(new.id, Proposal::Create(Box::new(new)))
        .await
        .unwrap_err();
}
