//! Objects that belong to another: unique among its active ones, counted, and gone with it.

use std::time::Duration;

use futures::future::join_all;
use outlast_protocol::Micros;
use outlast_session::json;
use serde_json::json;

use super::fixture::World;
use crate::{Order, Resource, ResourceKind, ResourceQuery, SealedSecret, Sealing, WriteError};

/// Active ones at most.
const MOST: usize = 3;

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    a_key_is_one_active_wards(&world().await).await;
    of_many_at_once_only_so_many_come(&world().await).await;
    an_archived_parent_takes_none(&world().await).await;
    a_secret_changes_with_its_ward(&world().await).await;
    a_family_is_archived_whole_or_not(&world().await).await;
    none_comes_while_a_family_goes(&world().await).await;
    what_is_removed_leaves_no_secret(&world().await).await;
    a_parent_lists_its_own(&world().await).await;
}

/// A parent, and how to give it wards.
pub(super) struct Family<'a> {
    world: &'a World,
    parent: &'static str,
}

impl<'a> Family<'a> {
    pub(super) async fn found(world: &'a World) -> Self {
        Self::named(world, "parent").await
    }

    async fn named(world: &'a World, parent: &'static str) -> Self {
        let object = world.resource(ResourceKind::Vault, parent);
        world.store.insert(object, None).await.unwrap();
        Self { world, parent }
    }

    fn object(&self, id: &str, key: &str) -> Resource {
        Resource {
            parent: Some(self.parent.to_owned()),
            unique_key: Some(key.to_owned()),
            ..self.world.resource(ResourceKind::Credential, id)
        }
    }

    fn secret(&self, id: &str) -> SealedSecret {
        SealedSecret {
            owner: id.to_owned(),
            parent: self.parent.to_owned(),
            revision: 1,
            master: "first".to_owned(),
            sealed: vec![0, 255, 7],
        }
    }

    async fn insert(&self, id: &str, key: &str, most: usize) -> Result<(), WriteError> {
        let (object, secret) = (self.object(id, key), self.secret(id));
        self.world
            .store
            .insert_ward(object, secret, most, None)
            .await
    }

    /// Adds a ward with a key of its own.
    pub(super) async fn ward(&self, id: &str) -> SealedSecret {
        self.insert(id, id, 100).await.unwrap();
        self.secret(id)
    }

    fn archived(&self, id: &str, revision: u64) -> Resource {
        let body = json(&json!({ "id": id, "archived": true }));
        let archived_at = Some(self.world.clock.now());
        Resource {
            revision,
            archived_at,
            body,
            ..self.object(id, id)
        }
    }

    fn archived_parent(&self, revision: u64) -> Resource {
        Resource {
            revision,
            archived_at: Some(self.world.clock.now()),
            ..self.world.resource(ResourceKind::Vault, self.parent)
        }
    }

    async fn has_secret(&self, id: &str) -> bool {
        self.world.store.secret(id).await.unwrap().is_some()
    }

    async fn archived_at(&self, kind: ResourceKind, id: &str) -> (u64, Option<Micros>) {
        let found = self.world.store.get(kind, id, None).await.unwrap();
        (found.revision, found.archived_at)
    }
}

async fn a_key_is_one_active_wards(world: &World) {
    let family = Family::found(world).await;
    let other = Family::named(world, "other").await;
    family.insert("a", "key", MOST).await.unwrap();
    let stored = world
        .store
        .get(ResourceKind::Credential, "a", None)
        .await
        .unwrap();
    assert_eq!(
        (stored.parent.as_deref(), stored.unique_key.as_deref()),
        (Some("parent"), Some("key"))
    );
    assert!(family.has_secret("a").await);
    let taken = family.insert("b", "key", MOST).await.unwrap_err();
    assert!(
        matches!(&taken, WriteError::Taken(by) if by == "a"),
        "{taken}"
    );
    assert!(!family.has_secret("b").await, "nothing of it was written");
    other.insert("c", "key", MOST).await.unwrap();
    let change = Resource {
        unique_key: Some("key".to_owned()),
        ..family.archived("a", 2)
    };
    world
        .store
        .replace_ward(change, Sealing::Purged, None)
        .await
        .unwrap();
    assert!(!family.has_secret("a").await);
    family.insert("b", "key", MOST).await.unwrap();
}

async fn of_many_at_once_only_so_many_come(world: &World) {
    let family = Family::found(world).await;
    let names: Vec<String> = (0..8).map(|number| format!("w{number}")).collect();
    let came = names.iter().map(|name| family.insert(name, name, MOST));
    let came = join_all(came).await;
    let full = |one: &Result<(), WriteError>| matches!(one, Err(WriteError::Full(MOST)));
    assert_eq!(came.iter().filter(|one| one.is_ok()).count(), MOST);
    assert_eq!(came.iter().filter(|one| full(one)).count(), 8 - MOST);
    let same = (0..8)
        .map(|number| format!("s{number}"))
        .collect::<Vec<_>>();
    let family = Family::named(world, "other").await;
    let came = same.iter().map(|name| family.insert(name, "key", MOST));
    let came = join_all(came).await;
    let taken = |one: &Result<(), WriteError>| matches!(one, Err(WriteError::Taken(_)));
    assert_eq!(came.iter().filter(|one| one.is_ok()).count(), 1);
    assert_eq!(came.iter().filter(|one| taken(one)).count(), 7);
}

async fn an_archived_parent_takes_none(world: &World) {
    let nowhere = Family {
        world,
        parent: "nowhere",
    };
    let missing = nowhere.insert("a", "a", MOST).await.unwrap_err();
    assert!(
        matches!(&missing, WriteError::NotFound(id) if id == "nowhere"),
        "{missing}"
    );
    let family = Family::found(world).await;
    let parent = family.archived_parent(2);
    world
        .store
        .replace_family(parent, Vec::new(), None)
        .await
        .unwrap();
    let late = family.insert("a", "a", MOST).await.unwrap_err();
    assert!(
        matches!(&late, WriteError::Archived(id) if id == "parent"),
        "{late}"
    );
    assert!(!family.has_secret("a").await);
}

async fn a_secret_changes_with_its_ward(world: &World) {
    let family = Family::found(world).await;
    let first = family.ward("a").await;
    let at = |revision| Resource {
        revision,
        ..family.object("a", "a")
    };
    let second = SealedSecret {
        revision: 2,
        sealed: vec![2],
        ..first.clone()
    };
    world
        .store
        .replace_ward(at(2), Sealing::Kept, None)
        .await
        .unwrap();
    assert_eq!(world.store.secret("a").await.unwrap(), Some(first));
    let change = Sealing::Replaced(second.clone());
    world
        .store
        .replace_ward(at(3), change.clone(), None)
        .await
        .unwrap();
    assert_eq!(world.store.secret("a").await.unwrap(), Some(second.clone()));
    // Somebody refreshed it meanwhile: the object stays as it was too.
    let moved = world
        .store
        .replace_ward(at(4), change, None)
        .await
        .unwrap_err();
    assert!(
        matches!(&moved, WriteError::Moved { id, .. } if id == "a"),
        "{moved}"
    );
    let kind = ResourceKind::Credential;
    assert_eq!(family.archived_at(kind, "a").await, (3, None));
    let third = Sealing::Replaced(SealedSecret {
        revision: 3,
        ..second.clone()
    });
    let moved = world
        .store
        .replace_ward(at(3), third, None)
        .await
        .unwrap_err();
    assert!(
        matches!(moved, WriteError::Moved { revision: 3, .. }),
        "{moved}"
    );
    assert_eq!(world.store.secret("a").await.unwrap(), Some(second));
}

async fn a_family_is_archived_whole_or_not(world: &World) {
    let family = Family::found(world).await;
    for id in ["a", "b", "c"] {
        family.ward(id).await;
    }
    let gone = world
        .store
        .replace_ward(family.archived("c", 2), Sealing::Purged, None);
    gone.await.unwrap();
    let wrong = [
        vec![family.archived("a", 2)],
        vec![family.archived("a", 2), family.archived("b", 3)],
        vec![family.archived("a", 2), family.archived("x", 2)],
    ];
    for wards in wrong {
        let parent = family.archived_parent(2);
        let refused = world
            .store
            .replace_family(parent, wards, None)
            .await
            .unwrap_err();
        assert!(matches!(refused, WriteError::Moved { .. }), "{refused}");
        assert_eq!(
            family.archived_at(ResourceKind::Vault, "parent").await,
            (1, None)
        );
        assert_eq!(
            family.archived_at(ResourceKind::Credential, "a").await,
            (1, None)
        );
        assert!(family.has_secret("a").await && family.has_secret("b").await);
    }
    let now = world.pass(Duration::from_secs(1));
    let wards = vec![family.archived("b", 2), family.archived("a", 2)];
    let parent = family.archived_parent(2);
    world
        .store
        .replace_family(parent, wards, None)
        .await
        .unwrap();
    assert_eq!(
        family.archived_at(ResourceKind::Vault, "parent").await,
        (2, Some(now))
    );
    for id in ["a", "b"] {
        let found = family.archived_at(ResourceKind::Credential, id).await;
        assert_eq!(found, (2, Some(now)));
        assert!(!family.has_secret(id).await);
    }
}

async fn none_comes_while_a_family_goes(world: &World) {
    let family = Family::found(world).await;
    family.ward("a").await;
    let archive = world.store.replace_family(
        family.archived_parent(2),
        vec![family.archived("a", 2)],
        None,
    );
    let (archived, came) = tokio::join!(archive, family.insert("b", "b", MOST));
    match (archived, came) {
        (Ok(()), Err(WriteError::Archived(_))) => assert!(!family.has_secret("a").await),
        (Err(WriteError::Moved { .. }), Ok(())) => assert!(family.has_secret("b").await),
        other => panic!("exactly one may be first: {other:?}"),
    }
}

async fn what_is_removed_leaves_no_secret(world: &World) {
    let family = Family::found(world).await;
    let other = Family::named(world, "other").await;
    for id in ["a", "b", "c"] {
        family.ward(id).await;
    }
    other.ward("d").await;
    let store = &world.store;
    store.remove(ResourceKind::Credential, "a").await.unwrap();
    assert!(!family.has_secret("a").await && family.has_secret("b").await);
    let gone = store
        .remove(ResourceKind::Credential, "a")
        .await
        .unwrap_err();
    assert!(matches!(gone, WriteError::NotFound(_)), "{gone}");
    store.remove(ResourceKind::Vault, "parent").await.unwrap();
    for id in ["b", "c"] {
        assert!(store.get(ResourceKind::Credential, id, None).await.is_err());
        assert!(!family.has_secret(id).await);
    }
    let gone = store
        .remove(ResourceKind::Vault, "parent")
        .await
        .unwrap_err();
    assert!(matches!(gone, WriteError::NotFound(_)), "{gone}");
    assert!(other.has_secret("d").await);
    store
        .get(ResourceKind::Credential, "d", None)
        .await
        .unwrap();
}

async fn a_parent_lists_its_own(world: &World) {
    let family = Family::found(world).await;
    let other = Family::named(world, "other").await;
    family.ward("a").await;
    other.ward("b").await;
    family.ward("c").await;
    let query = ResourceQuery {
        kind: ResourceKind::Credential,
        parent: Some("parent".to_owned()),
        created_gte: None,
        created_lte: None,
        archived: false,
        order: Order::Backwards,
        after: None,
        limit: 9,
    };
    let page = world.store.list(&query).await.unwrap();
    let ids: Vec<_> = page.items.iter().map(|item| &*item.id).collect();
    assert_eq!((ids, page.more), (vec!["c", "a"], false));
    let last = page
        .items
        .first()
        .map(|item| (item.created_at, item.id.clone()));
    let page = world
        .store
        .list(&ResourceQuery {
            after: last,
            ..query
        })
        .await
        .unwrap();
    assert_eq!(page.items.len(), 1);
}
