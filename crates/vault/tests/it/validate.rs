//! What a try says, step by step.

use outlast_protocol::credential::{RefreshStatus, Verdict};
use outlast_vault::Content;

use crate::{
    provider::Provider,
    support::{World, bearer, oauth},
};

struct Scene {
    world: World,
    provider: Provider,
}

/// What came of it: the verdict, the step that failed with its status, the refresh with that of its.
type Told = (
    Verdict,
    Option<(String, Option<u16>)>,
    Option<(RefreshStatus, Option<u16>)>,
);

impl Scene {
    async fn new() -> Self {
        Self {
            world: World::new(),
            provider: Provider::start().await,
        }
    }

    async fn told(&self, change: impl FnOnce(Content) -> Content) -> Told {
        let vault = self.world.vault().await;
        let parent = self.world.family().await;
        let content = change(oauth(&self.provider.mcp(), &self.provider.token(), None));
        let id = self.world.credential(&vault, parent, &content).await;
        let found = vault.validate(parent, id).await.unwrap();
        assert_eq!((found.credential_id, found.vault_id), (id, parent));
        let all = format!("{found:?}");
        for secret in content.secrets() {
            assert!(!all.contains(secret.expose()), "{all}");
        }
        let status = |response: Option<outlast_protocol::credential::HttpResponse>| {
            response.map(|response| response.status_code)
        };
        (
            found.status,
            found
                .mcp_probe
                .map(|probe| (probe.method, status(probe.http_response))),
            found
                .refresh
                .map(|refresh| (refresh.status, status(refresh.http_response))),
        )
    }
}

fn alone(mut content: Content) -> Content {
    if let Content::McpOauth { refresh, .. } = &mut content {
        *refresh = None;
    }
    content
}

fn nowhere(mut content: Content) -> Content {
    if let Content::McpOauth { url, .. } = &mut content {
        "http://127.0.0.1:1/mcp".clone_into(url);
    }
    content
}

#[tokio::test]
async fn a_good_token_is_valid() {
    let scene = Scene::new().await;
    assert_eq!(
        scene.told(|content| content).await,
        (Verdict::Valid, None, None)
    );
    let methods = scene.provider.books.lock().unwrap().methods.clone();
    assert_eq!(
        methods,
        ["initialize", "notifications/initialized", "tools/list"]
    );
    assert_eq!(scene.provider.asked(), 0);
}

#[tokio::test]
async fn a_refused_token_is_refreshed_and_tried_again() {
    let scene = Scene::new().await;
    scene.provider.books.lock().unwrap().taken = "another".to_owned();
    let told = scene.told(|content| content).await;
    assert_eq!(
        told,
        (Verdict::Valid, None, Some((RefreshStatus::Succeeded, None)))
    );
}

#[tokio::test]
async fn a_refused_token_without_another_is_invalid() {
    let scene = Scene::new().await;
    scene.provider.books.lock().unwrap().taken = "another".to_owned();
    let told = scene.told(alone).await;
    let step = Some(("initialize".to_owned(), Some(401)));
    let refresh = Some((RefreshStatus::NoRefreshToken, None));
    assert_eq!(told, (Verdict::Invalid, step, refresh));
}

#[tokio::test]
async fn a_grant_that_is_gone_is_invalid_and_an_endpoint_that_fails_is_unknown() {
    for (status, verdict) in [
        (400, Verdict::Invalid),
        (401, Verdict::Invalid),
        (429, Verdict::Unknown),
        (500, Verdict::Unknown),
    ] {
        let scene = Scene::new().await;
        scene.provider.books.lock().unwrap().taken = "another".to_owned();
        scene.provider.instead(status, "{}");
        let told = scene.told(|content| content).await;
        let step = Some(("initialize".to_owned(), Some(401)));
        assert_eq!(
            told,
            (verdict, step, Some((RefreshStatus::Failed, Some(status))))
        );
    }
}

#[tokio::test]
async fn a_server_that_fails_is_unknown_and_its_words_are_cut() {
    let scene = Scene::new().await;
    let long = "x".repeat(10_000);
    scene
        .provider
        .books
        .lock()
        .unwrap()
        .refuse
        .push_back((503, long));
    let told = scene.told(|content| content).await;
    let step = Some(("initialize".to_owned(), Some(503)));
    assert_eq!(told, (Verdict::Unknown, step, None));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unknown() {
    let scene = Scene::new().await;
    let told = scene.told(nowhere).await;
    assert_eq!(
        told,
        (
            Verdict::Unknown,
            Some(("initialize".to_owned(), None)),
            None
        )
    );
}

#[tokio::test]
async fn only_oauth_is_tried() {
    let world = World::new();
    let vault = world.vault().await;
    let parent = world.family().await;
    let id = world
        .credential(&vault, parent, &bearer("https://a.example", "a-token"))
        .await;
    vault.validate(parent, id).await.unwrap_err();
}
