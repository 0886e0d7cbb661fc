//! Another master key while both are in use: killed anywhere, with others that know less.

use std::{path::Path, time::Duration};

use outlast_protocol::id::VaultId;
use outlast_store::Secrets as _;
use outlast_vault::{NotTurned, Vault, keyring::Source};
use tokio_util::sync::CancellationToken;

use crate::support::{ONE, OTHER, World, bearer, file};

/// Adds so many credentials.
async fn filled(world: &World, vault: &Vault, count: usize) -> VaultId {
    let parent = world.family().await;
    for at in 0..count {
        let url = format!("https://mcp.example.com/{at}");
        world
            .credential(vault, parent, &bearer(&url, "a-token-of-one"))
            .await;
    }
    parent
}

async fn masters(world: &World) -> Vec<String> {
    let all = world.store.secrets(None, 10_000).await.unwrap();
    let mut masters: Vec<_> = all.into_iter().map(|one| one.master).collect();
    masters.sort_unstable();
    masters.dedup();
    masters
}

async fn works(vault: &Vault, parent: VaultId) -> bool {
    let found = vault.bearer(&[parent], "https://mcp.example.com/3").await;
    found.is_ok_and(|found| found.unwrap().token.expose() == "a-token-of-one")
}

/// Runs a vault's keeper for a while; the clock of the runtime is paused.
async fn keep(vault: &Vault, time: Duration) {
    let stop = CancellationToken::new();
    tokio::select! {
        biased;
        () = vault.keep(stop.clone()) => {}
        () = tokio::time::sleep(time) => {}
    }
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}

#[tokio::test(start_paused = true)]
async fn a_new_key_takes_over_while_secrets_are_used() {
    let (world, dir) = (World::new(), tempfile::tempdir().unwrap());
    let path = dir.path().join("master.key");
    let vault = world.vault_of(Source::Own(path.clone()), &[]).await;
    let parent = filled(&world, &vault, 600).await;
    let (before, derived) = (masters(&world).await, vault.derive("ca", b"x"));
    let (turned, used) = tokio::join!(vault.turn(), works(&vault, parent));
    let turned = turned.unwrap();
    assert!(used && works(&vault, parent).await);
    assert_eq!((turned.brought, turned.left), (601, 0), "the root too");
    assert_eq!(masters(&world).await, [turned.current.to_string()]);
    assert_eq!(before, [turned.others[0].to_string()]);
    // What is just being sealed may come late: the old key stays for a while.
    keep(&vault, Duration::from_secs(60)).await;
    assert_eq!(lines(&path), 2);
    keep(&vault, Duration::from_secs(1_300)).await;
    assert_eq!(lines(&path), 1);
    assert!(works(&vault, parent).await);
    let next = world.vault_of(Source::Own(path), &[]).await;
    assert!(works(&next, parent).await && next.derive("ca", b"x") == derived);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_not_believed_has_no_key_thrown_away() {
    let (world, dir) = (World::new(), tempfile::tempdir().unwrap());
    let path = dir.path().join("master.key");
    let vault = world.wary_vault_of(Source::Own(path.clone())).await;
    let first = std::fs::read_to_string(&path).unwrap();
    vault.turn().await.unwrap();
    keep(&vault, Duration::from_secs(3_600)).await;
    let again = world.wary_vault_of(Source::Own(path.clone())).await;
    keep(&again, Duration::from_secs(3_600)).await;
    let known = std::fs::read_to_string(&path).unwrap();
    assert!(
        known.contains(first.trim()) && lines(&path) == 2,
        "the old one is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_killed_anywhere_goes_on_at_the_next_start() {
    for steps in [0, 1, 2, 7, 100, 300] {
        let (world, dir) = (World::new(), tempfile::tempdir().unwrap());
        let path = dir.path().join("master.key");
        let vault = world.vault_of(Source::Own(path.clone()), &[]).await;
        let parent = filled(&world, &vault, 40).await;
        let mut turn = Box::pin(vault.turn());
        for _ in 0..steps {
            if futures::poll!(&mut turn).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(turn);
        drop(vault);
        let next = world.vault_of(Source::Own(path.clone()), &[]).await;
        assert!(works(&next, parent).await, "{steps}");
        keep(&next, Duration::from_secs(1_300)).await;
        assert_eq!(
            (masters(&world).await.len(), lines(&path)),
            (1, 1),
            "{steps}"
        );
        assert!(works(&next, parent).await, "{steps}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_server_learns_of_the_new_key_when_it_meets_it() {
    let (world, dir) = (World::new(), tempfile::tempdir().unwrap());
    let path = file(&dir, ONE);
    let one = world.vault_of(Source::File(path.clone()), &[]).await;
    let other = world.vault_of(Source::File(path.clone()), &[]).await;
    let parent = filled(&world, &one, 10).await;
    let error = one.turn().await.unwrap_err();
    assert!(matches!(error, NotTurned::Single(_)), "{error}");
    file(&dir, &format!("{OTHER}\n{ONE}\n"));
    let turned = one.turn().await.unwrap();
    assert_eq!((turned.brought, turned.left), (11, 0));
    assert!(works(&one, parent).await && !works(&other, parent).await);
    keep(&other, Duration::from_secs(5)).await;
    assert!(works(&other, parent).await);
    assert_eq!(lines(&path), 2, "the file is the operator's");
    let holding = other.holding().await.unwrap();
    assert_eq!(
        holding.records.into_iter().collect::<Vec<_>>(),
        [(turned.current, 11)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_back_mends_a_server_that_runs() {
    let (world, dir) = (World::new(), tempfile::tempdir().unwrap());
    let parent = filled(&world, &world.vault().await, 5).await;
    let path = file(&dir, OTHER);
    let vault = world.vault_of(Source::File(path), &[]).await;
    assert!(vault.trouble().is_some() && !works(&vault, parent).await);
    file(&dir, ONE);
    keep(&vault, Duration::from_secs(60)).await;
    assert_eq!(vault.trouble(), None);
    assert!(works(&vault, parent).await && vault.derive("ca", b"x").is_some());
}

#[tokio::test(start_paused = true)]
async fn no_key_is_made_while_the_right_one_is_missing() {
    let (world, dir) = (World::new(), tempfile::tempdir().unwrap());
    let path = dir.path().join("master.key");
    let own = || Source::Own(path.clone());
    let vault = world.vault_of(own(), &[]).await;
    let parent = filled(&world, &vault, 5).await;
    drop(vault);
    let right = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{OTHER}\n")).unwrap();
    let vault = world.vault_of(own(), &[]).await;
    let error = vault.turn().await.unwrap_err();
    assert!(matches!(error, NotTurned::Missing(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), OTHER);
    // Given back it is found at once.
    std::fs::write(&path, right).unwrap();
    assert_eq!(vault.turn().await.unwrap().left, 0);
    assert!(works(&vault, parent).await);
}
