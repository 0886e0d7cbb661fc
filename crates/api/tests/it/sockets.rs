//! Over real sockets: slow and vanished readers, early answers, ends of streams.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    bench::{Bench, KEY, PATIENCE, Setup},
    brain::{Brain, said},
    reader::Frame,
};

struct Served {
    bench: Arc<Bench>,
    address: SocketAddr,
    stop: CancellationToken,
}

async fn serve(setup: Setup) -> Served {
    let bench = Arc::new(Bench::with(setup).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let (router, stopped) = (bench.router.clone(), stop.clone());
    tokio::spawn(async move {
        let server = axum::serve(listener, router);
        server
            .with_graceful_shutdown(stopped.cancelled_owned())
            .await
            .unwrap();
    });
    Served {
        bench,
        address,
        stop,
    }
}

impl Served {
    /// Sends a GET and returns the socket, nothing of the answer read.
    async fn get(&self, path: &str, headers: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n{headers}\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        socket
    }

    async fn stream(&self, session: &str, headers: &str) -> TcpStream {
        let path = format!("/v1/sessions/{session}/events/stream?event_deltas[]=agent.message");
        self.get(&path, headers).await
    }
}

/// Passes on what one side says to the other; cuts both off once the far side was silent for too long,
/// as proxies do.
async fn cutting_proxy(to: SocketAddr, silence: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(to).await.unwrap();
            let (mut from_near, mut to_near) = near.into_split();
            let (mut from_far, mut to_far) = far.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_near, &mut to_far).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 16 * 1024];
                while let Ok(Ok(count @ 1..)) = timeout(silence, from_far.read(&mut buffer)).await {
                    to_near.write_all(&buffer[..count]).await.unwrap();
                }
            });
        }
    });
    address
}

/// Reads until the text so far satisfies `enough`.
async fn read_until(socket: &mut TcpStream, enough: impl Fn(&str) -> bool) -> String {
    let mut all = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if enough(&text) {
            return text;
        }
        let count = timeout(PATIENCE, socket.read(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert!(count > 0, "ended after {} bytes", all.len());
        all.extend_from_slice(&buffer[..count]);
    }
}

/// Reads a chunked body to its end.
async fn read_whole(socket: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut buffer = vec![0; 256 * 1024];
    while !all.ends_with(b"\r\n0\r\n\r\n") {
        let count = timeout(PATIENCE, socket.read(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert!(count > 0, "ended after {} bytes", all.len());
        all.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(all).unwrap()
}

/// Takes the chunks of a chunked body apart.
fn unchunked(response: &str) -> String {
    let (_, mut rest) = response.split_once("\r\n\r\n").unwrap();
    let mut out = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 || tail.len() < size {
            break;
        }
        out.push_str(&tail[..size]);
        rest = &tail[size + 2..];
    }
    out
}

fn frames(text: &str) -> Vec<Frame> {
    let complete = text.rfind("\n\n").map_or("", |end| &text[..end]);
    complete
        .split("\n\n")
        .filter(|frame| !frame.is_empty())
        .map(Frame::parse)
        .collect()
}

#[tokio::test]
async fn the_head_of_a_stream_comes_before_its_first_event() {
    let served = serve(Setup::default()).await;
    let session = served.bench.session().await;
    let mut socket = served.stream(&session, "").await;
    let head = read_until(&mut socket, |text| text.contains("\r\n\r\n")).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("content-type: text/event-stream\r\n"),
        "{head}"
    );
    assert!(!head.contains("content-encoding"), "{head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_piece_leaves_at_once() {
    let served = serve(Setup::default()).await;
    let session = served.bench.session().await;
    let mut socket = served.stream(&session, "").await;
    read_until(&mut socket, |text| text.contains("\r\n\r\n")).await;
    served.bench.say(&session, "hi").await;
    let brain = Brain::new(served.bench.lease().await);
    brain.take_in().await;
    let (request, at) = brain.begin().await;
    let message = brain.start(at);
    for piece in ["one", "two", "three"] {
        brain.delta(message, 0, piece);
        // The next piece is not made before this one was read.
        read_until(&mut socket, |text| text.contains(piece)).await;
    }
    brain
        .respond(request, vec![said(message, &["onetwothree"])])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_reader_costs_others_nothing_and_misses_nothing() {
    let served = serve(Setup::default()).await;
    let session = served.bench.session().await;
    let mut slow = served.stream(&session, "last-event-id: 0\r\n").await;
    let mut quick = served.stream(&session, "last-event-id: 0\r\n").await;
    // Far more than sockets hold.
    let (bench, name) = (served.bench.clone(), session.clone());
    let talk = tokio::spawn(async move {
        for _ in 0..24 {
            bench.say(&name, "more").await;
            Brain::new(bench.lease().await)
                .answer(&"x".repeat(500_000))
                .await;
        }
        bench
            .poke(&format!("/v1/sessions/{name}/archive"))
            .await
            .ok();
    });
    let quickly = frames(&unchunked(&read_whole(&mut quick).await));
    talk.await.unwrap();
    let slowly = frames(&unchunked(&read_whole(&mut slow).await));
    let placed = |frames: Vec<Frame>| {
        let placed = frames
            .into_iter()
            .filter(|frame| frame.data["processed_at"].is_string());
        placed.map(|frame| frame.data).collect::<Vec<_>>()
    };
    let log = served.bench.log(&session).await;
    assert!(
        placed(quickly) == log && placed(slowly) == log,
        "not what the list has"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_reader_leaves_nothing_behind() {
    let ping = Duration::from_millis(20);
    let served = serve(Setup {
        ping,
        ..Default::default()
    })
    .await;
    let session = served.bench.session().await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        let mut socket = served.stream(&session, "").await;
        read_until(&mut socket, |text| text.contains("\r\n\r\n")).await;
        sockets.push(socket);
    }
    served.bench.say(&session, "hi").await;
    let brain = Brain::new(served.bench.lease().await);
    assert!(brain.lease.is_watched());
    drop(sockets);
    let gone = async {
        while brain.lease.is_watched() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_streams_whole() {
    let served = serve(Setup::default()).await;
    let session = served.bench.session().await;
    let mut socket = served.stream(&session, "").await;
    read_until(&mut socket, |text| text.contains("\r\n\r\n")).await;
    served.bench.shutdown.cancel();
    // The last chunk says that nothing was cut off.
    read_until(&mut socket, |text| text.ends_with("0\r\n\r\n")).await;
    served.stop.cancel();
    served.bench.tasks.close();
    timeout(PATIENCE, served.bench.tasks.wait()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_a_send_has_a_length_and_is_marked_as_written() {
    let served = serve(Setup::default()).await;
    let session = served.bench.session().await;
    let body = r#"{"events":[{"type":"user.interrupt"}]}"#;
    let send = async |count: u32| {
        let mut socket = TcpStream::connect(served.address).await.unwrap();
        let head = format!(
            "POST /v1/sessions/{session}/events HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n\
             x-stainless-retry-count: {count}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        read_until(&mut socket, |text| text.contains("processed_at")).await
    };
    let first = send(0).await;
    assert!(
        first.contains("content-length: ") && !first.contains("chunked"),
        "{first}"
    );
    send(1).await;
    assert_eq!(served.bench.log(&session).await.len(), 2, "two interrupts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_stream_outlives_a_proxy_that_cuts_silence() {
    // As fifteen seconds are to thirty, and for forty times as long.
    let ping = Duration::from_millis(100);
    let silence = 2 * ping;
    let mut served = serve(Setup {
        ping,
        ..Default::default()
    })
    .await;
    assert!(outlast_api::PING * 2 <= Duration::from_secs(30));
    let session = served.bench.session().await;
    served.address = cutting_proxy(served.address, silence).await;
    let mut socket = served.stream(&session, "").await;
    let quiet = tokio::time::sleep(20 * silence);
    let pings = |text: &str| text.matches("event: ping").count();
    let text = {
        let reading = read_until(&mut socket, |text| pings(text) >= 30);
        let (text, ()) = tokio::join!(reading, quiet);
        text
    };
    assert!(pings(&text) >= 30);
    // On the same connection, after all that silence.
    served.bench.say(&session, "still there?").await;
    read_until(&mut socket, |text| text.contains("still there?")).await;
}
