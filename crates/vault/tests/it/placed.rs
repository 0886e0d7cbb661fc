//! What egress is given.

use std::{sync::Arc, time::Duration};

use outlast_protocol::id::ResourceId;
use outlast_store::Secrets as _;
use outlast_vault::{Content, Hosts, Placed, keyring::Source};

use crate::support::{OTHER, World, bearer, variable};

fn shown(placed: &Arc<[Placed]>) -> Vec<(&str, &str)> {
    let each = placed.iter();
    each.map(|one| (one.name.as_str(), one.value.expose()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn of_one_name_the_first_vault_counts_and_changes_are_seen() {
    let world = World::new();
    let vault = world.vault().await;
    let (one, other) = (world.family().await, world.family().await);
    let id = world
        .credential(&vault, one, &variable("A", "first-value"))
        .await;
    world
        .credential(&vault, other, &variable("A", "second-value"))
        .await;
    world
        .credential(&vault, other, &variable("B", "third-value"))
        .await;
    world
        .credential(&vault, other, &bearer("https://mcp.example.com", "a-token"))
        .await;
    let vaults = [one, other];
    let placed = vault.placed(&vaults).await.unwrap();
    assert_eq!(shown(&placed), [("A", "first-value"), ("B", "third-value")]);
    assert_eq!((placed[0].credential, placed[0].vault), (id, one));
    let hosts = Hosts::Limited(vec!["api.example.com".to_owned()]);
    assert_eq!(
        (&placed[0].hosts, placed[0].header, placed[0].body),
        (&hosts, true, false)
    );
    let turned = vault.placed(&[other, one]).await.unwrap();
    assert_eq!(
        shown(&turned),
        [("A", "second-value"), ("B", "third-value")]
    );
    assert!(vault.placed(&[]).await.unwrap().is_empty());
    tokio::time::advance(Duration::from_secs(6)).await;
    let again = vault.placed(&vaults).await.unwrap();
    assert!(Arc::ptr_eq(&placed, &again), "nothing changed");
    world
        .change(&vault, id, &variable("A", "rotated-value"))
        .await;
    tokio::time::advance(Duration::from_secs(6)).await;
    let placed = vault.placed(&vaults).await.unwrap();
    assert_eq!(shown(&placed)[0], ("A", "rotated-value"));
}

#[tokio::test]
async fn one_that_was_changed_is_left_out_and_without_a_master_key_there_is_none() {
    let world = World::new();
    let vault = world.vault().await;
    let parent = world.family().await;
    let bad = world
        .credential(&vault, parent, &variable("A", "first-value"))
        .await;
    world
        .credential(&vault, parent, &variable("B", "second-value"))
        .await;
    // Somebody who can write rows puts one in the place of another.
    let mut sealed = world.store.secret(&bad.to_string()).await.unwrap().unwrap();
    sealed.revision += 1;
    assert!(world.store.replace_secret(sealed).await.unwrap());
    let placed = vault.placed(&[parent]).await.unwrap();
    assert_eq!(shown(&placed), [("B", "second-value")]);
    let stranger = world.vault_of(Source::Set(OTHER.into()), &[]).await;
    let error = stranger.placed(&[parent]).await.unwrap_err();
    assert!(error.to_string().contains("mk_"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_is_looked_for_are_the_secrets_of_these_vaults_as_they_are() {
    let world = World::new();
    let vault = world.vault().await;
    let (one, other) = (world.family().await, world.family().await);
    let id = world
        .credential(&vault, one, &variable("A", "first-long-value"))
        .await;
    let url = "https://mcp.example.com";
    world
        .credential(&vault, one, &bearer(url, "a-long-token-of-one"))
        .await;
    world
        .credential(&vault, other, &variable("B", "second-long-value"))
        .await;
    let text = "first-long-value a-long-token-of-one second-long-value";
    let clean = async || {
        let scrubber = vault.scrubber(&[one], &[]).await.unwrap();
        scrubber.text(text).into_owned()
    };
    let swept = clean().await;
    assert!(
        swept.starts_with("[secret A removed] [secret vcrd_"),
        "{swept}"
    );
    assert!(swept.ends_with("removed] second-long-value"), "{swept}");
    assert_eq!(clean().await, swept);
    world
        .change(&vault, id, &variable("A", "a-rotated-value"))
        .await;
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(clean().await.starts_with("first-long-value [secret vcrd_"));
    assert!(vault.scrubber(&[], &[]).await.unwrap().is_idle());
}

#[tokio::test(start_paused = true)]
async fn tokens_of_repositories_are_looked_for_too() {
    let world = World::new();
    let vault = world.vault().await;
    let mint = || ResourceId::mint(world.now(), &*world.entropy);
    let (one, other) = (mint(), mint());
    let keep = async |resource: ResourceId, revision, token: &str| {
        let content = Content::Repository {
            url: "https://git.example/o/r".to_owned(),
            token: token.into(),
        };
        let sealed = vault.seal(&resource.to_string(), "sesn_1", revision, &content);
        assert!(world.store.replace_secret(sealed.unwrap()).await.unwrap());
    };
    keep(one, 1, "a-token-of-one").await;
    keep(other, 1, "a-token-of-another").await;
    let swept = async || {
        let scrubber = vault.scrubber(&[], &[one, mint()]).await.unwrap();
        scrubber
            .text("a-token-of-one a-token-of-another a-rotated-token")
            .into_owned()
    };
    let mark = format!("[secret {one} removed]");
    assert_eq!(
        swept().await,
        format!("{mark} a-token-of-another a-rotated-token")
    );
    keep(one, 2, "a-rotated-token").await;
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(
        swept().await,
        format!("a-token-of-one a-token-of-another {mark}")
    );
}
