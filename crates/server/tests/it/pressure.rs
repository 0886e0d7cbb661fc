//! Too much at once: connections, readers that read nothing, sandboxes.

use std::{net::SocketAddr, time::Duration};

use outlast_server::client::{From, Previews};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::support::{
    DEADLINE, Does as _, TestServer, bash, leftovers::inits, message, script, until,
};

fn address(server: &TestServer) -> SocketAddr {
    server.server().address()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_bound_are_told_so() {
    let server = TestServer::start_with(|config| config.server.connections = 2).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut socket = TcpStream::connect(address(&server)).await.unwrap();
        // Served, so it has its place.
        socket
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = [0; 64];
        assert!(socket.read(&mut answer).await.unwrap() > 0);
        held.push(socket);
    }
    let mut third = TcpStream::connect(address(&server)).await.unwrap();
    third
        .write_all(b"GET /v1/sessions HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    timeout(DEADLINE, third.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 529 "), "{answer}");
    for part in [
        "retry-after: ",
        "overloaded_error",
        "request-id: ",
        "connections",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    drop(held);
    until("a place", async || {
        server.client().get("/healthz", &[]).await.ok()
    })
    .await;
}

/// Returns the events that a stream has brought to their ends, by position and id.
fn whole(stream: &[u8]) -> Vec<(u64, String)> {
    let text = String::from_utf8_lossy(stream);
    let mut frames: Vec<_> = text.split("\n\n").collect();
    frames.pop();
    let event = |frame: &str| {
        let part = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
        let data: Value = serde_json::from_str(part("data:")?.trim()).ok()?;
        let id = data["id"].as_str()?.to_owned();
        Some((part("id:")?.trim().parse().ok()?, id))
    };
    frames.into_iter().filter_map(event).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reads_nothing_is_cut_off_and_goes_on_where_it_was() {
    let server = TestServer::start_with(|config| config.server.stall_seconds = 1).await;
    let session = server.client().session("scripted").await;
    server.play(&session, &[message("short")], 1).await;
    // Far more than sockets hold; what the model cannot read stands in the log all the same.
    for _ in 0..16 {
        let large = message(&"x".repeat(1_000_000));
        server.client().send(&session, &[large]).await;
    }
    until("all to be taken in", async || {
        let path = format!("/v1/sessions/{session}");
        let found = server.client().get(&path, &[]).await.unwrap();
        (found["status"] == "idle").then_some(())
    })
    .await;
    let socket = TcpSocket::new_v4().unwrap();
    // Little fits on its way, so that the server is left with the rest.
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut socket = socket.connect(address(&server)).await.unwrap();
    let head = format!(
        "GET /v1/sessions/{session}/events/stream HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\
         last-event-id: 0\r\n\r\n",
        server.key()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut stream = Vec::new();
    while whole(&stream).is_empty() {
        assert!(socket.read_buf(&mut stream).await.unwrap() > 0, "it ended");
    }
    // From here on nothing is read until the server has had enough.
    let cut = timeout(DEADLINE, socket.ready(Interest::ERROR)).await;
    assert!(cut.expect("it is cut off").unwrap().is_error());
    drop(socket);
    let mut seen = whole(&stream);
    let last = seen.last().unwrap().0;
    let from = From::After(last);
    let mut follow = server.client().follow(&session, from, Previews::Hidden);
    let all = server.client().events(&session).await;
    while seen.len() < all.len() {
        let frame = timeout(DEADLINE, follow.next()).await.unwrap();
        let frame = frame.unwrap().unwrap();
        let id = frame.event["id"].as_str().unwrap().to_owned();
        seen.push((frame.position.unwrap(), id));
    }
    let all: Vec<_> = all
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    let ids: Vec<_> = seen.iter().map(|(_, id)| id.as_str()).collect();
    assert_eq!(ids, all);
    assert!(seen.is_sorted_by(|(one, _), (next, _)| one < next));
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_sandboxes_live_as_may() {
    let server = TestServer::start_with(|config| config.hands.most = 1).await;
    let steps = || script(json!([bash("echo kept > note"), {"text": "end"}]));
    let first = server.client().session("scripted").await;
    server.play(&first, &[steps()], 1).await;
    let second = server.client().session("scripted").await;
    server.play(&second, &[steps()], 1).await;
    assert_eq!(inits(server.dir()).len(), 2);
    until("the longest unused one to go", async || {
        (inits(server.dir()).len() == 1).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(inits(server.dir()).len(), 1, "one may live");
    // The files of the other are still there.
    let steps = json!([bash("cat note"), {"text": "{{results}}"}]);
    let events = server.play(&first, &[script(steps)], 2).await;
    assert!(
        events
            .iter()
            .any(|event| event["content"][0]["text"] == "kept"),
        "{events:?}"
    );
}
