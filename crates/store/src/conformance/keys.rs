//! API keys: found by hash, revoked for good, a node's own in slots.

use std::time::Duration;

use outlast_protocol::{Micros, id::ApiKeyId, key::Scope};

use super::fixture::World;
use crate::{ApiKey, KeyQuery, Order, Receipt, Reply, Unless, WriteError};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    keys_are_found_by_their_hash(&world().await).await;
    a_known_key_is_not_made_again(&world().await).await;
    a_request_makes_one_key(&world().await).await;
    a_revoked_key_stays_revoked(&world().await).await;
    a_slot_holds_one_key(&world().await).await;
    a_slot_lifts_no_revocation(&world().await).await;
    lists_have_pages(&world().await).await;
}

fn key(world: &World, hash: u8) -> ApiKey {
    ApiKey {
        id: ApiKeyId::mint(world.clock.now(), &*world.entropy),
        hash: [hash; 32],
        name: format!("key {hash}"),
        scope: Scope::ReadWrite,
        created_at: world.clock.now(),
        expires_at: None,
        revoked_at: None,
    }
}

async fn keys_are_found_by_their_hash(world: &World) {
    let mut made = key(world, 7);
    made.scope = Scope::ReadOnly;
    made.expires_at = Some(Micros(5));
    world.store.insert_key(made.clone(), None).await.unwrap();
    let found = world.store.find_key([7; 32]).await.unwrap();
    assert_eq!(found, Some(made), "also one that expired");
    assert_eq!(world.store.find_key([8; 32]).await.unwrap(), None);
}

async fn a_known_key_is_not_made_again(world: &World) {
    let made = key(world, 1);
    world.store.insert_key(made.clone(), None).await.unwrap();
    let same_id = ApiKey {
        hash: [2; 32],
        ..made.clone()
    };
    for again in [key(world, 1), same_id] {
        let refused = world.store.insert_key(again, None).await.unwrap_err();
        assert!(matches!(refused, WriteError::Moved { .. }), "{refused}");
    }
    assert_eq!(world.store.find_key([1; 32]).await.unwrap(), Some(made));
    assert_eq!(world.store.find_key([2; 32]).await.unwrap(), None);
}

async fn a_request_makes_one_key(world: &World) {
    let receipt = |body: &str| Receipt {
        fingerprint: [3; 32],
        attempt: 0,
        at: world.clock.now(),
        written: false,
        reply: Reply::Body(body.to_owned()),
        unless: Unless::Any(Micros(0)),
    };
    let store = &world.store;
    let first = store.insert_key(key(world, 1), Some(receipt("one"))).await;
    first.unwrap();
    let again = store.insert_key(key(world, 2), Some(receipt("two"))).await;
    assert!(matches!(again, Err(WriteError::Answered)), "{again:?}");
    assert_eq!(store.find_key([2; 32]).await.unwrap(), None);
    let kept = store.receipt([3; 32], Micros(0)).await.unwrap().unwrap();
    assert_eq!(kept.reply, Reply::Body("one".to_owned()));
}

async fn a_revoked_key_stays_revoked(world: &World) {
    let made = key(world, 1);
    world.store.insert_key(made.clone(), None).await.unwrap();
    let first = world.pass(Duration::from_secs(1));
    let expected = ApiKey {
        revoked_at: Some(first),
        ..made.clone()
    };
    let revoked = world.store.revoke_key(made.id, first).await.unwrap();
    assert_eq!(revoked, expected);
    let later = world.pass(Duration::from_secs(1));
    let again = world.store.revoke_key(made.id, later).await.unwrap();
    assert_eq!(again, expected, "since the first time");
    let found = world.store.find_key([1; 32]).await.unwrap();
    assert_eq!(found, Some(expected));
    let nobody = ApiKeyId::mint(later, &*world.entropy);
    let missing = world.store.revoke_key(nobody, later).await.unwrap_err();
    assert!(matches!(missing, WriteError::NotFound(id) if id == nobody.to_string()));
}

async fn a_slot_holds_one_key(world: &World) {
    let store = &world.store;
    let user = key(world, 9);
    store.insert_key(user.clone(), None).await.unwrap();
    let first = key(world, 1);
    store.put_key("local", first.clone()).await.unwrap();
    let other = key(world, 2);
    store.put_key("configured", other.clone()).await.unwrap();
    let again = ApiKey {
        id: key(world, 1).id,
        name: "renamed".to_owned(),
        scope: Scope::Admin,
        ..first.clone()
    };
    store.put_key("local", again).await.unwrap();
    let expected = ApiKey {
        scope: Scope::Admin,
        ..first
    };
    let found = store.find_key([1; 32]).await.unwrap();
    assert_eq!(found, Some(expected), "it keeps its id and its name");
    let next = key(world, 3);
    store.put_key("local", next.clone()).await.unwrap();
    assert_eq!(store.find_key([1; 32]).await.unwrap(), None, "replaced");
    assert_eq!(store.find_key([3; 32]).await.unwrap(), Some(next));
    store.drop_key("nothing").await.unwrap();
    store.drop_key("local").await.unwrap();
    assert_eq!(store.find_key([3; 32]).await.unwrap(), None, "dropped");
    assert_eq!(store.find_key([2; 32]).await.unwrap(), Some(other));
    assert_eq!(store.find_key([9; 32]).await.unwrap(), Some(user));
}

async fn a_slot_lifts_no_revocation(world: &World) {
    let store = &world.store;
    let leaked = key(world, 1);
    store.put_key("configured", leaked.clone()).await.unwrap();
    let at = world.clock.now();
    store.revoke_key(leaked.id, at).await.unwrap();
    let is_revoked = async || {
        let found = store.find_key([1; 32]).await.unwrap();
        found.is_some_and(|key| key.revoked_at.is_some())
    };
    store.put_key("configured", key(world, 1)).await.unwrap();
    assert!(is_revoked().await, "by being set again");
    store.put_key("configured", key(world, 2)).await.unwrap();
    assert!(is_revoked().await, "by being replaced");
    store.put_key("configured", key(world, 1)).await.unwrap();
    assert!(is_revoked().await, "by being set after another");
    store.drop_key("configured").await.unwrap();
    assert!(is_revoked().await, "by being taken away");
}

async fn lists_have_pages(world: &World) {
    for number in 1..=5 {
        // Two of the same moment.
        if number % 2 == 0 {
            world.pass(Duration::from_secs(1));
        }
        let made = key(world, number);
        world.store.insert_key(made.clone(), None).await.unwrap();
        if number == 3 {
            let now = world.clock.now();
            world.store.revoke_key(made.id, now).await.unwrap();
        }
    }
    for limit in [1, 2, 9] {
        for (order, revoked) in [
            (Order::Forwards, true),
            (Order::Backwards, true),
            (Order::Forwards, false),
            (Order::Backwards, false),
        ] {
            let query = KeyQuery {
                revoked,
                order,
                after: None,
                limit,
            };
            let mut found = pages(world, query).await;
            if order == Order::Backwards {
                found.reverse();
            }
            // Of one moment, ids decide; what a test draws is in no order.
            assert!(found.is_sorted_by_key(|key| (key.created_at, key.id)));
            let mut hashes: Vec<u8> = found.iter().map(|key| key.hash[0]).collect();
            hashes.sort_unstable();
            let expected: Vec<u8> = (1..=5).filter(|no| revoked || *no != 3).collect();
            assert_eq!(hashes, expected, "{query:?}");
        }
    }
}

async fn pages(world: &World, mut query: KeyQuery) -> Vec<ApiKey> {
    let mut found = Vec::new();
    loop {
        let page = world.store.keys(&query).await.unwrap();
        assert!(page.items.len() <= query.limit);
        found.extend(page.items);
        if !page.more {
            return found;
        }
        query.after = found.last().map(|key| (key.created_at, key.id));
    }
}
