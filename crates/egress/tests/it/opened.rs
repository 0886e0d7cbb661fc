//! TLS that is opened for a credential: swapped there, swept on the way back, and nowhere else.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use outlast_egress::hand::{Credentials, Held, Hosts, Network as _, Way};
use outlast_protocol::environment::Networking;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::{
    keys::{PLACEHOLDER, Public, SECRET, Set, held, secure},
    scene::{Scene, limited},
    upstream::Host,
    wire::Wire,
};

/// A hand with a credential, and the host that it is for.
struct Stage {
    scene: Scene,
    set: Arc<Set>,
    host: Host,
    public: Public,
    /// What the hand trusts.
    authority: String,
}

impl Stage {
    async fn start(held: Vec<Held>) -> Self {
        Self::start_in(Networking::Unrestricted, held).await
    }

    async fn start_in(networking: Networking, held: Vec<Held>) -> Self {
        let public = Public::new();
        let set = Set::new(held);
        let credentials: Arc<dyn Credentials> = set.clone();
        let scene = Scene::with(networking, public.options(), credentials).await;
        let host = Host::http(Some(public.host(&["a.example", "b.example", "127.0.0.1"]))).await;
        let dress = scene.forwarder.dress(&scene.bound).await.unwrap();
        Self {
            scene,
            set,
            host,
            public,
            authority: dress.authority.unwrap(),
        }
    }

    fn at(&self, name: &str) -> String {
        format!("{name}:{}", self.host.port())
    }

    /// Opens a tunnel and speaks TLS that the hand's authority vouches for.
    async fn opened(&self, name: &str) -> Wire<TlsStream<TcpStream>> {
        let wire = Wire::tunnel(self.scene.proxy, &self.at(name))
            .await
            .unwrap();
        secure(wire, &self.authority, name).await.unwrap()
    }

    /// Opens a tunnel and speaks TLS with the host itself.
    async fn untouched(&self, name: &str) -> Wire<TlsStream<TcpStream>> {
        let wire = Wire::tunnel(self.scene.proxy, &self.at(name))
            .await
            .unwrap();
        secure(wire, &self.public.pem, name).await.unwrap()
    }

    fn request(&self, line: &str, headers: &str, body: &str) -> String {
        let at = self.at("a.example");
        let length = body.len();
        format!("{line} HTTP/1.1\r\nHost: {at}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
    }
}

#[tokio::test]
async fn a_hand_is_given_placeholders_and_an_authority() {
    let stage = Stage::start(vec![
        held(SECRET, &["a.example"], true, true),
        held("another secret", &["b.example"], true, true),
    ])
    .await;
    let dress = stage
        .scene
        .forwarder
        .dress(&stage.scene.bound)
        .await
        .unwrap();
    let variable = ("API_KEY".to_owned(), PLACEHOLDER.to_owned());
    assert_eq!(dress.variables, [variable]);
    assert!(!format!("{dress:?}").contains(SECRET));
    stage.set.fail();
    assert!(
        stage
            .scene
            .forwarder
            .dress(&stage.scene.bound)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_placeholder_is_swapped_in_headers_and_body() {
    let stage = Stage::start(vec![held(SECRET, &["a.example"], true, true)]).await;
    let mut wire = stage.opened("a.example").await;
    let basic = STANDARD.encode(format!("me:{PLACEHOLDER}"));
    let headers = format!("Authorization: Basic {basic}\r\nX-Key: <{PLACEHOLDER}>\r\n");
    let body = format!("key={PLACEHOLDER}&again={PLACEHOLDER}");
    // The host is one that sends everything back: it is swept, and says how long it was.
    let response = wire
        .ask(&stage.request(&format!("POST /?{PLACEHOLDER}"), &headers, &body))
        .await;
    let length = format!("key={SECRET}&again={SECRET}").len();
    let text = response.text();
    assert!(
        text.contains(&format!("content-length: {length}\n")),
        "{text}"
    );
    assert!(
        text.contains(&format!("POST /?{PLACEHOLDER} ")),
        "a URL is no declared place: {text}"
    );
    assert!(text.contains("accept-encoding: identity\n"), "{text}");
    let expected = STANDARD.encode(format!("me:{SECRET}"));
    assert!(
        !text.contains(SECRET) && !text.contains(&expected[4..20]),
        "{text}"
    );
    assert!(
        stage
            .scene
            .decided(&stage.at("a.example"), "credential", true)
    );
    // What the host saw, in numbers that are no form of it.
    let sums = wire
        .ask(&stage.request("POST /sums", &headers, &body))
        .await;
    let sum = |text: &str| text.bytes().map(u64::from).sum::<u64>();
    assert_eq!(
        sums.text(),
        format!(
            "authorization {}\nx-key {}\nbody {}\n",
            sum(&format!("Basic {expected}")),
            sum(&format!("<{SECRET}>")),
            sum(&format!("key={SECRET}&again={SECRET}"))
        )
    );
}

#[tokio::test]
async fn in_the_wrong_place_the_placeholder_itself_goes_out() {
    let line = |place: &str| format!("{place} {}\n", sum(PLACEHOLDER));
    let headers = format!("X-Key: {PLACEHOLDER}\r\n");
    let stage = Stage::start(vec![held(SECRET, &["a.example"], false, true)]).await;
    let mut wire = stage.opened("a.example").await;
    let sums = wire.ask(&stage.request("POST /sums", &headers, "")).await;
    assert!(sums.text().contains(&line("x-key")), "{}", sums.text());
    stage
        .set
        .set(vec![held(SECRET, &["a.example"], true, false)]);
    let sums = wire
        .ask(&stage.request("POST /sums", &headers, PLACEHOLDER))
        .await;
    assert!(sums.text().contains(&line("body")), "{}", sums.text());
    assert!(!sums.text().contains(&line("x-key")), "{}", sums.text());
}

fn sum(text: &str) -> u64 {
    text.bytes().map(u64::from).sum()
}

#[tokio::test]
async fn other_hosts_get_the_placeholder_and_their_tls_stays_closed() {
    let stage = Stage::start(vec![held(SECRET, &["a.example"], true, true)]).await;
    let mut wire = stage.untouched("b.example").await;
    let at = stage.at("b.example");
    let ask = format!("GET / HTTP/1.1\r\nHost: {at}\r\nX-Key: {PLACEHOLDER}\r\n\r\n");
    let response = wire.ask(&ask).await;
    assert!(
        response.text().contains(&format!("x-key: {PLACEHOLDER}\n")),
        "{}",
        response.text()
    );
    // Without TLS nothing is swapped either, also for the host itself.
    let plain = Host::http(None).await;
    let at = format!("a.example:{}", plain.port());
    let ask = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nX-Key: {PLACEHOLDER}\r\n\r\n");
    let response = Wire::open(stage.scene.proxy).await.ask(&ask).await;
    assert!(
        response.text().contains(&format!("x-key: {PLACEHOLDER}\n")),
        "{}",
        response.text()
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_carries_nothing_along() {
    let stage = Stage::start(vec![held(SECRET, &["a.example"], true, true)]).await;
    let mut wire = stage.opened("a.example").await;
    let to = format!("https://b.example/?{PLACEHOLDER}");
    let headers = format!("X-To: {to}\r\n");
    let response = wire
        .ask(&stage.request("GET /redirect", &headers, ""))
        .await;
    assert_eq!(response.status, 302);
    // What the host sends its caller to is swept: the caller would take the secret there.
    assert_eq!(response.header("location"), Some(to.as_str()));
    // Another host within that tunnel is refused.
    let ask = format!("GET / HTTP/1.1\r\nHost: b.example\r\nX-Key: {PLACEHOLDER}\r\n\r\n");
    assert_eq!(wire.ask(&ask).await.status, 403);
}

#[tokio::test]
async fn tls_to_another_name_is_refused_in_its_own_words() {
    for networking in [Networking::Unrestricted, limited(&["a.example"])] {
        let held = vec![held(SECRET, &["a.example"], true, true)];
        let stage = Stage::start_in(networking, held).await;
        let wire = Wire::tunnel(stage.scene.proxy, &stage.at("a.example"))
            .await
            .unwrap();
        let error = secure(wire, &stage.authority, "b.example")
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains("UnrecognisedName"), "{error}");
        assert!(
            stage
                .scene
                .decided(&stage.at("a.example"), "sni_mismatch", false)
        );
    }
}

#[tokio::test]
async fn an_address_may_be_asked_for_without_a_name() {
    let stage = Stage::start(vec![held(SECRET, &["127.0.0.1"], true, true)]).await;
    let mut wire = stage.opened("127.0.0.1").await;
    let at = stage.at("127.0.0.1");
    let response = wire
        .ask(&format!("GET / HTTP/1.1\r\nHost: {at}\r\n\r\n"))
        .await;
    assert_eq!(response.status, 200);
    let wire = Wire::tunnel(stage.scene.proxy, &at).await.unwrap();
    assert!(secure(wire, &stage.authority, "a.example").await.is_err());
}

#[tokio::test]
async fn an_echo_is_swept_in_headers_body_and_through_gzip() {
    let stage = Stage::start(vec![held(SECRET, &["a.example"], true, true)]).await;
    let mut wire = stage.opened("a.example").await;
    let headers = format!("Authorization: Bearer {PLACEHOLDER}\r\nX-Key: {PLACEHOLDER}\r\n");
    let response = wire.ask(&stage.request("GET /headers", &headers, "")).await;
    let bearer = format!("Bearer {PLACEHOLDER}");
    assert_eq!(response.header("authorization"), Some(bearer.as_str()));
    assert_eq!(response.header("x-key"), Some(PLACEHOLDER));
    let response = wire
        .ask(&stage.request("POST /body", "", PLACEHOLDER))
        .await;
    assert_eq!(response.text(), PLACEHOLDER);
    let response = wire
        .ask(&stage.request("POST /gzip", "", PLACEHOLDER))
        .await;
    assert_eq!(
        (response.text(), response.header("content-encoding")),
        (PLACEHOLDER, None)
    );
    let response = wire
        .ask(&stage.request("POST /brotli", "", PLACEHOLDER))
        .await;
    assert_eq!(response.status, 502);
    assert!(
        response.text().contains("`content-encoding: br`"),
        "{}",
        response.text()
    );
}

#[tokio::test]
async fn where_nothing_is_looked_for_an_answer_may_be_packed() {
    // Too short to be looked for, and swapped all the same.
    let stage = Stage::start(vec![held("short", &["a.example"], true, true)]).await;
    let mut wire = stage.opened("a.example").await;
    let request = stage.request("POST /brotli", "Accept-Encoding: br\r\n", "x");
    let response = wire.ask(&request).await;
    let encoding = response.header("content-encoding");
    assert_eq!((response.status, encoding), (200, Some("br")));
}

#[tokio::test]
async fn large_bodies_are_swapped_and_swept_as_they_pass() {
    let stage = Stage::start(vec![held(SECRET, &["a.example"], true, true)]).await;
    let mut wire = stage.opened("a.example").await;
    // Behind every kilobyte or so a placeholder, so that some lie across pieces of every size.
    let body: String = (0..2_500)
        .map(|at| format!("{}{PLACEHOLDER}", "x".repeat(1_000 + at % 7)))
        .collect();
    let request = stage.request("POST /sums", "", &body);
    wire.say(&request).await;
    let sums = wire.response().await.unwrap();
    let swapped = body.replace(PLACEHOLDER, SECRET);
    assert_eq!(sums.text(), format!("body {}\n", sum(&swapped)));
    let back = wire.ask(&stage.request("POST /body", "", &body)).await;
    assert!(back.text() == body);
    let chunked = format!(
        "POST /sums HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n{}\r\n20\r\n{}\r\n0\r\n\r\n",
        stage.at("a.example"),
        &PLACEHOLDER[..20],
        &PLACEHOLDER[20..]
    );
    let sums = wire.ask(&chunked).await;
    assert_eq!(sums.text(), format!("body {}\n", sum(SECRET)));
}

#[tokio::test]
async fn a_connection_that_becomes_something_else_is_cut_before_a_secret() {
    let stage = Stage::start(vec![held(SECRET, &["a.example"], true, true)]).await;
    let at = stage.at("a.example");
    let upgrade = format!(
        "GET /upgrade HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    );
    let mut wire = stage.opened("a.example").await;
    wire.say(&upgrade).await;
    assert!(wire.head().await.unwrap().starts_with("HTTP/1.1 101 "));
    wire.say("hello").await;
    assert_eq!(wire.exactly(5).await, b"hello");
    wire.say(&SECRET[..10]).await;
    wire.say(&SECRET[10..]).await;
    assert_eq!(wire.until_end().await, b"");
}

#[tokio::test]
async fn a_rotation_arrives_in_a_connection_that_is_open() {
    let stage = Stage::start(vec![held(SECRET, &["a.example"], true, true)]).await;
    let mut wire = stage.opened("a.example").await;
    let ask = stage.request("POST /sums", "", PLACEHOLDER);
    assert_eq!(
        wire.ask(&ask).await.text(),
        format!("body {}\n", sum(SECRET))
    );
    stage.set.set(vec![held(
        "the next secret value",
        &["a.example"],
        true,
        true,
    )]);
    let next = format!("body {}\n", sum("the next secret value"));
    assert_eq!(wire.ask(&ask).await.text(), next);
    // Archived: the literal goes out. Unreadable: nothing goes out.
    stage.set.set(Vec::new());
    assert_eq!(
        wire.ask(&ask).await.text(),
        format!("body {}\n", sum(PLACEHOLDER))
    );
    stage.set.fail();
    let answer = wire.ask(&ask).await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().contains("the vault is away"),
        "{}",
        answer.text()
    );
    let refused = Wire::tunnel(stage.scene.proxy, &stage.at("a.example"))
        .await
        .err()
        .unwrap();
    assert_eq!(refused.status, 503);
}

#[tokio::test]
async fn a_token_is_added_below_its_path_and_swept() {
    let token = "ghs_token_of_a_repository";
    let stage = Stage::start(Vec::new()).await;
    let repository = Held {
        credential: "sesrsc_1".to_owned(),
        vault: None,
        hosts: Hosts::These(vec!["a.example".parse().unwrap()]),
        way: Way::Basic {
            port: stage.host.port(),
            path: "/o/r.git".to_owned(),
            user: "x-access-token".to_owned(),
            secret: token.into(),
        },
    };
    stage.set.set(vec![repository]);
    let mut wire = stage.opened("a.example").await;
    let added = wire
        .ask(&stage.request("GET /o/r.git/info/refs", "", ""))
        .await;
    let line = added
        .text()
        .lines()
        .find(|line| line.starts_with("authorization: Basic "));
    assert!(
        line.unwrap().contains("[secret removed by egress]"),
        "{}",
        added.text()
    );
    let other = wire
        .ask(&stage.request("GET /o/other.git/info/refs", "", ""))
        .await;
    assert!(!other.text().contains("authorization"), "{}", other.text());
    // At another port of that host somebody else may serve: TLS stays closed, and nothing is added.
    let neighbour = Host::http(Some(stage.public.host(&["a.example"]))).await;
    let at = format!("a.example:{}", neighbour.port());
    let wire = Wire::tunnel(stage.scene.proxy, &at).await.unwrap();
    let mut wire = secure(wire, &stage.public.pem, "a.example").await.unwrap();
    let ask = format!("GET /o/r.git/info/refs HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let answer = wire.ask(&ask).await;
    assert!(
        !answer.text().contains("authorization"),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn a_host_that_cannot_be_trusted_gets_nothing() {
    let stage = Stage::start(vec![held(SECRET, &["*.example"], true, true)]).await;
    let expired = Host::http(Some(stage.public.host_until(&["old.example"], 2001))).await;
    let stranger = Host::http(Some(Public::named("strangers").host(&["new.example"]))).await;
    let misnamed = Host::http(Some(stage.public.host(&["right.example"]))).await;
    let plain = Host::http(None).await;
    for (name, host, words) in [
        ("old.example", &expired, "expired"),
        ("new.example", &stranger, "UnknownIssuer"),
        ("wrong.example", &misnamed, "not valid for name"),
        ("plain.example", &plain, "corrupt"),
    ] {
        let at = format!("{name}:{}", host.port());
        let wire = Wire::tunnel(stage.scene.proxy, &at).await.unwrap();
        let mut wire = secure(wire, &stage.authority, name).await.unwrap();
        let ask = format!("GET / HTTP/1.1\r\nHost: {at}\r\nX-Key: {PLACEHOLDER}\r\n\r\n");
        let answer = wire.ask(&ask).await;
        assert_eq!(answer.status, 502, "{name}");
        assert!(
            answer.text().contains(&format!("TLS with `{name}` failed")),
            "{}",
            answer.text()
        );
        assert!(answer.text().contains(words), "{}", answer.text());
    }
}

#[tokio::test]
async fn smuggled_headers_find_no_other_place() {
    let stage = Stage::start(vec![held(SECRET, &["a.example"], true, true)]).await;
    for headers in [
        "Connection: host\r\n".to_owned(),
        "Host: b.example\r\n".to_owned(),
        "X-Forwarded-Host: b.example\r\nX-Host: b.example\r\nForwarded: host=b.example\r\n"
            .to_owned(),
    ] {
        let mut wire = stage.opened("a.example").await;
        let answer = wire.ask(&stage.request("GET /", &headers, "")).await;
        let right = format!("host: {}\n", stage.at("a.example"));
        assert!(
            answer.status == 400 || answer.text().contains(&right),
            "{headers}"
        );
    }
    let mut wire = stage.opened("a.example").await;
    let at = stage.at("a.example");
    let absolute = format!("GET https://b.example/ HTTP/1.1\r\nHost: {at}\r\n\r\n");
    assert_eq!(wire.ask(&absolute).await.status, 403);
}
