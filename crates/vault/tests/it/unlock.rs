//! Begins with nothing, with the right key, with a wrong one, and with one that got lost.

use outlast_store::Secrets as _;
use outlast_vault::keyring::Source;

use crate::support::{ONE, OTHER, World, bearer};

#[tokio::test]
async fn a_file_is_made_once_and_never_again() {
    let (world, dir) = (World::new(), tempfile::tempdir().unwrap());
    let path = dir.path().join("master.key");
    let own = || Source::Own(path.clone());
    let vault = world.vault_of(own(), &[]).await;
    assert_eq!(vault.trouble(), None);
    let derived = vault.derive("ca", b"sbx_1").unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let again = world.vault_of(own(), &[]).await;
    assert_eq!(again.derive("ca", b"sbx_1").unwrap(), derived);
    assert_ne!(again.derive("ca", b"sbx_2").unwrap(), derived);
    // It got lost: another one would hide that.
    std::fs::remove_file(&path).unwrap();
    let lost = world.vault_of(own(), &[]).await;
    let trouble = lost.trouble().unwrap();
    assert!(
        trouble.contains("OUTLAST_MASTER_KEY") && !path.exists(),
        "{trouble}"
    );
    assert!(lost.derive("ca", b"sbx_1").is_none());
    lost.seal("a", "b", 1, &bearer("https://a.example", "a-token"))
        .unwrap_err();
    std::fs::write(&path, text).unwrap();
}

#[tokio::test]
async fn a_wrong_key_is_named_with_the_right_one() {
    let world = World::new();
    let right = world.vault().await;
    let wrong = world.vault_of(Source::Set(OTHER.into()), &[]).await;
    let trouble = wrong.trouble().unwrap();
    let master = world.store.secret("root").await.unwrap().unwrap().master;
    assert!(trouble.contains(&master), "{trouble}");
    let known = wrong.holding().await.unwrap().known;
    assert!(trouble.contains(&known[0].to_string()), "{trouble}");
    assert!(!trouble.contains(ONE) && !trouble.contains(OTHER));
    assert_eq!(right.trouble(), None);
    // Nothing comes under the wrong key beside what is under the right one.
    let content = bearer("https://a.example", "a-token");
    let refused = wrong.seal("a", "b", 1, &content).unwrap_err();
    assert!(refused.to_string().contains(&master), "{refused}");
}

#[tokio::test]
async fn two_that_begin_at_once_have_one_root() {
    let world = World::new();
    let (one, other) = tokio::join!(world.vault(), world.vault());
    let keys = (one.derive("ca", b"x"), other.derive("ca", b"x"));
    assert!(keys.0.is_some() && keys.0 == keys.1);
}
