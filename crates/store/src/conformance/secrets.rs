//! Sealed secrets: who replaces them, who refreshes them, and in which order they are read.

use std::time::Duration;

use super::{fixture::World, wards::Family};
use crate::SealedSecret;

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    one_of_two_replaces(&world().await).await;
    one_of_many_refreshes(&world().await).await;
    a_refresh_that_hangs_is_over_in_time(&world().await).await;
    a_refresh_that_failed_is_over_at_once(&world().await).await;
    all_are_read_in_order(&world().await).await;
    what_is_wrapped_anew_stays_what_it_is(&world().await).await;
    one_of_many_is_the_first(&world().await).await;
    what_belongs_together_goes_together(&world().await).await;
}

fn next(secret: &SealedSecret, text: &str) -> SealedSecret {
    SealedSecret {
        revision: secret.revision + 1,
        master: "second".to_owned(),
        sealed: text.as_bytes().to_vec(),
        ..secret.clone()
    }
}

async fn what_belongs_together_goes_together(world: &World) {
    let secret = |owner: &str, parent: &str| SealedSecret {
        owner: owner.to_owned(),
        parent: parent.to_owned(),
        revision: 1,
        master: "first".to_owned(),
        sealed: b"sealed".to_vec(),
    };
    let all = [("r1", "s1"), ("r2", "s1"), ("r3", "s2")];
    for (owner, parent) in all {
        let first = world.store.replace_secret(secret(owner, parent));
        assert!(first.await.unwrap(), "{owner} had none");
    }
    let left = async || {
        let found = world.store.secrets(Some("r"), 9).await.unwrap();
        let owners = found.into_iter().map(|found| found.owner);
        owners
            .filter(|owner| owner.starts_with('r'))
            .collect::<Vec<_>>()
    };
    for _ in 0..2 {
        world.store.remove_secrets("s1").await.unwrap();
        assert_eq!(left().await, ["r3"]);
    }
    world.store.remove_secrets("r3").await.unwrap();
    assert!(left().await.is_empty());
}

async fn one_of_two_replaces(world: &World) {
    let family = Family::found(world).await;
    let first = family.ward("a").await;
    let (left, right) = tokio::join!(
        world.store.replace_secret(next(&first, "left")),
        world.store.replace_secret(next(&first, "right"))
    );
    let (left, right) = (left.unwrap(), right.unwrap());
    assert!(left != right, "exactly one may be first");
    let text = if left { "left" } else { "right" };
    let stored = world.store.secret("a").await.unwrap().unwrap();
    assert_eq!(stored, next(&first, text));
    let skipped = SealedSecret {
        revision: 9,
        ..stored.clone()
    };
    assert!(!world.store.replace_secret(skipped).await.unwrap());
    let nobody = SealedSecret {
        owner: "nobody".to_owned(),
        ..next(&first, "x")
    };
    assert!(!world.store.replace_secret(nobody).await.unwrap());
    assert_eq!(world.store.secret("nobody").await.unwrap(), None);
    assert_eq!(world.store.secret("a").await.unwrap(), Some(stored));
}

async fn one_of_many_refreshes(world: &World) {
    let family = Family::found(world).await;
    let secret = family.ward("a").await;
    let now = world.clock.now();
    let until = now.after(Duration::from_secs(30));
    let claim = |revision| world.store.claim_refresh("a", revision, now, until);
    assert!(!claim(2).await.unwrap(), "another revision");
    let asked = futures::future::join_all((0..8).map(|_| claim(1))).await;
    let first = asked
        .into_iter()
        .filter(|one| *one.as_ref().unwrap())
        .count();
    assert_eq!(first, 1);
    // Whoever was first writes what came of it, and the next revision is nobody's.
    assert!(
        world
            .store
            .replace_secret(next(&secret, "new"))
            .await
            .unwrap()
    );
    assert!(!claim(1).await.unwrap());
    assert!(claim(2).await.unwrap());
    let nobody = world.store.claim_refresh("nobody", 1, now, until).await;
    assert!(!nobody.unwrap());
}

async fn a_refresh_that_hangs_is_over_in_time(world: &World) {
    let family = Family::found(world).await;
    family.ward("a").await;
    let claim = async || {
        let now = world.clock.now();
        let until = now.after(Duration::from_secs(30));
        let claimed = world.store.claim_refresh("a", 1, now, until).await;
        claimed.unwrap()
    };
    assert!(claim().await);
    world.pass(Duration::from_secs(29));
    assert!(!claim().await);
    world.pass(Duration::from_secs(1));
    assert!(claim().await);
}

async fn a_refresh_that_failed_is_over_at_once(world: &World) {
    let family = Family::found(world).await;
    family.ward("a").await;
    let now = world.clock.now();
    let (own, other) = (
        now.after(Duration::from_secs(30)),
        now.after(Duration::from_secs(31)),
    );
    let claim = || world.store.claim_refresh("a", 1, now, own);
    assert!(claim().await.unwrap());
    // Neither another's note, nor one of another revision, nor one of nobody.
    for (owner, revision, until) in [("a", 1, other), ("a", 2, own), ("b", 1, own)] {
        let ended = world.store.end_refresh(owner, revision, until).await;
        ended.unwrap();
        assert!(!claim().await.unwrap());
    }
    world.store.end_refresh("a", 1, own).await.unwrap();
    assert!(claim().await.unwrap());
}

async fn one_of_many_is_the_first(world: &World) {
    let one = |byte| SealedSecret {
        owner: "root".to_owned(),
        parent: "root".to_owned(),
        revision: 1,
        master: "first".to_owned(),
        sealed: vec![byte],
    };
    let asked = (0..8).map(|byte| world.store.replace_secret(one(byte)));
    let told = futures::future::join_all(asked).await;
    let first: Vec<_> = told.into_iter().map(Result::unwrap).collect();
    assert_eq!(first.iter().filter(|first| **first).count(), 1);
    let stored = world.store.secret("root").await.unwrap().unwrap();
    let winner = first.iter().position(|first| *first).unwrap();
    assert_eq!(usize::from(stored.sealed[0]), winner);
}

async fn all_are_read_in_order(world: &World) {
    let family = Family::found(world).await;
    for id in ["c", "a", "d", "b"] {
        family.ward(id).await;
    }
    let read = async |after: Option<&str>, limit| {
        let found = world.store.secrets(after, limit).await.unwrap();
        let owners = found.into_iter().map(|secret| secret.owner);
        owners.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(read(None, 9).await, "a b c d");
    assert_eq!(read(None, 2).await, "a b");
    assert_eq!(read(Some("b"), 2).await, "c d");
    assert_eq!(read(Some("bb"), 9).await, "c d");
    assert_eq!(read(Some("d"), 9).await, "");
}

async fn what_is_wrapped_anew_stays_what_it_is(world: &World) {
    let family = Family::found(world).await;
    let first = family.ward("a").await;
    let until = world.clock.now().after(Duration::from_secs(30));
    let claim = || world.store.claim_refresh("a", 1, world.clock.now(), until);
    assert!(claim().await.unwrap());
    let wrapped = SealedSecret {
        revision: 1,
        ..next(&first, "wrapped")
    };
    let master = first.master.clone();
    assert!(
        !world
            .store
            .rewrap_secret("another", wrapped.clone())
            .await
            .unwrap()
    );
    let later = next(&first, "later");
    assert!(!world.store.rewrap_secret(&master, later).await.unwrap());
    assert!(
        world
            .store
            .rewrap_secret(&master, wrapped.clone())
            .await
            .unwrap()
    );
    assert!(!world.store.rewrap_secret(&master, first).await.unwrap());
    let stored = world.store.secret("a").await.unwrap();
    assert_eq!(stored, Some(wrapped.clone()));
    assert!(!claim().await.unwrap(), "whoever refreshes it still does");
    let nobody = SealedSecret {
        owner: "nobody".to_owned(),
        ..wrapped
    };
    assert!(!world.store.rewrap_secret("second", nobody).await.unwrap());
}
