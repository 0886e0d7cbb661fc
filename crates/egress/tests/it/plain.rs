//! Plain HTTP: absolute form, framing, what belongs to a connection.

use outlast_protocol::environment::Networking;

use crate::{
    scene::{Scene, limited, open},
    upstream::Host,
    wire::Wire,
};

async fn scene() -> (Scene, Host, Wire) {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let (host, wire) = (Host::http(None).await, Wire::open(scene.proxy).await);
    (scene, host, wire)
}

#[tokio::test]
async fn a_request_goes_on_as_the_host_itself_is_asked() {
    let (scene, host, mut wire) = scene().await;
    let port = host.port();
    let response = wire
        .ask(&format!(
            "POST http://A.example:{port}/x?y=%20 HTTP/1.1\r\nHost: a.example:{port}\r\nX-Mine: 1\r\n\
             Proxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\nConnection: x-mine\r\n\
             Content-Length: 5\r\n\r\nhello"
        ))
        .await;
    assert_eq!(response.status, 200);
    assert_eq!(
        response.text(),
        format!("POST /x?y=%20 HTTP/1.1\nhost: a.example:{port}\ncontent-length: 5\n\nhello")
    );
    assert!(scene.decided(&format!("a.example:{port}"), "unrestricted", true));
}

#[tokio::test]
async fn a_connection_serves_many_requests_to_many_hosts() {
    let (_scene, host, mut wire) = scene().await;
    let other = Host::http(None).await;
    for port in [host.port(), host.port(), other.port(), host.port()] {
        let ask =
            format!("GET http://a.example:{port}/ HTTP/1.1\r\nHost: a.example:{port}\r\n\r\n");
        assert!(
            wire.ask(&ask)
                .await
                .text()
                .contains(&format!("host: a.example:{port}\n"))
        );
    }
}

#[tokio::test]
async fn chunks_and_trailers_go_both_ways() {
    let (_scene, host, mut wire) = scene().await;
    let at = format!("a.example:{}", host.port());
    let response = wire
        .ask(&format!(
            "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
             3\r\none\r\n4;a=b\r\n two\r\n0\r\nx-sum: 2\r\n\r\n"
        ))
        .await;
    assert!(
        response.text().ends_with("one two\ntrailer x-sum: 2"),
        "{}",
        response.text()
    );
    let response = wire
        .ask(&format!(
            "GET http://{at}/chunks HTTP/1.1\r\nHost: {at}\r\nTE: trailers\r\n\r\n"
        ))
        .await;
    assert_eq!(response.text(), "one two threex-sum: 3\r\n");
}

#[tokio::test]
async fn head_has_a_length_and_no_body() {
    let (_scene, host, mut wire) = scene().await;
    let at = format!("a.example:{}", host.port());
    wire.say(&format!(
        "HEAD http://{at}/zeros/77 HTTP/1.1\r\nHost: {at}\r\n\r\n"
    ))
    .await;
    let head = wire.head().await.unwrap();
    assert!(head.contains("content-length: 77"), "{head}");
    let next = wire
        .ask(&format!(
            "GET http://{at}/zeros/3 HTTP/1.1\r\nHost: {at}\r\n\r\n"
        ))
        .await;
    assert_eq!(next.body, [0; 3]);
}

#[tokio::test]
async fn who_waits_to_be_told_to_send_is_told() {
    let (_scene, host, mut wire) = scene().await;
    let at = format!("a.example:{}", host.port());
    wire.say(&format!(
        "POST http://{at}/body HTTP/1.1\r\nHost: {at}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    ))
    .await;
    assert_eq!(wire.head().await.unwrap(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(wire.ask("hi").await.text(), "hi");
}

#[tokio::test]
async fn large_bodies_stream_both_ways() {
    let (_scene, host, mut wire) = scene().await;
    let at = format!("a.example:{}", host.port());
    let size = 8 << 20;
    wire.say(&format!(
        "POST http://{at}/body HTTP/1.1\r\nHost: {at}\r\nContent-Length: {size}\r\n\r\n"
    ))
    .await;
    let body: Vec<u8> = (0..size)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    wire.write(&body).await;
    assert!(wire.response().await.unwrap().body == body);
    let ask = format!("GET http://{at}/zeros/{size} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    assert_eq!(wire.ask(&ask).await.body.len(), size);
}

#[tokio::test]
async fn an_upgrade_becomes_what_both_sides_like() {
    let (_scene, host, mut wire) = scene().await;
    let at = format!("a.example:{}", host.port());
    wire.say(&format!(
        "GET http://{at}/upgrade HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    ))
    .await;
    assert!(wire.head().await.unwrap().starts_with("HTTP/1.1 101 "));
    wire.write(&[0x81, 0x85, 0, 0, 0, 0, 1, 2]).await;
    assert_eq!(wire.exactly(8).await, [0x81, 0x85, 0, 0, 0, 0, 1, 2]);
}

#[tokio::test]
async fn a_client_that_is_through_with_sending_gets_its_answer() {
    use tokio::io::AsyncWriteExt as _;
    let (_scene, host, mut wire) = scene().await;
    let at = format!("a.example:{}", host.port());
    wire.say(&format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"))
        .await;
    wire.stream.shutdown().await.unwrap();
    assert_eq!(wire.response().await.unwrap().status, 200);
}

#[tokio::test]
async fn old_clients_are_served() {
    let (_scene, host, mut wire) = scene().await;
    let at = format!("a.example:{}", host.port());
    wire.say(&format!(
        "GET http://{at}/zeros/5 HTTP/1.0\r\nHost: {at}\r\n\r\n"
    ))
    .await;
    let answer = wire.until_end().await;
    assert!(answer.starts_with(b"HTTP/1.0 200 OK\r\n") && answer.ends_with(b"\r\n\r\n\0\0\0\0\0"));
}

#[tokio::test]
async fn what_fails_beyond_is_told_in_words() {
    let (_scene, _host, mut wire) = scene().await;
    let response = wire
        .ask("GET http://a.nowhere/ HTTP/1.1\r\nHost: a.nowhere\r\n\r\n")
        .await;
    assert_eq!(response.status, 502);
    assert!(
        response
            .text()
            .starts_with("outlast egress: `a.nowhere` cannot be resolved: ")
    );
    let response = wire
        .ask("GET http://a.example:1/ HTTP/1.1\r\nHost: a.example:1\r\n\r\n")
        .await;
    assert_eq!(response.status, 502);
    let words = "outlast egress: `a.example:1` cannot be connected to: ";
    assert!(response.text().starts_with(words), "{}", response.text());
    let junk = Host::saying("220 mail.example ESMTP\r\n").await;
    let at = format!("a.example:{}", junk.port());
    let response = wire
        .ask(&format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n"))
        .await;
    assert_eq!(response.status, 502, "{}", response.text());
}

#[tokio::test]
async fn a_refused_host_is_named_with_what_to_change() {
    let scene = Scene::start(limited(&["a.example"]), open()).await;
    let host = Host::http(None).await;
    let mut wire = Wire::open(scene.proxy).await;
    let at = format!("b.example:{}", host.port());
    let response = wire
        .ask(&format!(
            "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: 3\r\n\r\nabc"
        ))
        .await;
    assert_eq!(response.status, 403);
    let words = "host `b.example` is refused: the environment's networking is `limited` and does not \
                 allow it; add `b.example` to its `allowed_hosts`";
    assert_eq!(response.text(), format!("outlast egress: {words}\n"));
    assert_eq!(
        response.head.lines().next(),
        Some(&*format!("HTTP/1.1 403 {words}"))
    );
    assert!(scene.decided(&at, "allowed_hosts", false));
    // The connection goes on with what is allowed.
    let at = format!("a.example:{}", host.port());
    let ask = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n");
    assert_eq!(wire.ask(&ask).await.status, 200);
}
