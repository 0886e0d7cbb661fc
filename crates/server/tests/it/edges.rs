//! The edges of HTTP: bodies that are refused, and what cannot be read as a request.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::support::{DEADLINE, TestServer};

const MEGABYTE: usize = 1024 * 1024;

/// How long nothing must come: what is waited for is forbidden.
const SILENCE: Duration = Duration::from_millis(200);

async fn connect(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.server().address()).await.unwrap()
}

/// Writes the head of a request.
fn head(server: &TestServer, path: &str, more: &str) -> String {
    let key = server.key();
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n{more}\r\n\r\n")
}

/// Reads one answer with a body; returns its first line, its headers and its body.
async fn answer(socket: &mut TcpStream) -> (String, String, Value) {
    let mut all = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            let (first, headers) = head.split_once("\r\n").unwrap();
            return (first.to_owned(), headers.to_owned(), body);
        }
        let mut piece = vec![0; 64 * 1024];
        let read = timeout(DEADLINE, socket.read(&mut piece)).await.unwrap();
        let read = read.unwrap();
        assert!(read > 0, "it ended after {text}");
        all.extend_from_slice(&piece[..read]);
    }
}

/// An answer in the form of all refusals.
fn has_form((first, headers, body): &(String, String, Value), status: u16, kind: &str) {
    assert!(first.starts_with(&format!("HTTP/1.1 {status} ")), "{first}");
    assert_eq!(body["type"], "error", "{body}");
    assert_eq!(body["error"]["type"], kind, "{body}");
    let id = body["request_id"].as_str().unwrap();
    assert!(id.starts_with("req_01"), "{id}");
    for line in [
        &format!("request-id: {id}"),
        "content-type: application/json",
    ] {
        assert!(headers.lines().any(|header| header == line), "{headers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_a_body_is_refused_before_it_is_sent() {
    let server = TestServer::start_with(|config| config.files.largest_mib = 1).await;
    let form = "content-type: multipart/form-data; boundary=edge\r\nexpect: 100-continue";
    for (path, more, size) in [
        ("/v1/agents", "expect: 100-continue", 33 * MEGABYTE),
        ("/v1/agents", "x-none: 1", 33 * MEGABYTE),
        ("/v1/files", form, 20 * MEGABYTE),
    ] {
        let mut socket = connect(&server).await;
        let more = format!("content-length: {size}\r\n{more}");
        let head = head(&server, path, &more);
        socket.write_all(head.as_bytes()).await.unwrap();
        // Not one byte of the body was sent, nor asked for.
        let told = answer(&mut socket).await;
        has_form(&told, 413, "request_too_large");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_waited_for_is_asked_for() {
    let server = TestServer::start().await;
    let mut socket = connect(&server).await;
    let head = head(
        &server,
        "/v1/agents",
        "content-length: 2\r\nexpect: 100-continue",
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 25];
    let read = timeout(DEADLINE, socket.read_exact(&mut first)).await;
    read.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"{}").await.unwrap();
    has_form(&answer(&mut socket).await, 400, "invalid_request_error");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_too_much_still_reads_why() {
    let server = TestServer::start_with(|config| config.files.largest_mib = 1).await;
    let form = "content-type: multipart/form-data; boundary=edge";
    let part = "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    for (path, more, first) in [
        (
            "/v1/agents",
            format!("content-length: {}", 40 * MEGABYTE),
            "",
        ),
        ("/v1/agents", "transfer-encoding: chunked".to_owned(), ""),
        (
            "/v1/files",
            format!("content-length: {}\r\n{form}", 8 * MEGABYTE),
            part,
        ),
        (
            "/v1/nothing",
            format!("content-length: {}", 40 * MEGABYTE),
            "",
        ),
    ] {
        let mut socket = connect(&server).await;
        let head = head(&server, path, &more) + first;
        socket.write_all(head.as_bytes()).await.unwrap();
        let chunk = vec![b' '; MEGABYTE];
        for _ in 0..40 {
            // All of it is taken: nobody resets the connection.
            if more.contains("chunked") {
                socket.write_all(b"100000\r\n").await.unwrap();
            }
            socket.write_all(&chunk).await.unwrap();
            if more.contains("chunked") {
                socket.write_all(b"\r\n").await.unwrap();
            }
        }
        let told = answer(&mut socket).await;
        match path {
            "/v1/nothing" => has_form(&told, 404, "not_found_error"),
            _ => has_form(&told, 413, "request_too_large"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_in_the_same_form() {
    let server = TestServer::start().await;
    let fields: String = (0..200)
        .map(|number| format!("x-{number}: 1\r\n"))
        .collect();
    let long = "x".repeat(MEGABYTE);
    let good = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    for (bad, status) in [
        ("NO\u{7f}SENSE\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nbad header\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{fields}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)), 414),
    ] {
        let mut socket = connect(&server).await;
        // First on a connection, and after another request.
        for is_first in [true, false] {
            if !is_first {
                socket = connect(&server).await;
                socket.write_all(good.as_bytes()).await.unwrap();
                let (first, _, body) = answer(&mut socket).await;
                assert_eq!(
                    (first.as_str(), &body["status"]),
                    ("HTTP/1.1 200 OK", &"ok".into())
                );
            }
            socket.write_all(bad.as_bytes()).await.unwrap();
            let told = answer(&mut socket).await;
            has_form(&told, status, "invalid_request_error");
            assert!(told.1.contains("connection: close"), "{}", told.1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_rests_is_closed_at_once_with_the_server() {
    let server = TestServer::start().await;
    let mut socket = connect(&server).await;
    let good = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    for _ in 0..3 {
        socket.write_all(good.as_bytes()).await.unwrap();
        answer(&mut socket).await;
    }
    let mut one = [0];
    let silent = timeout(SILENCE, socket.read(&mut one)).await;
    assert!(silent.is_err(), "{silent:?}");
    // Dropping it fails if connections are left.
    drop(server);
    let ended = timeout(DEADLINE, socket.read(&mut one)).await;
    assert_eq!(ended.unwrap().unwrap(), 0);
}
