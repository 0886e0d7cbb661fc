//! Tunnels: TLS to the host that was named, other protocols where nothing is limited.

use std::time::Duration;

use outlast_protocol::environment::Networking;
use tokio::{io::AsyncWriteExt as _, time::sleep};

use crate::{
    scene::{Scene, limited, open},
    upstream::Host,
    wire::Wire,
};

#[tokio::test]
async fn another_protocol_passes_where_nothing_is_limited() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let host = Host::echo().await;
    let at = format!("a.example:{}", host.port());
    let mut wire = Wire::tunnel(scene.proxy, &at).await.unwrap();
    wire.say("hello").await;
    assert_eq!(wire.exactly(5).await, b"hello");
    // Each direction ends by itself.
    wire.say("the end").await;
    wire.stream.shutdown().await.unwrap();
    assert_eq!(wire.until_end().await, b"the end");
}

#[tokio::test]
async fn a_host_that_speaks_first_is_heard() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let host = Host::saying("SSH-2.0-x\r\n").await;
    let at = format!("a.example:{}", host.port());
    let mut wire = Wire::tunnel(scene.proxy, &at).await.unwrap();
    assert_eq!(wire.exactly(11).await, b"SSH-2.0-x\r\n");
}

#[tokio::test]
async fn what_was_sent_with_the_request_is_not_lost() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let host = Host::echo().await;
    let at = format!("a.example:{}", host.port());
    let mut wire = Wire::open(scene.proxy).await;
    wire.say(&format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\nearly"))
        .await;
    assert!(wire.head().await.unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(wire.exactly(5).await, b"early");
}

#[tokio::test]
async fn limited_tunnels_carry_http_and_check_its_host() {
    let scene = Scene::start(limited(&["a.example"]), open()).await;
    let host = Host::http(None).await;
    let at = format!("a.example:{}", host.port());
    let mut wire = Wire::tunnel(scene.proxy, &at).await.unwrap();
    let response = wire
        .ask(&format!("GET /x HTTP/1.1\r\nHost: {at}\r\n\r\n"))
        .await;
    assert_eq!(response.text(), format!("GET /x HTTP/1.1\nhost: {at}\n\n"));
    let response = wire.ask("GET /x HTTP/1.1\r\nHost: b.example\r\n\r\n").await;
    assert_eq!(response.status, 403);
    assert!(
        response.text().contains("says `b.example`"),
        "{}",
        response.text()
    );
    let nested = wire
        .ask(&format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n"))
        .await;
    assert_eq!(nested.status, 400);
}

#[tokio::test]
async fn limited_tunnels_carry_nothing_else() {
    let scene = Scene::start(limited(&["a.example"]), open()).await;
    let host = Host::echo().await;
    let at = format!("a.example:{}", host.port());
    let mut wire = Wire::tunnel(scene.proxy, &at).await.unwrap();
    wire.say("EHLO me\r\n\r\n").await;
    let answer = wire.until_end().await;
    assert!(
        answer.starts_with(b"HTTP/1.1 400 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(!answer.windows(4).any(|bytes| bytes == b"EHLO"));
}

#[tokio::test]
async fn a_tunnel_to_nobody_is_told_before_it_begins() {
    let scene = Scene::start(limited(&["a.example", "*.nowhere"]), open()).await;
    let refused = Wire::tunnel(scene.proxy, "b.example:443")
        .await
        .err()
        .unwrap();
    assert_eq!(refused.status, 403);
    assert!(
        refused
            .head
            .starts_with("HTTP/1.1 403 host `b.example` is refused: ")
    );
    let unknown = Wire::tunnel(scene.proxy, "x.nowhere:443")
        .await
        .err()
        .unwrap();
    assert_eq!(unknown.status, 502);
    let dead = Wire::tunnel(scene.proxy, "a.example:1")
        .await
        .err()
        .unwrap();
    assert_eq!(dead.status, 502);
}

#[tokio::test]
async fn a_silent_tunnel_ends() {
    let mut options = open();
    options.idle = Duration::from_millis(300);
    let scene = Scene::start(Networking::Unrestricted, options).await;
    let host = Host::echo().await;
    let at = format!("a.example:{}", host.port());
    let mut wire = Wire::tunnel(scene.proxy, &at).await.unwrap();
    // As long as something passes it lives.
    for _ in 0..4 {
        sleep(Duration::from_millis(150)).await;
        wire.say("x").await;
        assert_eq!(wire.exactly(1).await, b"x");
    }
    assert_eq!(wire.until_end().await, b"");
}

#[tokio::test]
async fn a_request_that_never_ends_does() {
    let mut options = open();
    options.idle = Duration::from_millis(300);
    let scene = Scene::start(Networking::Unrestricted, options).await;
    let host = Host::http(None).await;
    let at = format!("a.example:{}", host.port());
    for beginning in [
        "GET http://a.exa".to_owned(),
        format!("POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: 9\r\n\r\nhalf"),
        format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n\x16\x03\x01"),
    ] {
        let mut wire = Wire::open(scene.proxy).await;
        wire.say(&beginning).await;
        let end = wire.until_end().await;
        assert!(
            end.is_empty() || end.starts_with(b"HTTP/1.1 "),
            "{beginning}"
        );
    }
}
