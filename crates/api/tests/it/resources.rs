//! What is mounted in a session.

use serde_json::{Value, json};

use crate::bench::{Bench, id};

async fn start() -> (Bench, String) {
    let bench = Bench::new().await;
    let file = id(&bench.upload("a.txt", "text/plain", b"hello").await);
    (bench, file)
}

fn file(id: &str) -> Value {
    json!({ "type": "file", "file_id": id })
}

fn at(id: &str, path: &str) -> Value {
    json!({ "type": "file", "file_id": id, "mount_path": path })
}

impl Bench {
    async fn with_resources(&self, resources: Value) -> crate::bench::Reply {
        let (agent, environment) = self.home().await;
        let body = json!({
            "agent": agent, "environment_id": environment, "resources": resources,
        });
        self.post("/v1/sessions", body).await
    }

    async fn scoped(&self, session: &str) -> Vec<String> {
        let page = self
            .get(&format!("/v1/files?scope_id={session}"))
            .await
            .ok();
        page["data"].as_array().unwrap().iter().map(id).collect()
    }
}

#[tokio::test]
async fn a_session_is_made_with_copies_of_files() {
    let (bench, source) = start().await;
    let made = bench
        .with_resources(json!([file(&source), at(&source, "/in//data.csv")]))
        .await
        .ok();
    let resources = made["resources"].as_array().unwrap();
    let paths: Vec<_> = resources
        .iter()
        .map(|one| one["mount_path"].clone())
        .collect();
    assert_eq!(
        paths,
        [
            json!(format!("/mnt/session/uploads/{source}")),
            json!("/mnt/session/uploads/in/data.csv")
        ]
    );
    let path = format!("/v1/sessions/{}", id(&made));
    assert_eq!(bench.get(&path).await.ok()["resources"], made["resources"]);
    let listed = bench.get(&format!("{path}/resources")).await.ok();
    assert_eq!(listed, json!({ "data": resources, "next_page": null }));
    for one in resources {
        assert!(id(one).starts_with("sesrsc_") && one["type"] == "file");
        let copy = one["file_id"].as_str().unwrap();
        assert_ne!(copy, source);
        let copy = bench.get(&format!("/v1/files/{copy}")).await.ok();
        assert_eq!(copy["scope"], json!({ "type": "session", "id": id(&made) }));
        assert_eq!(
            (&copy["filename"], &copy["size_bytes"]),
            (&json!("a.txt"), &json!(5))
        );
        let words = bench
            .delete(&format!("/v1/files/{}", id(&copy)))
            .await
            .refused(400);
        assert!(words.contains("mounted"), "{words}");
    }
    assert_eq!(bench.blobs.keys().len(), 1, "copies share their bytes");
    // The session's copies do not need the file they came from.
    bench.delete(&format!("/v1/files/{source}")).await.ok();
    assert_eq!(bench.scoped(&id(&made)).await.len(), 2);
    assert_eq!(bench.blobs.keys().len(), 1);
    bench.poke(&format!("{path}/archive")).await.ok();
    assert_eq!(bench.scoped(&id(&made)).await.len(), 2);
    bench.delete(&path).await.ok();
    assert_eq!(bench.scoped(&id(&made)).await.len(), 0);
    bench.blobs_left(0).await;
}

#[tokio::test]
async fn resources_come_and_go() {
    let (bench, source) = start().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/resources");
    let one = bench.post(&path, at(&source, "/a")).await.ok();
    let two = bench.post(&path, at(&source, "/dir/b")).await.ok();
    assert_eq!(bench.get(&format!("{path}/{}", id(&one))).await.ok(), one);
    let page = bench.get(&format!("{path}?limit=1")).await.ok();
    assert_eq!(page["data"], json!([one]));
    let next = page["next_page"].as_str().unwrap();
    let page = bench.get(&format!("{path}?limit=1&page={next}")).await.ok();
    assert_eq!(page, json!({ "data": [two], "next_page": null }));
    for taken in ["/a", "/a/b", "/dir", "/dir/b"] {
        let words = bench.post(&path, at(&source, taken)).await.refused(400);
        assert!(words.contains("mount_path: cannot be mounted"), "{words}");
    }
    let words = bench
        .post(
            &format!("{path}/{}", id(&one)),
            json!({ "authorization_token": "x" }),
        )
        .await
        .refused(400);
    assert!(words.contains("cannot be updated"), "{words}");
    let gone = json!({ "id": id(&one), "type": "session_resource_deleted" });
    assert_eq!(
        bench.delete(&format!("{path}/{}", id(&one))).await.ok(),
        gone
    );
    let copy = one["file_id"].as_str().unwrap();
    bench.get(&format!("/v1/files/{copy}")).await.refused(404);
    for reply in [
        bench.delete(&format!("{path}/{}", id(&one))).await,
        bench.get(&format!("{path}/{}", id(&one))).await,
        bench.get(&format!("{path}/nonsense")).await,
        bench.post(&format!("{path}/{}", id(&one)), json!({})).await,
        bench
            .post(&path, file("file_010000000000000000000001"))
            .await,
        bench
            .get("/v1/sessions/sesn_010000000000000000000001/resources")
            .await,
    ] {
        reply.refused(404);
    }
    let shown = bench.get(&format!("/v1/sessions/{session}")).await.ok();
    assert_eq!(shown["resources"], json!([two]));
    bench.post(&path, at(&source, "/a")).await.ok();
    bench
        .poke(&format!("/v1/sessions/{session}/archive"))
        .await
        .ok();
    for reply in [
        bench.post(&path, at(&source, "/c")).await,
        bench.delete(&format!("{path}/{}", id(&two))).await,
    ] {
        assert!(reply.refused(400).contains("archived"));
    }
}

#[tokio::test]
async fn what_cannot_be_mounted_is_refused_whole() {
    let (bench, source) = start().await;
    for (resources, status, word) in [
        (
            json!([at(&source, "/a"), at(&source, "/a/b")]),
            400,
            "resources.1: cannot be mounted",
        ),
        (
            json!([file(&source), file(&source)]),
            400,
            "resources.1: cannot be mounted",
        ),
        (json!([at(&source, "/../a")]), 400, "resources.0.mount_path"),
        (json!([at(&source, "a")]), 400, "must be absolute"),
        (
            json!([file("file_010000000000000000000001")]),
            404,
            "not found",
        ),
        (
            json!([{ "type": "github_repository", "url": "x" }]),
            400,
            "resources.0.url: must begin with `https://`",
        ),
        (
            json!([{ "type": "memory_store", "memory_store_id": "x" }]),
            400,
            "not_supported",
        ),
        (
            json!(
                (0..501)
                    .map(|n| at(&source, &format!("/{n}")))
                    .collect::<Vec<_>>()
            ),
            400,
            "0 to 500",
        ),
    ] {
        let words = bench.with_resources(resources).await.refused(status);
        assert!(words.contains(word), "{words}");
    }
    let many: Vec<_> = (0..500).map(|n| at(&source, &format!("/{n}"))).collect();
    let made = bench.with_resources(json!(many)).await.ok();
    let path = format!("/v1/sessions/{}/resources", id(&made));
    let words = bench.post(&path, at(&source, "/more")).await.refused(400);
    assert!(words.contains("at most 500"), "{words}");
    assert_eq!(bench.blobs.keys().len(), 1);
}

#[tokio::test]
async fn a_retried_mount_is_one_mount() {
    let (bench, source) = start().await;
    let session = bench.session().await;
    let path = format!("/v1/sessions/{session}/resources");
    let body = file(&source).to_string();
    let send = async |count: &str| {
        let headers = [("x-stainless-retry-count", count)];
        bench
            .raw(crate::bench::request(
                http::Method::POST,
                &path,
                &headers,
                &body,
            ))
            .await
    };
    assert_eq!(send("0").await.status(), 200);
    let again = crate::bench::whole(send("1").await).await.ok();
    let shown = bench.get(&format!("/v1/sessions/{session}")).await.ok();
    assert_eq!(shown["resources"], json!([again]));
}

fn repository() -> Value {
    json!({
        "type": "github_repository", "url": "https://git.example/o/r.git",
        "authorization_token": "tok-canary-0123456789", "checkout": {"type": "branch", "name": "main"},
    })
}

#[tokio::test]
async fn a_repository_is_shown_without_its_token_and_gets_another() {
    let bench = Bench::new().await;
    let made = bench.with_resources(json!([repository()])).await.ok();
    let (session, shown) = (id(&made), made["resources"][0].clone());
    assert!(!made.to_string().contains("tok-canary"), "{made}");
    let kept = json!({
        "type": "github_repository", "id": shown["id"], "url": "https://git.example/o/r.git",
        "checkout": {"type": "branch", "name": "main"}, "mount_path": "/workspace/r",
        "created_at": shown["created_at"], "updated_at": shown["created_at"],
    });
    assert_eq!(shown, kept);
    let path = format!("/v1/sessions/{session}/resources/{}", id(&shown));
    assert_eq!(bench.get(&path).await.ok(), kept);
    let sealed = async || {
        let kernel = &bench.kernel;
        let sealed = kernel.secrets().secret(&id(&shown)).await.unwrap().unwrap();
        assert_eq!(sealed.parent, session);
        sealed.revision
    };
    assert_eq!(sealed().await, 1);
    for (body, word) in [
        (json!({}), "authorization_token: is required"),
        (json!({"authorization_token": "a b"}), "visible ASCII"),
        (
            json!({"authorization_token": "a", "url": "b"}),
            "url: unknown field",
        ),
    ] {
        let words = bench.post(&path, body).await.refused(400);
        assert!(words.contains(word), "{words}");
    }
    let rotated = bench
        .post(&path, json!({"authorization_token": "tok-canary-2"}))
        .await
        .ok();
    assert_eq!(sealed().await, 2);
    assert_ne!(rotated["updated_at"], rotated["created_at"]);
    assert!(!rotated.to_string().contains("tok-canary"));
    let words = bench.delete(&path).await.refused(400);
    assert!(words.contains("as long as its session"), "{words}");
    let path = format!("/v1/sessions/{session}/resources");
    let words = bench.post(&path, repository()).await.refused(400);
    assert!(words.contains("when the session is created"), "{words}");
}

#[tokio::test]
async fn a_repository_has_one_token_however_often_it_is_mounted() {
    let bench = Bench::new().await;
    let wish = |path: &str, more: Value| {
        let mut wish = repository();
        wish["mount_path"] = json!(path);
        for (name, value) in more.as_object().unwrap() {
            wish[name] = value.clone();
        }
        wish
    };
    let other = json!({"authorization_token": "tok-canary-of-another"});
    for same in ["https://git.example/o/r", "https://GIT.example:443/o/r.git"] {
        let mut again = other.clone();
        again["url"] = json!(same);
        let both = json!([repository(), wish("/workspace/b", again)]);
        let words = bench.with_resources(both).await.refused(400);
        let field = "resources.1.authorization_token: must be the one of the other resource";
        assert!(
            words.contains(field) && !words.contains("tok-canary"),
            "{words}"
        );
    }
    let mut elsewhere = other.clone();
    elsewhere["url"] = json!("https://git.example:8443/o/r.git");
    let made = bench.with_resources(json!([
        repository(),
        wish(
            "/workspace/b",
            json!({"checkout": {"type": "branch", "name": "other"}})
        ),
        wish("/workspace/c", json!({"authorization_token": null})),
        wish("/workspace/d", elsewhere),
    ]));
    let made = made.await.ok();
    // Another token for one is another token for all of them.
    let second = made["resources"][1]["id"].as_str().unwrap();
    let path = format!("/v1/sessions/{}/resources", id(&made));
    bench.post(&format!("{path}/{second}"), other).await.ok();
    let shown = bench.get(&path).await.ok();
    let rotated = shown["data"].as_array().unwrap().iter();
    let rotated: Vec<_> = rotated
        .map(|one| one["updated_at"] != one["created_at"])
        .collect();
    assert_eq!(rotated, [true, true, true, false]);
    for resource in made["resources"].as_array().unwrap() {
        let sealed = bench.kernel.secrets().secret(&id(resource)).await.unwrap();
        let wanted = match resource["mount_path"].as_str().unwrap() {
            "/workspace/c" | "/workspace/d" => 1,
            _ => 2,
        };
        assert_eq!(sealed.unwrap().revision, wanted, "{resource}");
    }
}

#[tokio::test]
async fn repositories_stand_beside_each_other_below_the_workspace() {
    let bench = Bench::new().await;
    let at = |path: &str| {
        let mut wish = repository();
        wish["mount_path"] = json!(path);
        wish
    };
    for (resources, word) in [
        (
            json!([repository(), repository()]),
            "resources.1: cannot stand at",
        ),
        (
            json!([at("/workspace/a"), at("/workspace/a/b")]),
            "resources.1: cannot stand at",
        ),
        (
            json!([at("/etc")]),
            "resources.0.mount_path: must be a folder below",
        ),
        (
            json!(
                vec![repository(); 65]
                    .iter()
                    .enumerate()
                    .map(|(n, _)| at(&format!("/workspace/{n}")))
                    .collect::<Vec<_>>()
            ),
            "at most 64",
        ),
    ] {
        let words = bench.with_resources(resources).await.refused(400);
        assert!(
            words.contains(word) && !words.contains("tok-canary"),
            "{words}"
        );
    }
}
