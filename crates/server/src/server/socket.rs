//! One accepted socket: what clients read where the HTTP library speaks for itself, and the end.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    body::{Frame, SizeHint},
};
use outlast_api::Unread;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    sync::oneshot,
    time::{Sleep, sleep, timeout},
};

/// How much of what a client still sends is taken after its answer: the largest body, four times.
const TAKEN: usize = 128 * 1024 * 1024;

/// How long that goes on.
const LINGER: Duration = Duration::from_secs(30);

/// How long it may pause meanwhile.
const PAUSE: Duration = Duration::from_secs(5);

/// How long the head of a request may take once it has begun. One that is never whole would hold its
/// place as long as a connection that is of use may rest.
const HEAD: Duration = Duration::from_secs(30);

/// Bytes that are taken at once.
const PIECE: usize = 16 * 1024;

/// Makes the answer to what was no request.
pub(super) type Refuse = Arc<dyn Fn(StatusCode) -> Unread + Send + Sync>;

/// What a connection's service and its socket know of each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    /// A request is with the service, or its answer is not at its end.
    busy: AtomicBool,
    /// What is written belongs to a request.
    owed: AtomicBool,
    /// Requests so far.
    count: AtomicU64,
}

impl Turn {
    /// Notes that the service has got a request.
    pub(super) fn begin(&self) {
        self.0.busy.store(true, SeqCst);
        self.0.owed.store(true, SeqCst);
        self.0.count.fetch_add(1, SeqCst);
    }

    /// Notes when the answer is at its end.
    pub(super) fn answer(&self, response: Response<Body>) -> Response<Answer> {
        let turn = self.clone();
        response.map(|body| Answer { body, turn })
    }

    /// Notes that everything is written so far.
    fn flushed(&self) {
        if !self.0.busy.load(SeqCst) {
            self.0.owed.store(false, SeqCst);
        }
    }

    /// Returns how many requests there were, if none is at work.
    fn waits(&self) -> Option<u64> {
        (!self.0.busy.load(SeqCst)).then(|| self.0.count.load(SeqCst))
    }

    fn is_owed(&self) -> bool {
        self.0.owed.load(SeqCst)
    }
}

/// The body of an answer; dropped, it is at its end.
pub(super) struct Answer {
    body: Body,
    turn: Turn,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.turn.0.busy.store(false, SeqCst);
    }
}

/// A socket as the HTTP library has it.
///
/// What that writes while no request is at work is its own: it refuses what it cannot read with a
/// bare status, and has no place to say more. The socket says the same in the API's form.
pub(super) struct Socket {
    stream: Option<TcpStream>,
    back: Option<oneshot::Sender<TcpStream>>,
    turn: Turn,
    refuse: Refuse,
    /// What is to be written in place of the library's own words.
    own: Bytes,
    /// The request whose head has begun to arrive, and until when it has to be whole.
    head: Option<(u64, Pin<Box<Sleep>>)>,
}

impl Socket {
    /// Returns the socket, and who gets the stream when the library has let go of it.
    pub(super) fn new(
        stream: TcpStream,
        turn: Turn,
        refuse: Refuse,
    ) -> (Self, oneshot::Receiver<TcpStream>) {
        let (back, returned) = oneshot::channel();
        let socket = Self {
            stream: Some(stream),
            back: Some(back),
            turn,
            refuse,
            own: Bytes::new(),
            head: None,
        };
        (socket, returned)
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let stream = self.stream.as_mut();
        Ok(Pin::new(stream.ok_or(io::ErrorKind::NotConnected)?))
    }

    /// Fails once a head that has begun took too long, a byte at a time or not at all.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let waits = self.turn.waits();
        self.head = self
            .head
            .take()
            .filter(|(number, _)| Some(*number) == waits);
        let head = self.head.as_mut();
        if head.is_some_and(|(_, end)| end.as_mut().poll(cx).is_ready()) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// Notes that something arrived; where no request is at work it is a head.
    fn arrived(&mut self) {
        if let Some(number) = self.turn.waits() {
            let begun = || (number, Box::pin(sleep(HEAD)));
            self.head.get_or_insert_with(begun);
        }
    }

    /// Takes words of the library's own.
    fn replace(&mut self, head: &[u8]) {
        self.own = dressed(head, &self.refuse).unwrap_or_else(|| Bytes::copy_from_slice(head));
    }

    fn poll_own(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.own.is_empty() {
            let own = self.own.clone();
            let written = ready!(self.stream()?.poll_write(cx, &own))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.own = self.own.split_off(written.min(own.len()));
        }
        Poll::Ready(Ok(()))
    }
}

/// Gives an answer without a body the form of the API; `None` if it is no such answer.
fn dressed(head: &[u8], refuse: &Refuse) -> Option<Bytes> {
    let text = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    let status = StatusCode::from_bytes(text.get(9..12)?.as_bytes()).ok()?;
    if !status.is_client_error() {
        return None;
    }
    let Unread { headers, body } = refuse(status);
    let others = |line: &&str| !line.to_ascii_lowercase().starts_with("content-length:");
    let mut whole: Vec<_> = text.lines().filter(others).map(str::to_owned).collect();
    for (name, value) in &headers {
        whole.push(format!("{name}: {}", value.to_str().ok()?));
    }
    whole.push(format!("content-length: {}\r\n\r\n{body}", body.len()));
    Some(whole.join("\r\n").into())
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_head(cx)?;
        let before = buffer.filled().len();
        let read = self.stream()?.poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.arrived();
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.turn.is_owed() {
            return self.stream()?.poll_write_vectored(cx, slices);
        }
        ready!(self.poll_own(cx))?;
        let head = slices
            .iter()
            .map(|slice| &**slice)
            .collect::<Vec<_>>()
            .concat();
        self.replace(&head);
        Poll::Ready(Ok(head.len()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_own(cx))?;
        ready!(self.stream()?.poll_flush(cx))?;
        self.turn.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_own(cx))?;
        self.stream()?.poll_shutdown(cx)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let (Some(stream), Some(back)) = (self.stream.take(), self.back.take()) {
            // Whoever wants it no more lets it be closed.
            drop(back.send(stream));
        }
    }
}

/// Takes what a client is still sending, for a while, and keeps nothing of it.
///
/// A socket that is closed with something unread resets the connection, and the client may never
/// see the answer that says why.
pub(super) async fn linger(mut stream: TcpStream) {
    // It may be shut down already.
    drop(stream.shutdown().await);
    let taking = async {
        let (mut piece, mut left) = (vec![0; PIECE], TAKEN);
        while let Ok(Ok(read @ 1..)) = timeout(PAUSE, stream.read(&mut piece)).await {
            left = left.saturating_sub(read);
            if left == 0 {
                return;
            }
        }
    };
    drop(timeout(LINGER, taking).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse() -> Refuse {
        Arc::new(|status| Unread {
            headers: [
                ("content-type", "application/json"),
                ("request-id", "req_1"),
            ]
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())),
            body: format!("{{\"status\":{}}}", status.as_u16()),
        })
    }

    #[test]
    fn a_bare_refusal_gets_the_form_of_the_api() {
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                    content-length: 0\r\ndate: now\r\n\r\n";
        let whole = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                     date: now\r\ncontent-type: application/json\r\nrequest-id: req_1\r\n\
                     content-length: 14\r\n\r\n{\"status\":431}";
        assert_eq!(dressed(bare.as_bytes(), &refuse()).unwrap(), whole);
        for other in [
            "",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 400 Bad",
            "\u{fd}\r\n\r\n",
        ] {
            assert_eq!(dressed(other.as_bytes(), &refuse()), None, "{other}");
        }
    }

    /// Returns both ends of a connection, the one as the library has it.
    async fn pair(turn: &Turn) -> (TcpStream, Socket) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let (socket, _) = Socket::new(accepted.unwrap().0, turn.clone(), refuse());
        (client.unwrap(), socket)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_never_gets_whole_ends_and_a_connection_at_rest_does_not() {
        let turn = Turn::default();
        let (mut client, mut socket) = pair(&turn).await;
        let mut bytes = [0; 64];
        // At rest it may stay.
        let rest = timeout(10 * HEAD, socket.read(&mut bytes)).await;
        assert!(rest.is_err());
        // A whole request, and then rest again.
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(socket.read(&mut bytes).await.unwrap(), 18);
        turn.begin();
        drop(turn.answer(Response::new(Body::empty())));
        let rest = timeout(10 * HEAD, socket.read(&mut bytes)).await;
        assert!(rest.is_err());
        // Half a head, and then a byte now and then.
        let began = tokio::time::Instant::now();
        let ended = loop {
            client.write_all(b"G").await.unwrap();
            match timeout(HEAD / 4, socket.read(&mut bytes)).await {
                Ok(Ok(_)) => sleep(HEAD / 4).await,
                Ok(Err(error)) => break error,
                Err(_) => {}
            }
        };
        assert_eq!(ended.kind(), io::ErrorKind::ConnectionAborted);
        assert!(began.elapsed() <= 2 * HEAD, "{:?}", began.elapsed());
        drop(client);
    }

    #[test]
    fn what_is_written_is_owed_until_all_of_an_answer_is_flushed() {
        let turn = Turn::default();
        assert!(!turn.is_owed());
        turn.begin();
        let response = turn.answer(Response::new(Body::from("x")));
        turn.flushed();
        assert!(turn.is_owed(), "its body is not at its end");
        drop(response);
        assert!(turn.is_owed(), "it is not written out");
        turn.flushed();
        assert!(!turn.is_owed());
    }
}
