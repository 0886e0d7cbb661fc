//! A client that says exactly the bytes it is told to.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// The longest that a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// A response as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut pairs = lines.filter_map(|line| line.split_once(':'));
        let found = pairs.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(found.1.trim())
    }
}

/// A connection, with what was read of it too early.
pub(crate) struct Wire<S = TcpStream> {
    pub(crate) stream: S,
    rest: Vec<u8>,
}

impl Wire {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    /// Opens a tunnel through a proxy.
    pub(crate) async fn tunnel(proxy: SocketAddr, place: &str) -> Result<Self, Response> {
        let mut wire = Self::open(proxy).await;
        wire.say(&format!(
            "CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n"
        ))
        .await;
        let head = wire.head().await.unwrap();
        let status = status(&head);
        if status == 200 {
            return Ok(wire);
        }
        Err(wire.rest_of(head).await)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn over(stream: S) -> Self {
        let rest = Vec::new();
        Self { stream, rest }
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.write(text.as_bytes()).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        // One that was closed is told by what is read from it.
        drop(self.stream.write_all(bytes).await);
        drop(self.stream.flush().await);
    }

    /// Sends a request and reads its response.
    pub(crate) async fn ask(&mut self, text: &str) -> Response {
        self.say(text).await;
        self.response().await.unwrap()
    }

    /// Reads a response to its end; none if there is no whole head.
    pub(crate) async fn response(&mut self) -> Option<Response> {
        let head = self.head().await?;
        Some(self.rest_of(head).await)
    }

    async fn rest_of(&mut self, head: String) -> Response {
        let mut response = Response {
            status: status(&head),
            head,
            body: Vec::new(),
        };
        if response.header("transfer-encoding").is_some() {
            response.body = self.chunks().await;
        } else if let Some(length) = response.header("content-length") {
            let length = length.parse().unwrap();
            response.body = self.exactly(length).await;
        }
        response
    }

    /// Reads the head of a response; none if the connection ends before.
    pub(crate) async fn head(&mut self) -> Option<String> {
        self.until(b"\r\n\r\n")
            .await
            .map(|head| String::from_utf8(head).unwrap())
    }

    pub(crate) async fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.rest.len() < count {
            assert!(
                self.more().await > 0,
                "ended after {} of {count}",
                self.rest.len()
            );
        }
        self.rest.drain(..count).collect()
    }

    /// Reads to the end of the connection.
    pub(crate) async fn until_end(&mut self) -> Vec<u8> {
        while self.more().await > 0 {}
        std::mem::take(&mut self.rest)
    }

    async fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self.rest.windows(end.len()).position(|bytes| bytes == end);
            if let Some(at) = found {
                return Some(self.rest.drain(..at + end.len()).collect());
            }
            if self.more().await == 0 {
                return None;
            }
        }
    }

    /// Reads chunks and what trails them, which is put behind the body.
    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let Some(line) = self.until(b"\r\n").await else {
                return body;
            };
            let line = String::from_utf8(line).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            if size == 0 {
                break;
            }
            body.extend(self.exactly(size).await);
            self.exactly(2).await;
        }
        loop {
            match self.until(b"\r\n").await {
                Some(line) if line != b"\r\n" => body.extend(line),
                Some(_) | None => return body,
            }
        }
    }

    async fn more(&mut self) -> usize {
        let mut piece = vec![0; 16_384];
        let read = timeout(PATIENCE, self.stream.read(&mut piece)).await;
        // A connection that was reset is at its end too.
        let count = read.unwrap().unwrap_or(0);
        self.rest.extend_from_slice(&piece[..count]);
        count
    }
}

fn status(head: &str) -> u16 {
    let mut words = head.split(' ');
    assert_eq!(words.next(), Some("HTTP/1.1"), "{head}");
    words.next().unwrap().parse().unwrap()
}
