//! Stands between a client and its server, and keeps every byte that the client is told.

use std::{
    fs::File,
    io::Write as _,
    net::SocketAddr,
    os::fd::AsRawFd as _,
    sync::{LazyLock, Mutex, PoisonError},
};

use outlast_testkit::canary::Search;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// What clients of this test process saw: a file, because tests look at how much memory the server takes.
///
/// It has no name, so that nothing stays of it.
static SEEN: LazyLock<Mutex<File>> = LazyLock::new(|| Mutex::new(tempfile::tempfile().unwrap()));

/// Keeps what a client saw, to be searched at the end.
pub(crate) fn note(seen: &[u8]) {
    keep(&[seen, b"\n"].concat());
}

fn keep(seen: &[u8]) {
    let mut all = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    all.write_all(seen).unwrap();
}

/// Tells what stands in what clients of this test process saw.
pub(crate) fn wrong(search: &Search) -> Vec<String> {
    let all = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let path = format!("/proc/self/fd/{}", all.as_raw_fd());
    search.file_as("what clients saw", path.as_ref())
}

/// Listens at an address of its own and passes on.
#[derive(Debug)]
pub(crate) struct Ear {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Ear {
    pub(crate) async fn open(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        #[expect(
            clippy::disallowed_methods,
            reason = "ended by the server that it belongs to"
        )]
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                open.spawn(pass(client, server));
            }
        });
        Self { url, task }
    }

    /// Ends it with all of its connections.
    pub(crate) fn close(&self) {
        self.task.abort();
    }
}

/// Passes on what is said on one connection, each end with its direction.
async fn pass(client: TcpStream, server: SocketAddr) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    for socket in [&client, &server] {
        drop(socket.set_nodelay(true));
    }
    let (mut asks, mut told) = client.into_split();
    let (mut answers, mut asked) = server.into_split();
    let there = async {
        drop(copy(&mut asks, &mut asked).await);
        drop(asked.shutdown().await);
        // What the server no longer takes is read all the same: closing before would take its last
        // answer away from the client.
        drop(copy(&mut asks, &mut sink()).await);
    };
    let back = async {
        let mut bytes = vec![0; 65_536];
        // One piece follows the other without a line between: a secret may lie across the edge.
        while let Ok(read @ 1..) = answers.read(&mut bytes).await {
            keep(&bytes[..read]);
            if told.write_all(&bytes[..read]).await.is_err() {
                break;
            }
        }
        drop(told.shutdown().await);
    };
    tokio::join!(there, back);
}
