//! Lives of hands: bound anew, revoked, and never again.

use outlast_egress::hand::Network as _;
use outlast_protocol::environment::Networking;

use crate::{
    scene::{Scene, attach, limited, open},
    upstream::Host,
    wire::Wire,
};

#[tokio::test]
async fn a_revoked_hand_is_cut_and_does_not_come_back() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let host = Host::echo().await;
    let at = format!("a.example:{}", host.port());
    let mut wire = Wire::tunnel(scene.proxy, &at).await.unwrap();
    wire.say("x").await;
    assert_eq!(wire.exactly(1).await, b"x");
    scene.forwarder.revoke(scene.bound.incarnation).await;
    wire.say("y").await;
    assert_eq!(wire.until_end().await, b"");
    // A message that was late opens nothing.
    let late = attach(&scene.forwarder, scene.bound.clone()).await;
    let connected = tokio::net::TcpStream::connect(late).await;
    assert!(connected.is_err(), "nobody listens any more");
    scene.forwarder.revoke(scene.bound.incarnation).await;
}

#[tokio::test]
async fn a_hand_that_is_bound_anew_obeys_that_alone() {
    let scene = Scene::start(limited(&["a.example"]), open()).await;
    let host = Host::http(None).await;
    let ask = |name: &str| {
        let at = format!("{name}:{}", host.port());
        format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n")
    };
    let mut before = Wire::open(scene.proxy).await;
    assert_eq!(before.ask(&ask("a.example")).await.status, 200);
    let mut bound = scene.bound.clone();
    bound.networking = limited(&["b.example"]);
    let proxy = attach(&scene.forwarder, bound).await;
    assert_eq!(
        before.until_end().await,
        b"",
        "what ran under the old policy is cut"
    );
    let mut wire = Wire::open(proxy).await;
    assert_eq!(wire.ask(&ask("a.example")).await.status, 403);
    assert_eq!(wire.ask(&ask("b.example")).await.status, 200);
}

#[tokio::test]
async fn of_two_listeners_of_one_life_the_later_one_alone_is_served() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let later = attach(&scene.forwarder, scene.bound.clone()).await;
    // Nobody holds the earlier one any more when that returns.
    assert!(tokio::net::TcpStream::connect(scene.proxy).await.is_err());
    let host = Host::echo().await;
    let at = format!("a.example:{}", host.port());
    assert!(Wire::tunnel(later, &at).await.is_ok());
}

#[tokio::test]
async fn a_hand_that_is_attached_again_as_it_was_goes_on() {
    let scene = Scene::start(Networking::Unrestricted, open()).await;
    let host = Host::echo().await;
    let at = format!("a.example:{}", host.port());
    let mut wire = Wire::tunnel(scene.proxy, &at).await.unwrap();
    let proxy = attach(&scene.forwarder, scene.bound.clone()).await;
    wire.say("x").await;
    assert_eq!(wire.exactly(1).await, b"x");
    assert!(Wire::tunnel(proxy, &at).await.is_ok());
}
