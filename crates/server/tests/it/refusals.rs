use std::{fs, os::unix::fs::MetadataExt as _};

use crate::support::{Binary, Output, TestServer, leftovers, outlast};

#[tokio::test(flavor = "multi_thread")]
async fn the_second_server_of_a_directory_is_told_who_has_it() {
    let server = TestServer::start().await;
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    let refused = Output::of(outlast(server.dir()).args(listen)).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let pid = std::process::id().to_string();
    assert!(
        refused.err.contains(&pid) && refused.err.contains("hint:"),
        "{refused:?}"
    );
    // It left the first one's things alone.
    let url = fs::read_to_string(server.dir().join("local.url")).unwrap();
    assert_eq!(url, server.server().url());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_makes_a_key_and_shows_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = Binary::start(dir.path(), None).await;
    let path = dir.path().join("local.key");
    let key = fs::read_to_string(&path).unwrap();
    let key = key.trim();
    assert!(first.banner.contains(key), "{}", first.banner);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    first.client.get("/v1/sessions", &[]).await.unwrap();
    assert!(first.stop().await.success());
    let second = Binary::start(dir.path(), Some(key)).await;
    assert!(!second.banner.contains(key), "{}", second.banner);
    second.client.get("/v1/sessions", &[]).await.unwrap();
    assert!(second.stop().await.success());
    // The database and the log have a hash or nothing.
    assert_eq!(
        leftovers::holding(dir.path(), &[key], "local.key"),
        Vec::<std::path::PathBuf>::new()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_longer_set_opens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = ("0123456789abcdef", "fedcba9876543210");
    for (set, opens) in [
        (Some(old), vec![old]),
        (Some(new), vec![new]),
        (None, vec![]),
    ] {
        let mut command = Binary::command(dir.path());
        command.envs(set.map(|key| ("OUTLAST_API_KEY", key)));
        let server = Binary::start_as(&mut command, dir.path(), set).await;
        for key in [old, new] {
            let client = server.client.with_key(&key.into()).unwrap();
            let answer = client.get("/v1/sessions", &[]).await;
            assert_eq!(answer.is_ok(), opens.contains(&key), "{set:?} {key}");
        }
        assert!(server.stop().await.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_made_closed_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/b");
    let mut command = Binary::command(dir.path());
    command.env("OUTLAST_DATA_DIR", &data);
    let server = Binary::start_as(&mut command, dir.path(), None).await;
    assert_eq!(fs::metadata(&data).unwrap().mode() & 0o777, 0o700);
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_only_with_a_key_that_is_set() {
    let dir = tempfile::tempdir().unwrap();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let refused = Output::of(outlast(dir.path()).args(["serve", "--listen", listen])).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("OUTLAST_API_KEY"), "{refused:?}");
    }
    // Nothing was made on the way.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let mut command = Binary::command(dir.path());
    command.env("OUTLAST_API_KEY", "0123456789abcdef");
    let server = Binary::start_as(&mut command, dir.path(), Some("0123456789abcdef")).await;
    server.client.get("/v1/sessions", &[]).await.unwrap();
    assert!(!dir.path().join("local.key").exists());
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_is_the_server_itself_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    for (name, host) in [
        ("ANTHROPIC_BASE_URL", "127.0.0.1"),
        ("ANTHROPIC_BASE_URL", "localhost"),
        ("OUTLAST_UPSTREAM_BASE_URL", "127.0.0.1"),
    ] {
        let mut command = outlast(dir.path());
        command.env(name, format!("http://{host}:{port}"));
        let listen = format!("127.0.0.1:{port}");
        let refused = Output::of(command.args(["serve", "--listen", &listen])).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("is this server itself"), "{refused:?}");
        assert!(
            name.starts_with("OUTLAST") || refused.err.contains(name),
            "{refused:?}"
        );
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_is_named_and_its_key_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Binary::command(dir.path());
    command
        .env_remove("OUTLAST_UPSTREAM_API_KEY")
        .env_remove("OUTLAST_UPSTREAM_BASE_URL")
        .env("ANTHROPIC_API_KEY", "sk-not-to-be-seen")
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    let server = Binary::start_as(&mut command, dir.path(), None).await;
    let named = "from ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL";
    assert!(server.banner.contains(named), "{}", server.banner);
    assert!(!server.banner.contains("sk-not-to-be-seen"));
    assert!(server.stop().await.success());
    let holding = leftovers::holding(dir.path(), &["sk-not-to-be-seen"], "");
    assert_eq!(holding, Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let refused = Output::of(outlast(dir.path()).args(["serve", "--listen", &taken])).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains(&taken) && refused.err.contains("--listen"),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
