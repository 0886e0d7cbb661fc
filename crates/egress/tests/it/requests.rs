//! Whatever a client sends, it is answered or its connection ends; nothing else happens.

use outlast_protocol::environment::Networking;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use tokio::io::AsyncWriteExt as _;

use crate::{
    scene::{Scene, open},
    upstream::Host,
    wire::Wire,
};

/// Parts of requests, so that what is made of them is often nearly one.
fn part(at: &str) -> impl Strategy<Value = Vec<u8>> {
    let texts = [
        "GET ",
        "POST ",
        "CONNECT ",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "http://",
        "https://",
        at,
        "/",
        "*",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        " HTTP/9.9\r\n",
        "Host: ",
        "\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ":",
        "Content-Length: ",
        "Content-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Expect: 100-continue\r\n",
        "Connection: close\r\n",
        "Connection: upgrade\r\nUpgrade: h2c\r\n",
        "\r\n\r\n",
        "0\r\n\r\n",
        "3\r\nabc\r\n",
        "ffffffffffffffffffff\r\n",
        "[::1]",
        "%00",
        "\0",
        "@",
        "a.example",
        "\u{fc}",
        "\x16\x03\x01\x02\x00\x01",
    ];
    let texts: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    prop_oneof![
        8 => proptest::sample::select(texts),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

#[test]
fn anything_at_all_is_answered_or_ends() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let (scene, host) = runtime.block_on(async {
        let scene = Scene::start(Networking::Unrestricted, open()).await;
        (scene, Host::http(None).await)
    });
    let at = format!("a.example:{}", host.port());
    let request = proptest::collection::vec(part(&at), 0..12);
    let mut runner = TestRunner::new(Config {
        cases: 256,
        failure_persistence: None,
        ..Config::default()
    });
    let run = runner.run(&request, |parts| {
        let bytes = parts.concat();
        let answer = runtime.block_on(async {
            let mut wire = Wire::open(scene.proxy).await;
            wire.write(&bytes).await;
            drop(wire.stream.shutdown().await);
            wire.until_end().await
        });
        prop_assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1."),
            "{:?}",
            answer
        );
        Ok(())
    });
    run.unwrap();
    // It still serves.
    let ask = format!("GET http://{at}/ HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let response = runtime.block_on(async { Wire::open(scene.proxy).await.ask(&ask).await });
    assert_eq!(response.status, 200);
}
