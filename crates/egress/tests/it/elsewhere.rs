//! What a hand gets back of a secret by another way than the one on which it went out.

use std::sync::Arc;

use outlast_egress::hand::{Credentials, Network as _};
use outlast_protocol::environment::Networking;

use crate::{
    keys::{PLACEHOLDER, Public, SECRET, Set, held, secure},
    scene::Scene,
    upstream::Host,
    wire::{Response, Wire},
};

async fn scene(set: Arc<Set>, public: &Public) -> Scene {
    let credentials: Arc<dyn Credentials> = set;
    Scene::with(Networking::Unrestricted, public.options(), credentials).await
}

/// Asks in plain HTTP.
async fn plainly(scene: &Scene, name: &str, host: &Host, body: &str) -> Response {
    let at = format!("{name}:{}", host.port());
    let length = body.len();
    let request = format!(
        "POST http://{at}/body HTTP/1.1\r\nHost: {at}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    Wire::open(scene.proxy).await.ask(&request).await
}

#[tokio::test]
async fn what_a_host_kept_is_swept_in_plain_http_of_every_host() {
    let public = Public::new();
    let set = Set::new(vec![held(SECRET, &["a.example"], true, true)]);
    let (scene, host) = (scene(set.clone(), &public).await, Host::http(None).await);
    for name in ["a.example", "b.example"] {
        let response = plainly(&scene, name, &host, SECRET).await;
        assert_eq!(response.text(), PLACEHOLDER, "{name}");
        // What can be read on the way is given no secret.
        let response = plainly(&scene, name, &host, PLACEHOLDER).await;
        assert_eq!(response.text(), PLACEHOLDER, "{name}");
    }
    // A hand without a credential has its bytes as they are.
    set.set(Vec::new());
    let response = plainly(&scene, "a.example", &host, SECRET).await;
    assert_eq!(response.text(), SECRET);
}

#[tokio::test]
async fn the_secret_of_one_host_is_swept_in_what_another_opened_one_says() {
    let public = Public::new();
    let other = "a secret of another host";
    let set = Set::new(vec![
        held(SECRET, &["a.example"], true, true),
        held(other, &["b.example"], true, true),
    ]);
    let scene = scene(set, &public).await;
    let host = Host::http(Some(public.host(&["b.example"]))).await;
    let authority = scene.forwarder.dress(&scene.bound).await.unwrap().authority;
    let at = format!("b.example:{}", host.port());
    let wire = Wire::tunnel(scene.proxy, &at).await.unwrap();
    let mut wire = secure(wire, &authority.unwrap(), "b.example")
        .await
        .unwrap();
    let length = SECRET.len();
    let request =
        format!("POST /body HTTP/1.1\r\nHost: {at}\r\nContent-Length: {length}\r\n\r\n{SECRET}");
    assert_eq!(wire.ask(&request).await.text(), PLACEHOLDER);
}

#[tokio::test]
async fn no_part_is_asked_for_where_something_is_looked_for() {
    let public = Public::new();
    let set = Set::new(vec![held(SECRET, &["a.example"], true, true)]);
    let (scene, host) = (scene(set.clone(), &public).await, Host::http(None).await);
    let at = format!("b.example:{}", host.port());
    let request = format!(
        "GET http://{at}/x HTTP/1.1\r\nHost: {at}\r\nRange: bytes=0-13\r\nIf-Range: \"x\"\r\n\
         Accept-Encoding: gzip\r\n\r\n"
    );
    let asked = async || Wire::open(scene.proxy).await.ask(&request).await;
    let told = asked().await.text().to_owned();
    assert!(
        told.contains("accept-encoding: identity") && !told.contains("range"),
        "{told}"
    );
    set.set(Vec::new());
    let told = asked().await.text().to_owned();
    assert!(
        told.contains("accept-encoding: gzip") && told.contains("\nrange: bytes=0-13"),
        "{told}"
    );
}
