//! From a hand: one script with full control, through the whole chain, each attempt told by its name.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, UdpSocket},
    os::linux::net::SocketAddrExt as _,
    os::unix::net::{SocketAddr as UnixAddr, UnixListener},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::Query,
    http::{HeaderMap, StatusCode, Uri, header},
    routing::{any, get},
};
use outlast_kernel::Asker;
use outlast_testkit::canary::{Canary, draw};
use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{Does as _, TestServer, said, secure};

const SCRIPT: &str = include_str!("hand.py");

/// What each attempt comes to. `SUM` stands for what the right host saw in the place of the key.
const OUTCOMES: &str = include_str!("hand.txt");

fn key(headers: &HeaderMap) -> &[u8] {
    headers.get("x-key").map_or(b"", |key| key.as_bytes())
}

/// The host that the credential is for: it tells what it saw, plainly and in numbers.
fn own() -> Router {
    let sums = |uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        let (key, url) = (sum(key(&headers)), sum(uri.to_string().as_bytes()));
        format!("key {key} body {} url {url}\n", sum(&body))
    };
    let echo =
        |headers: HeaderMap, body: Bytes| async move { [key(&headers), b"\n", &body[..]].concat() };
    let redirect = |Query(query): Query<BTreeMap<String, String>>| async move {
        (StatusCode::FOUND, [(header::LOCATION, query["to"].clone())])
    };
    Router::new()
        .route("/sums", any(sums))
        .route("/echo", any(echo))
        .route("/redirect", get(redirect))
}

/// A host of the attacker's, which keeps all that it is sent.
fn thief(loot: &Arc<Mutex<Vec<u8>>>) -> Router {
    let loot = loot.clone();
    let take = move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let mut seen = format!("{uri}\n").into_bytes();
        for (name, value) in &headers {
            seen.extend_from_slice(name.as_str().as_bytes());
            seen.extend_from_slice(&[&b": "[..], value.as_bytes(), b"\n"].concat());
        }
        seen.extend_from_slice(&body);
        loot.lock().unwrap().extend_from_slice(&seen);
        seen
    };
    Router::new().fallback(take)
}

/// Serves without TLS.
async fn plain(place: &str, router: Router) -> SocketAddr {
    let listener = TcpListener::bind((place, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

/// Returns an address of this machine that is not loopback; nothing is sent to find it.
fn lan() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let found = socket
        .connect("10.255.255.255:9")
        .and_then(|()| socket.local_addr());
    found.map_or_else(
        |_| "172.17.0.1".to_owned(),
        |address| address.ip().to_string(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_of_a_hand_comes_to_what_it_should() {
    let (dir, loot) = (tempfile::tempdir().unwrap(), Arc::default());
    let authorities = dir.path().join("ca.pem");
    let at = secure::serve(own(), &authorities).await;
    let (at_thief, _) = secure::serve_at("127.0.0.3", thief(&loot)).await;
    let (own_plain, thief_plain) = (
        plain("127.0.0.2", own()).await,
        plain("127.0.0.3", thief(&loot)).await,
    );
    let server = TestServer::start_with(|config| {
        let open = [at, at_thief, own_plain, thief_plain];
        config.egress.open = open.map(|place| place.to_string()).to_vec();
        config.egress.authorities = Some(authorities.clone());
    })
    .await;
    let client = server.client();
    let secret = draw("value", &outlast_server::OsEntropy);
    server.hides("the value of the key", &secret);
    let wanted = json!({"display_name": "mine"});
    let vault = client.post("/v1/vaults", &wanted).await.unwrap()["id"].clone();
    let auth = json!({"type": "environment_variable", "secret_name": "API_KEY", "secret_value": secret,
        "injection_location": {"header": true, "body": false},
        "networking": {"type": "limited", "allowed_hosts": ["127.0.0.2"]}});
    let path = format!("/v1/vaults/{}/credentials", vault.as_str().unwrap());
    client.post(&path, &json!({"auth": auth})).await.unwrap();
    let wish = json!({"vault_ids": [vault]});
    let (one, other) = (
        client.session_of(wish.clone()).await,
        client.session_of(wish).await,
    );
    let id = one["id"].as_str().unwrap();
    let placeholder = client
        .ran(other["id"].as_str().unwrap(), "echo $API_KEY", 1)
        .await;
    let placeholder = said(&placeholder).trim();
    assert!(
        placeholder.starts_with("outlast_placeholder_"),
        "{placeholder}"
    );

    // What listens on the host, and what a brain would have.
    let socket = dir.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let name = format!("outlast-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&UnixAddr::from_abstract_name(&name).unwrap()).unwrap();
    let asker = Asker {
        session: id.parse().unwrap(),
        thread: 0,
        epoch: 1,
    };
    let token = server.server().kernel().brain_token(asker);
    let set = [
        ("OWN", at.to_string()),
        ("OWN_PLAIN", own_plain.to_string()),
        ("THIEF", at_thief.to_string()),
        ("THIEF_PLAIN", thief_plain.to_string()),
        ("SERVER", server.server().address().to_string()),
        ("LAN", lan()),
        ("OTHER", placeholder.to_owned()),
        ("TOKEN", token.expose_secret().to_owned()),
        ("SOCKET", socket.display().to_string()),
        ("ABSTRACT", name),
    ];
    let set = set.map(|(name, value)| format!("{name}='{value}'"));
    let command = format!("{} python3 - <<'END'\n{SCRIPT}\nEND", set.join(" "));
    let result = client.ran(id, &command, 1).await;
    let told = said(&result);

    compare(told, &secret);
    let mut canary = Canary::default();
    canary.hide("the value of the key", &secret);
    let stolen = loot.lock().unwrap().clone();
    assert!(!stolen.is_empty());
    assert_eq!(
        canary
            .search()
            .unwrap()
            .bytes("what the thief got", &stolen),
        Vec::<String>::new()
    );
}

/// Holds what every attempt came to against what it should have come to.
fn compare(told: &str, secret: &str) {
    // The right host tells that it got the secret by a sum of it.
    let sum: u64 = secret.bytes().map(u64::from).sum();
    let expected = OUTCOMES.replace("SUM", &sum.to_string());
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (told, expected) = (lines(told.trim()), lines(expected.trim()));
    let missing = |from: &[String], of: &[String]| -> Vec<String> {
        let is_missing = |line: &&String| !from.contains(line);
        of.iter().filter(is_missing).cloned().collect()
    };
    let (holes, untried) = (missing(&expected, &told), missing(&told, &expected));
    assert!(
        holes.is_empty() && untried.is_empty(),
        "came to something else: {holes:#?}, should have come to: {untried:#?}"
    );
}
