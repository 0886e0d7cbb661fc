//! What hostile code inside a hand tries.

use std::time::Duration;

use outlast_protocol::environment::Networking;
use outlast_reach::Rule;
use tokio::time::{Instant, sleep};

use crate::{
    scene::{Scene, limited, open},
    upstream::Host,
    wire::Wire,
};

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_with_the_line_that_opens_them() {
    let mut options = open();
    options.rule = Rule::default();
    let scene = Scene::start(Networking::Unrestricted, options).await;
    scene.names.say("metadata.example", &["169.254.169.254"]);
    scene.names.say("inner.example", &["10.0.0.7"]);
    for (at, rule) in [
        ("127.0.0.1:4747", "loopback"),
        ("localhost:4747", "loopback"),
        ("0x7f.1:80", "loopback"),
        ("[::1]:80", "loopback"),
        ("[::ffff:127.0.0.1]:80", "loopback"),
        ("[64:ff9b::7f00:1]:80", "loopback"),
        ("169.254.169.254:80", "metadata"),
        ("metadata.example:80", "metadata"),
        ("inner.example:8443", "private"),
        ("100.64.0.1:80", "shared"),
        ("[fd00::1]:80", "private"),
        ("[fe80::1]:80", "link_local"),
        ("224.0.0.1:80", "multicast"),
        ("0.0.0.0:80", "reserved"),
        ("[2002:7f00:1::]:80", "reserved"),
    ] {
        let refused = Wire::tunnel(scene.proxy, at).await.err().unwrap();
        assert_eq!(refused.status, 403, "{at}");
        assert!(
            refused.text().contains("outlast.toml: open = [\""),
            "{}",
            refused.text()
        );
        let mut wire = Wire::open(scene.proxy).await;
        let plain = wire
            .ask(&format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"))
            .await;
        assert_eq!(plain.status, 403, "{at}");
        let decisions = scene.decisions.lock().unwrap();
        let refusals: Vec<_> = decisions.iter().filter(|decision| !decision.2).collect();
        assert_eq!(refusals.last().unwrap().1, rule, "{at}");
    }
    let inner = Wire::tunnel(scene.proxy, "inner.example:8443")
        .await
        .err()
        .unwrap();
    assert!(
        inner.text().ends_with("open = [\"inner.example:8443\"]\n"),
        "{}",
        inner.text()
    );
}

#[tokio::test]
async fn a_name_that_turns_private_is_refused_then() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let host = Host::http(None).await;
    scene
        .names
        .say("turns.example", &["127.0.0.1", "169.254.169.254"]);
    let at = format!("turns.example:{}", host.port());
    let ask = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    assert_eq!(Wire::open(scene.proxy).await.ask(&ask).await.status, 200);
    assert_eq!(Wire::open(scene.proxy).await.ask(&ask).await.status, 403);
}

#[tokio::test]
async fn an_address_is_no_way_around_names() {
    let scene = Scene::start(limited(&["a.example"]), open()).await;
    let host = Host::http(None).await;
    for address in ["127.0.0.1", "0x7f000001", "[::ffff:7f00:1]"] {
        let at = format!("{address}:{}", host.port());
        let refused = Wire::tunnel(scene.proxy, &at).await.err().unwrap();
        assert_eq!(refused.status, 403, "{at}");
    }
}

#[tokio::test]
async fn requests_that_say_two_things_are_refused() {
    let scene = Scene::start(limited(&["a.example"]), open()).await;
    let host = Host::http(None).await;
    let at = format!("a.example:{}", host.port());
    for request in [
        format!("GET http://{at}/ HTTP/1.1\r\nHost: b.example\r\n\r\n"),
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nHost: b.example\r\n\r\n"),
        format!("GET http://{at}/ HTTP/1.1\r\n\r\n"),
        format!("GET http://b.example@{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("GET http://{at}@b.example/ HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("GET //{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("GET https://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"),
        format!("CONNECT {at} HTTP/1.1\r\nHost: b.example\r\n\r\n"),
        "CONNECT b.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n".to_owned(),
        format!("CONNECT http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"),
    ] {
        let mut wire = Wire::open(scene.proxy).await;
        let response = wire.ask(&request).await;
        assert!(
            [400, 403].contains(&response.status),
            "{request}: {}",
            response.head
        );
    }
    assert!(
        scene
            .decisions
            .lock()
            .unwrap()
            .iter()
            .all(|decision| !decision.2)
    );
}

#[tokio::test]
async fn framing_that_can_be_read_in_two_ways_is_refused() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let host = Host::http(None).await;
    let at = format!("a.example:{}", host.port());
    let begin = format!("POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\n");
    for rest in [
        "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "Content-Length: 3, 4\r\n\r\nabcd",
        "Content-Length: +3\r\n\r\nabc",
        "Content-Length: -1\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "X : a\r\nContent-Length: 0\r\n\r\n",
        "X\r\nContent-Length: 0\r\n\r\n",
        "X: a\0b\r\nContent-Length: 0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    ] {
        let mut wire = Wire::open(scene.proxy).await;
        wire.say(&format!("{begin}{rest}")).await;
        let response = wire.response().await;
        let status = response.as_ref().map(|response| response.status);
        assert_eq!(status, Some(400), "{rest:?}: {response:?}");
    }
}

#[tokio::test]
async fn a_length_beside_chunks_is_refused_and_nothing_is_smuggled() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let host = Host::http(None).await;
    let at = format!("a.example:{}", host.port());
    let smuggled = format!("GET http://{at}/smuggled HTTP/1.1\r\nHost: {at}\r\n\r\n");
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ] {
        let mut wire = Wire::open(scene.proxy).await;
        wire.say(&format!(
            "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\n{lines}\r\n0\r\n\r\n{smuggled}"
        ))
        .await;
        let answer = wire.until_end().await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(!answer.contains("/smuggled"), "{answer}");
    }
}

#[tokio::test]
async fn heads_have_bounds() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let (long, url) = ("a".repeat(200 << 10), "a".repeat(70 << 10));
    let many = "a: b\r\n".repeat(300);
    for (request, status) in [
        (
            format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: {long}\r\n\r\n"),
            431,
        ),
        (
            format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{many}\r\n"),
            431,
        ),
        (
            format!("GET http://a.example/{url} HTTP/1.1\r\nHost: a.example\r\n\r\n"),
            414,
        ),
    ] {
        let mut wire = Wire::open(scene.proxy).await;
        let response = wire.ask(&request).await;
        assert_eq!(response.status, status);
    }
}

#[tokio::test]
async fn a_hand_has_only_so_many_connections_and_others_have_theirs() {
    let mut options = open();
    options.connections = 8;
    let scene = Scene::start(Networking::Unrestricted, options).await;
    let host = Host::http(None).await;
    let at = format!("a.example:{}", host.port());
    let ask = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut wire = Wire::open(scene.proxy).await;
        assert_eq!(wire.ask(&ask).await.status, 200);
        held.push(wire);
    }
    let refused = Wire::open(scene.proxy).await.ask(&ask).await;
    assert_eq!(refused.status, 503);
    let words = "outlast egress: this sandbox has 8 connections open, as many as it may";
    assert!(refused.text().starts_with(words), "{}", refused.text());
    // Another hand is served meanwhile, also while the first one knocks thousands of times.
    let other = crate::scene::bound(2, Networking::Unrestricted);
    let other = crate::scene::attach(&scene.forwarder, other).await;
    let mut storm = Vec::new();
    for _ in 0..500 {
        storm.push(Wire::open(scene.proxy).await);
    }
    assert_eq!(Wire::open(other).await.ask(&ask).await.status, 200);
    drop((storm, held));
    // What was let go is free again.
    let until = Instant::now() + Duration::from_secs(5);
    while Wire::open(scene.proxy).await.ask(&ask).await.status != 200 {
        assert!(Instant::now() < until, "no connection became free");
        sleep(Duration::from_millis(20)).await;
    }
}
