//! One request for all who ask, whatever happens meanwhile.

use std::time::Duration;

use futures::future::join_all;
use outlast_vault::{ClientAuth, Content, Failure};

use crate::{
    provider::Provider,
    support::{World, exposed, oauth, refresh_token},
};

const URL: &str = "https://mcp.example.com/mcp";

fn with_auth(mut content: Content, new: ClientAuth) -> Content {
    if let Content::McpOauth {
        refresh: Some(refresh),
        ..
    } = &mut content
    {
        refresh.auth = new;
    }
    content
}

#[tokio::test]
async fn many_who_ask_on_many_servers_are_one_request() {
    let (world, provider) = (World::new(), Provider::start().await);
    provider.books.lock().unwrap().pause = Duration::from_millis(300);
    let servers = [
        world.vault().await,
        world.vault().await,
        world.vault().await,
    ];
    let parent = world.family().await;
    let ends = Some(world.now().after(Duration::from_secs(30)));
    let id = world
        .credential(&servers[0], parent, &oauth(URL, &provider.token(), ends))
        .await;
    let vaults = [parent];
    let asking = (0..60).map(|at| servers[at % 3].bearer(&vaults, URL));
    for bearer in join_all(asking).await {
        assert_eq!(bearer.unwrap().unwrap().token.expose(), "access-token-1");
    }
    assert_eq!(provider.asked(), 1);
    let (content, revision) = world.content(&servers[1], id).await;
    assert_eq!((refresh_token(&content), revision), ("refresh-token-1", 2));
    // The next time the token is used that took its place.
    world.pass(3_590);
    let bearer = servers[2].bearer(&vaults, URL).await.unwrap().unwrap();
    assert_eq!(bearer.token.expose(), "access-token-2");
    assert_eq!(provider.asked(), 2);
}

#[tokio::test]
async fn a_refused_token_is_refreshed_once_and_a_newer_one_is_taken() {
    let (world, provider) = (World::new(), Provider::start().await);
    let (one, other) = (world.vault().await, world.vault().await);
    let parent = world.family().await;
    world
        .credential(&one, parent, &oauth(URL, &provider.token(), None))
        .await;
    let refused = one.bearer(&[parent], URL).await.unwrap().unwrap();
    assert_eq!(provider.asked(), 0, "it says nothing of its end");
    let asking = (0..20).map(|at| [&one, &other][at % 2].renewed(&refused));
    for bearer in join_all(asking).await {
        assert_eq!(bearer.unwrap().token.expose(), "access-token-1");
    }
    assert_eq!(provider.asked(), 1);
    // Who comes late with the first one is given the second one.
    let late = other.renewed(&refused).await.unwrap();
    assert_eq!(
        (late.token.expose(), provider.asked()),
        ("access-token-1", 1)
    );
    let next = other.renewed(&late).await.unwrap();
    assert_eq!(
        (next.token.expose(), provider.asked()),
        ("access-token-2", 2)
    );
}

#[tokio::test]
async fn it_goes_on_if_nobody_waits() {
    let (world, provider) = (World::new(), Provider::start().await);
    provider.books.lock().unwrap().pause = Duration::from_millis(200);
    let vault = world.vault().await;
    let parent = world.family().await;
    let ends = Some(world.now());
    let id = world
        .credential(&vault, parent, &oauth(URL, &provider.token(), ends))
        .await;
    let vaults = [parent];
    let asked = tokio::time::timeout(Duration::from_millis(50), vault.bearer(&vaults, URL));
    asked.await.unwrap_err();
    vault.close().await;
    let (content, _) = world.content(&vault, id).await;
    assert_eq!(refresh_token(&content), "refresh-token-1");
}

#[tokio::test]
async fn a_change_meanwhile_keeps_what_was_given_or_counts_instead() {
    for (theirs, kept) in [
        ("refresh-token-0", "refresh-token-1"),
        ("another-token", "another-token"),
    ] {
        let (world, provider) = (World::new(), Provider::start().await);
        provider.books.lock().unwrap().pause = Duration::from_millis(300);
        let vault = world.vault().await;
        let parent = world.family().await;
        let first = oauth(URL, &provider.token(), Some(world.now()));
        let id = world.credential(&vault, parent, &first).await;
        let vaults = [parent];
        let change = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let mut changed =
                with_auth(first.clone(), ClientAuth::Post("new-client-secret".into()));
            if let Content::McpOauth {
                refresh: Some(refresh),
                ..
            } = &mut changed
            {
                refresh.refresh_token = theirs.into();
            }
            world.change(&vault, id, &changed).await;
        };
        let (bearer, ()) = tokio::join!(vault.bearer(&vaults, URL), change);
        bearer.unwrap().unwrap();
        let (content, _) = world.content(&vault, id).await;
        assert_eq!(refresh_token(&content), kept);
        assert!(exposed(&content).contains(&"new-client-secret"));
    }
}

#[tokio::test]
async fn clients_say_who_they_are_as_they_were_told() {
    let world = World::new();
    let common = "grant_type=refresh_token&refresh_token=refresh-token-0";
    let rest = "scope=read+write&resource=https%3A%2F%2Fmcp.example.com%2Fmcp";
    for (auth, header, middle) in [
        (ClientAuth::None, None, "&client_id=client%3A1&"),
        (
            ClientAuth::Post("s/1".into()),
            None,
            "&client_id=client%3A1&client_secret=s%2F1&",
        ),
        // "client%3A1:client+secret%2F1"
        (
            ClientAuth::Basic("client secret/1".into()),
            Some("Basic Y2xpZW50JTNBMTpjbGllbnQrc2VjcmV0JTJGMQ=="),
            "&",
        ),
    ] {
        let (provider, vault) = (Provider::start().await, world.vault().await);
        let parent = world.family().await;
        let content = oauth(URL, &provider.token(), Some(world.now()));
        world
            .credential(&vault, parent, &with_auth(content, auth))
            .await;
        vault.bearer(&[parent], URL).await.unwrap().unwrap();
        let asked = provider.books.lock().unwrap().asked.clone();
        let form = format!("{common}{middle}{rest}");
        assert_eq!(asked, [(header.map(str::to_owned), form)]);
    }
}

#[tokio::test]
async fn a_refusal_is_told_without_secrets_and_not_asked_for_again_at_once() {
    let (world, provider) = (World::new(), Provider::start().await);
    let vault = world.vault().await;
    let parent = world.family().await;
    let first = oauth(URL, &provider.token(), Some(world.now()));
    let id = world.credential(&vault, parent, &first).await;
    provider.instead(
        400,
        r#"{"error":"invalid_grant","token":"refresh-token-0 client secret/1"}"#,
    );
    let error = vault.bearer(&[parent], URL).await.unwrap_err();
    let Failure::Refused { response, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(response.status_code, 400);
    assert!(response.body.contains("invalid_grant"), "{}", response.body);
    let told = format!("{error} {response:?}");
    assert!(
        !told.contains("refresh-token-0") && !told.contains("client secret"),
        "{told}"
    );
    vault.bearer(&[parent], URL).await.unwrap_err();
    assert_eq!(provider.asked(), 1);
    // A new grant is tried at once.
    world.change(&vault, id, &first).await;
    vault.bearer(&[parent], URL).await.unwrap().unwrap();
    assert_eq!(provider.asked(), 2);
}

#[tokio::test]
async fn after_a_failure_whoever_asks_next_asks_at_once() {
    let (world, provider) = (World::new(), Provider::start().await);
    let (one, other) = (world.vault().await, world.vault().await);
    let parent = world.family().await;
    let content = oauth(URL, &provider.token(), Some(world.now()));
    world.credential(&one, parent, &content).await;
    provider.instead(503, "{}");
    let error = one.bearer(&[parent], URL).await.unwrap_err();
    assert!(matches!(error, Failure::Unsure { .. }), "{error}");
    // The clock of the test stands still: a note that stayed would be waited for in vain.
    let next = other.bearer(&[parent], URL).await.unwrap().unwrap();
    assert_eq!(next.token.expose(), "access-token-1");
    assert_eq!(provider.asked(), 2);
}

#[tokio::test]
async fn what_an_endpoint_says_is_told_apart() {
    for (status, body, refused) in [
        (401, "", true),
        (429, "{}", false),
        (503, "<html>", false),
        (200, "not json", false),
        (200, r#"{"error":"bad_refresh_token"}"#, true),
        (302, "", false),
    ] {
        let (world, provider) = (World::new(), Provider::start().await);
        let vault = world.vault().await;
        let parent = world.family().await;
        let content = oauth(URL, &provider.token(), Some(world.now()));
        world.credential(&vault, parent, &content).await;
        provider.instead(status, body);
        let error = vault.bearer(&[parent], URL).await.unwrap_err();
        let told = matches!(error, Failure::Refused { .. });
        assert_eq!(told, refused, "{status} {body}: {error}");
    }
}

#[tokio::test]
async fn a_place_that_is_closed_is_not_connected_to() {
    let (world, provider) = (World::new(), Provider::start().await);
    let source = outlast_vault::keyring::Source::Set(crate::support::ONE.into());
    let vault = world.vault_of(source, &[]).await;
    let parent = world.family().await;
    for endpoint in [
        provider.token(),
        provider.token().replace("127.0.0.1", "localhost"),
    ] {
        let content = oauth(URL, &endpoint, Some(world.now()));
        let parent = world.family().await;
        world.credential(&vault, parent, &content).await;
        let error = vault.bearer(&[parent], URL).await.unwrap_err().to_string();
        assert!(error.contains("open = "), "{error}");
    }
    assert_eq!(provider.asked(), 0);
    let gone = vault.bearer(&[parent], URL).await.unwrap();
    assert!(gone.is_none());
}
