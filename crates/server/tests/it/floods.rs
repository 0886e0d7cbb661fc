//! More than fits, through the way out of a sandbox: bytes, connections, and a server that dies in between.

use std::{
    convert::Infallible,
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Response, Uri, header::CONTENT_LENGTH},
};
use futures::{StreamExt as _, stream};
use serde_json::json;
use tokio::{net::TcpListener, time::sleep};

use crate::{
    outlets::{PLACE, ran, session},
    support::{Binary, Does as _, TestServer, until},
};

const MIB: u64 = 1 << 20;

/// A host that sends as many MiB as its path says, and counts the bytes that were taken.
#[derive(Clone, Debug)]
struct Fountain {
    at: SocketAddr,
    sent: Arc<AtomicU64>,
}

impl Fountain {
    async fn start() -> Self {
        let listener = TcpListener::bind((PLACE, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let fountain = Self {
            at,
            sent: Arc::default(),
        };
        let router = Router::new().fallback(pour).with_state(fountain.clone());
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        tokio::spawn(axum::serve(listener, router).into_future());
        fountain
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

async fn pour(State(fountain): State<Fountain>, uri: Uri) -> Response<Body> {
    const PIECE: usize = 64 << 10;
    let length = uri.path().trim_matches('/').parse().unwrap_or(0) * MIB;
    let piece = Bytes::from(vec![b'x'; PIECE]);
    let pieces = stream::iter(0..length / PIECE as u64).map(move |_| {
        fountain.sent.fetch_add(PIECE as u64, Ordering::Relaxed);
        Ok::<_, Infallible>(piece.clone())
    });
    Response::builder()
        .header(CONTENT_LENGTH, length)
        .body(Body::from_stream(pieces))
        .unwrap()
}

/// Looks at this process, the server's, until it is asked for the most that it saw.
struct Watch {
    over: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn of(look: fn() -> usize) -> Self {
        let (over, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (is_over, seen) = (over.clone(), most.clone());
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                seen.fetch_max(look(), Ordering::Relaxed);
                thread::park_timeout(Duration::from_millis(5));
            }
        });
        Self { over, most, thread }
    }

    fn most(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.most.load(Ordering::Relaxed)
    }
}

/// Returns the memory that is in use, in MiB.
fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<usize>().unwrap() >> 10
}

/// Returns how many descriptors are open.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn server(fountain: &Fountain) -> TestServer {
    let open = vec![fountain.at.to_string()];
    TestServer::start_with(|config| {
        config.egress.open = open;
        config.hands.disk_mib = 64;
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_is_larger_than_the_disk_meets_its_limit_and_the_session_goes_on() {
    let fountain = Fountain::start().await;
    let (at, server) = (fountain.at, server(&fountain).await);
    let client = server.client();
    let (session, _) = session(client, json!({"type": "unrestricted"})).await;
    let small = format!("curl -sS http://{at}/1 | wc -c");
    assert_eq!(ran(client, &session, &small, 1).await, MIB.to_string());
    let (before, watch) = (memory(), Watch::of(memory));
    // What is not kept passes, however much it is.
    let through = format!("curl -sS http://{at}/1024 | wc -c");
    let told = ran(client, &session, &through, 2).await;
    assert_eq!(told, (1024 * MIB).to_string());
    let before_large = fountain.sent();
    let large = format!("curl -sS -o large http://{at}/10240");
    // What ended it stands behind what was said.
    let told = client.ran(&session, &large, 3).await["content"].to_string();
    assert!(told.contains("disk limit of 64 MiB was "), "{told}");
    let after = format!("rm -f large; {small}");
    assert_eq!(ran(client, &session, &after, 4).await, MIB.to_string());
    // Who does not take it stops whoever sends it: buffers are between them, and nothing else.
    let sent = (fountain.sent() - before_large) / MIB;
    assert!(sent < 1024, "{sent} MiB were sent");
    let grown = watch.most().saturating_sub(before);
    assert!(grown < 128, "the server grew by {grown} MiB");
}

/// Opens ten thousand connections that say the beginning of a request, and holds all that it is left.
const STORM: &str = r#"cat > storm.py <<'END'
import os, socket, time, urllib.parse
place = urllib.parse.urlsplit(os.environ["http_proxy"])
held, closed = [], 0
for _ in range(1000):
    try:
        one = socket.create_connection((place.hostname, place.port), 20)
        held.append(one)
        one.sendall(b"GET http://")
    except OSError:
        closed += 1
time.sleep(3)
open(f"knocked-{os.getpid()}", "w").write(str(len(held)))
END
for _ in 1 2 3 4 5 6 7 8 9 10; do python3 storm.py & done; wait
python3 -c 'import glob; print(sum(int(open(one).read()) for one in glob.glob("knocked-*")))'"#;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_connections_of_one_sandbox_are_bounded_and_others_are_served() {
    let fountain = Fountain::start().await;
    let (at, server) = (fountain.at, server(&fountain).await);
    let client = server.client();
    let (own, _) = session(client, json!({"type": "unrestricted"})).await;
    let (other, _) = session(client, json!({"type": "unrestricted"})).await;
    let small = format!("curl -sS http://{at}/1 | wc -c");
    let fetched = async |session: &str, turn| {
        let told = ran(client, session, &small, turn).await;
        assert_eq!(told, MIB.to_string());
    };
    fetched(&own, 1).await;
    fetched(&other, 1).await;
    let (before, watch) = (descriptors(), Watch::of(descriptors));
    let mut storm = std::pin::pin!(ran(client, &own, STORM, 2));
    let mut turn = 1;
    let knocked = loop {
        let served = async {
            turn += 1;
            fetched(&other, turn).await;
        };
        tokio::pin!(served);
        tokio::select! {
            biased;
            knocked = &mut storm => {
                served.await;
                break knocked;
            }
            () = &mut served => {}
        }
    };
    assert_eq!(knocked, "10000");
    assert!(turn > 3, "the other one was served {turn} times");
    let most = watch.most();
    assert!(most < before + 600, "{before} descriptors became {most}");
    // All of its places are free again.
    fetched(&own, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_whose_server_dies_ends_and_the_next_server_goes_on() {
    let (fountain, dir) = (Fountain::start().await, tempfile::tempdir().unwrap());
    let (at, dir) = (fountain.at, dir.path());
    let file = format!("[egress]\nopen = [\"{at}\"]\n");
    fs::write(dir.join("outlast.toml"), file).unwrap();
    let server = Binary::start(dir, None).await;
    let key = fs::read_to_string(dir.join("local.key")).unwrap();
    let (session, _) = session(&server.client, json!({"type": "unrestricted"})).await;
    let large = format!(
        "(curl -sS --limit-rate 20M http://{at}/10240 | wc -c > got; echo ${{PIPESTATUS[0]}} > ended) \
         > told 2>&1 & echo begun"
    );
    assert_eq!(ran(&server.client, &session, &large, 1).await, "begun");
    until("some of it to arrive", async || {
        (fountain.sent() > 20 * MIB).then_some(())
    })
    .await;
    server.kill().await;
    sleep(Duration::from_millis(500)).await;
    let sent = fountain.sent();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fountain.sent(), sent, "nothing goes on without a server");
    let server = Binary::start(dir, Some(key.trim())).await;
    // It was told, and not left to wait; a part is no whole.
    let told = "for _ in $(seq 50); do [ -s ended ] && break; sleep 0.1; done; cat ended";
    let code = ran(&server.client, &session, told, 2).await;
    assert!(["18", "56"].contains(&code.as_str()), "{code}");
    let small = format!("curl -sS http://{at}/1 | wc -c");
    let told = ran(&server.client, &session, &small, 3).await;
    assert_eq!(told, MIB.to_string());
    assert!(server.stop().await.success());
}
