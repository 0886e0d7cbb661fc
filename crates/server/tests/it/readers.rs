use serde_json::json;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
};

use crate::support::{Does as _, TestServer, message, of, script, until};

/// Streams that nobody reads.
const READERS: usize = 32;

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_do_not_read_cost_others_nothing() {
    let server = TestServer::start().await;
    let session = server.client().session("scripted").await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let socket = TcpSocket::new_v4().unwrap();
        // Little fits on its way, so that the server is left with the rest.
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut reader = socket.connect(server.server().address()).await.unwrap();
        let request = format!(
            "GET /v1/sessions/{session}/events/stream?event_deltas[]=agent.message HTTP/1.1\r\n\
             host: x\r\nlast-event-id: 0\r\nx-api-key: {}\r\n\r\n",
            server.key()
        );
        reader.write_all(request.as_bytes()).await.unwrap();
        readers.push(reader);
    }
    // Far more than any buffer between here and there holds; four of them fit the model's window.
    let steps = json!([{"content": [{"filler": 40_000}]}]);
    for turn in 1..=4 {
        server
            .client()
            .send(&session, &[script(steps.clone())])
            .await;
        server.client().idle(&session, turn).await;
    }
    // Others are served meanwhile, and so is a reader that reads.
    let other = server.client().session("scripted").await;
    server.play(&other, &[message("hello")], 1).await;
    let events = server.client().events(&session).await;
    assert_eq!(of(&events, "agent.message").len(), 4);
    let open = server.server().tasks();
    assert!(open >= READERS, "{open} tasks for {READERS} streams");
    // Gone without a word: their streams end. Our own client may have a connection more or less.
    drop(readers);
    let ended = async || (server.server().tasks() + READERS <= open + 4).then_some(());
    until("streams to end", ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_hangs_does_not_hold_up_the_end() {
    let server = TestServer::start_with(|config| config.server.shutdown_seconds = 3600).await;
    let session = server.client().session("scripted").await;
    let mut reader = TcpStream::connect(server.server().address()).await.unwrap();
    let request = format!(
        "GET /v1/sessions/{session}/events/stream HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\r\n",
        server.key()
    );
    reader.write_all(request.as_bytes()).await.unwrap();
    server.play(&session, &[message("hello")], 1).await;
    // The end of the test ends the server, well before the hour is over.
    drop(server);
    drop(reader);
}
