//! Clients that take their time: what they hold is their own, and not for ever.

use std::time::Duration;

use outlast_egress::hand::IDLE;
use outlast_protocol::environment::Networking;
use tokio::{io::AsyncWriteExt as _, time};

use crate::{
    scene::{Scene, attach, bound, limited, open},
    upstream::Host,
    wire::Wire,
};

/// How many a hand may have open here.
const MOST: usize = 24;

/// Lets time pass for timers. What came over sockets by then is seen first.
async fn pass(seconds: u64) {
    time::sleep(Duration::from_millis(50)).await;
    time::pause();
    time::advance(Duration::from_secs(seconds)).await;
    time::resume();
    time::sleep(Duration::from_millis(50)).await;
}

/// Takes the places of a hand with a third of each: heads, bodies and handshakes that never are whole.
async fn begun(scene: &Scene, at: &str) -> [Vec<Wire>; 3] {
    let mut all: [Vec<Wire>; 3] = Default::default();
    for _ in 0..MOST / 3 {
        let [heads, bodies, hellos] = &mut all;
        let mut head = Wire::open(scene.proxy).await;
        head.say("GET http://a.exa").await;
        heads.push(head);
        let mut body = Wire::open(scene.proxy).await;
        body.say(&format!(
            "POST http://{at}/ HTTP/1.1\r\nHost: {at}\r\nContent-Length: 9000\r\n\r\nhalf"
        ))
        .await;
        bodies.push(body);
        let mut hello = Wire::tunnel(scene.proxy, at).await.unwrap();
        hello.write(b"\x16\x03\x01\x02\x00\x01\x00\x01").await;
        hellos.push(hello);
    }
    all
}

#[tokio::test]
async fn who_trickles_holds_places_of_its_own_and_not_for_ever() {
    let mut options = open();
    options.connections = MOST;
    let scene = Scene::start(limited(&["a.example"]), options).await;
    let other = attach(&scene.forwarder, bound(2, Networking::Unrestricted)).await;
    let host = Host::http(None).await;
    let at = format!("a.example:{}", host.port());
    let ask = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    let asked = async |proxy| Wire::open(proxy).await.ask(&ask).await.status;
    let mut all = begun(&scene, &at).await;
    assert_eq!(asked(scene.proxy).await, 503);
    // A byte every ten seconds: no silence ends any of them.
    for _ in 0..13 {
        pass(10).await;
        for wire in all.iter_mut().flatten() {
            // Those that ended take nothing more.
            drop(wire.stream.write_all(b"a").await);
        }
        assert_eq!(asked(other).await, 200);
    }
    let [heads, mut bodies, hellos] = all;
    for mut wire in heads.into_iter().chain(hellos) {
        let end = wire.until_end().await;
        assert!(end.is_empty() || end.starts_with(b"HTTP/1.1 4"), "{end:?}");
    }
    // A body may take as long as it likes, as long as it goes on: it is one of so many.
    assert_eq!(asked(scene.proxy).await, 200);
    pass(IDLE.as_secs() + 1).await;
    for wire in &mut bodies {
        let end = wire.until_end().await;
        assert!(end.is_empty() || end.starts_with(b"HTTP/1.1 "), "{end:?}");
    }
    assert_eq!(asked(scene.proxy).await, 200);
}
