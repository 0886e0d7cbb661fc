//! The egress behind a socket: what it promises, who is refused, and what becomes of either end.

use std::{
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    time::Duration,
};

use outlast_egress::{
    apart::{Options, Peer, Remote, Server, Sockets, serve},
    hand,
};
use outlast_kernel::{Bound, Network as _};
use outlast_protocol::{
    audit::Entry,
    environment::Networking,
    id::{EnvironmentId, IncarnationId, SessionId},
    seam::Clock as _,
};
use outlast_reach::Rule;
use outlast_store::Store;
use outlast_testkit::{memory::Memory, random::Seeded, time::ManualClock, vault};
use outlast_vault::{
    Brought, Custodian as _, Declined, Order, Purpose, Secret, Use,
    custodian::conformance,
    keyring::{Source, Sources},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Runtime,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it waits for what must not come.
const MOMENT: Duration = Duration::from_millis(700);

/// One machine: a folder for the socket, and a store.
struct Machine {
    dir: tempfile::TempDir,
    store: Memory,
    clock: Arc<ManualClock>,
    entropy: Arc<Seeded>,
}

/// What stands for a process: killed, all of its tasks and sockets are gone at once.
struct Process(Option<Runtime>);

impl Process {
    fn new(run: impl Future<Output = ()> + Send + 'static) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        drop(runtime.spawn(run));
        Self(Some(runtime))
    }

    async fn kill(mut self) {
        let runtime = self.0.take().unwrap();
        let killing = tokio::task::spawn_blocking(|| runtime.shutdown_timeout(PATIENCE));
        killing.await.unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Machine {
    fn new() -> Self {
        let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(Seeded::new(1)));
        Self {
            dir: tempfile::tempdir().unwrap(),
            store: Memory::new(clock.clone(), entropy.clone()),
            clock,
            entropy,
        }
    }

    fn peer(&self, user: u32) -> Peer {
        let socket = self.dir.path().join("egress.sock");
        Peer { socket, user }
    }

    fn own(&self) -> Peer {
        use std::os::unix::fs::MetadataExt as _;
        self.peer(std::fs::metadata(self.dir.path()).unwrap().uid())
    }

    /// Starts an egress process for that peer.
    async fn egress(&self, peer: Peer) -> Process {
        let ring = Sources::open(Source::Set(vault::KEY.into()), self.entropy.clone()).await;
        let options = Options {
            hands: hand::Options {
                rule: Rule::new(&["127.0.0.0/8"]).unwrap(),
                ..hand::Options::default()
            },
            ring: Arc::new(ring),
            provider: None,
            models: "none".to_owned(),
            connect: Duration::from_secs(5),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
        };
        Process::new(async move {
            let sockets = Sockets::bind(peer).unwrap();
            serve(sockets, options, CancellationToken::new()).await;
        })
    }

    /// Starts a server, and returns what it has of the egress.
    fn server(&self, name: &str, peer: Peer, noted: Arc<Mutex<Vec<Entry>>>) -> (Remote, Process) {
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        let server = Server {
            name: name.to_owned(),
            listens: "127.0.0.1:1".parse().unwrap(),
            alone: true,
            records: store.into(),
            noted: Arc::new(move |entry| noted.lock().unwrap().push(entry)),
        };
        let remote = Remote::new(peer, server);
        let attending = remote.clone();
        let attending = async move { attending.attend(CancellationToken::new()).await };
        (remote, Process::new(attending))
    }

    fn bound(&self) -> Bound {
        let (now, entropy) = (self.clock.now(), &*self.entropy);
        Bound {
            session: SessionId::mint(now, entropy),
            incarnation: IncarnationId::mint(now, entropy),
            environment: EnvironmentId::mint(now, entropy),
            networking: Networking::Unrestricted,
            vaults: Vec::new(),
            repositories: Vec::new(),
            mcp_hosts: Vec::new(),
        }
    }
}

fn order() -> Order {
    Order {
        owner: "sesrsc_1".to_owned(),
        parent: "sesn_1".to_owned(),
        revision: 1,
        purpose: Use::Repository("https://git.example.com/a/b".to_owned()),
        brought: Brought::from(&Secret::from("canary-of-a-repository")),
        before: None,
    }
}

#[tokio::test]
async fn it_keeps_what_a_custodian_promises() {
    let machine = Machine::new();
    let egress = machine.egress(machine.own()).await;
    let (remote, server) = machine.server("one", machine.own(), Arc::default());
    remote.wait(PATIENCE).await;
    let store: Arc<dyn Store> = Arc::new(machine.store.clone());
    let (clock, entropy) = (machine.clock.clone(), machine.entropy.clone());
    let inside = vault::under(vault::KEY, store, clock, entropy).await;
    inside.unlock().await;
    conformance::run(&remote, &inside, &machine.store).await;
    assert_eq!(remote.about().await.unwrap().models, "none");
    server.kill().await;
    egress.kill().await;
}

#[tokio::test]
async fn it_may_die_and_the_next_one_is_found() {
    let machine = Machine::new();
    let (remote, server) = machine.server("one", machine.own(), Arc::default());
    let declined = remote.secure(order()).await.unwrap_err();
    let Declined::Locked(words) = declined else {
        panic!("{declined}");
    };
    assert!(
        words.contains("start `outlast serve --roles egress`"),
        "{words}"
    );
    assert!(!words.contains("canary"), "{words}");
    assert!(remote.away().is_some() && remote.derive(Purpose::Receipts).is_none());
    let egress = machine.egress(machine.own()).await;
    remote.wait(PATIENCE).await;
    assert_eq!((remote.away(), remote.trouble()), (None, None));
    let key = remote.derive(Purpose::Receipts).unwrap();
    remote.secure(order()).await.unwrap();
    egress.kill().await;
    assert!(matches!(
        remote.secure(order()).await,
        Err(Declined::Locked(_))
    ));
    let until_away = async {
        while remote.away().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, until_away).await.unwrap();
    // What was derived is the same with every process.
    assert_eq!(remote.derive(Purpose::Receipts), Some(key.clone()));
    let egress = machine.egress(machine.own()).await;
    remote.wait(PATIENCE).await;
    remote.secure(order()).await.unwrap();
    assert_eq!(remote.derive(Purpose::Receipts), Some(key));
    server.kill().await;
    egress.kill().await;
}

#[tokio::test]
async fn each_end_refuses_all_users_but_one() {
    let machine = Machine::new();
    let own = machine.own();
    let other = machine.peer(own.user + 1);
    // The server is not whom the egress works for.
    let egress = machine.egress(other.clone()).await;
    let (remote, server) = machine.server("one", own.clone(), Arc::default());
    remote.wait(MOMENT).await;
    assert!(remote.away().is_some());
    server.kill().await;
    egress.kill().await;
    // The egress is not whom the server trusts.
    let egress = machine.egress(own.clone()).await;
    let (remote, server) = machine.server("two", other, Arc::default());
    remote.wait(MOMENT).await;
    let words = remote.away().unwrap();
    assert!(
        words.contains(&format!("runs as user {}", own.user)),
        "{words}"
    );
    assert!(remote.secure(order()).await.is_err());
    server.kill().await;
    egress.kill().await;
}

#[tokio::test]
async fn one_server_at_a_time_is_served() {
    let machine = Machine::new();
    let egress = machine.egress(machine.own()).await;
    let (first, first_server) = machine.server("one", machine.own(), Arc::default());
    first.wait(PATIENCE).await;
    let (second, second_server) = machine.server("two", machine.own(), Arc::default());
    second.wait(MOMENT).await;
    let words = second.away().unwrap();
    assert!(words.contains("works for another server"), "{words}");
    assert!(second.secure(order()).await.is_err());
    first.secure(order()).await.unwrap();
    first_server.kill().await;
    second.wait(PATIENCE).await;
    second.secure(order()).await.unwrap();
    second_server.kill().await;
    egress.kill().await;
}

#[tokio::test]
async fn a_listener_that_makes_its_thread_wait_holds_up_nothing_else() {
    let machine = Machine::new();
    let egress = machine.egress(machine.own()).await;
    let (remote, server) = machine.server("one", machine.own(), Arc::default());
    remote.wait(PATIENCE).await;
    let outlet = TcpListener::bind("127.0.0.1:0").unwrap();
    let kept = outlet.try_clone().unwrap();
    remote.attach(machine.bound(), outlet).await;
    // All who have a socket share whether it blocks: now whoever accepts next waits for the one after.
    kept.set_nonblocking(false).unwrap();
    let proxy = kept.local_addr().unwrap();
    let knocked = [(); 2].map(|()| std::net::TcpStream::connect(proxy).unwrap());
    sleep(MOMENT).await;
    remote.secure(order()).await.unwrap();
    server.kill().await;
    let (next, next_server) = machine.server("two", machine.own(), Arc::default());
    next.wait(PATIENCE).await;
    next.secure(order()).await.unwrap();
    next_server.kill().await;
    egress.kill().await;
    drop(knocked);
}

#[tokio::test]
async fn what_is_no_listener_is_not_taken_for_one() {
    let machine = Machine::new();
    let egress = machine.egress(machine.own()).await;
    let (remote, server) = machine.server("one", machine.own(), Arc::default());
    remote.wait(PATIENCE).await;
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(other.local_addr().unwrap()).unwrap();
    for socket in [OwnedFd::from(datagrams), OwnedFd::from(stream)] {
        let peer = machine.own();
        let refused = give(&peer, &machine.bound(), TcpListener::from(socket)).await;
        assert!(refused.contains("no socket that listens"), "{refused}");
    }
    server.kill().await;
    egress.kill().await;
}

/// Hands something over as the server of the name `one` does; returns what is answered.
async fn give(peer: &Peer, bound: &Bound, outlet: TcpListener) -> String {
    let path = format!("{}.outlets", peer.socket.display());
    let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let message = serde_json::json!({"server": "one", "bound": bound}).to_string();
    let sent = stream.async_io(tokio::io::Interest::WRITABLE, || {
        outlast_init::outlet::give(&stream, message.as_bytes(), &outlet)
    });
    assert_eq!(sent.await.unwrap(), message.len());
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Serves plain HTTP for ever; what it says is always the same.
fn host() -> (SocketAddr, Process) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    let process = Process::new(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4096];
            let _read = stream.read(&mut asked).await;
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nhere";
            let _written = stream.write_all(answer.as_bytes()).await;
        }
    });
    (at, process)
}

/// Asks through a way out; none if nobody answers.
async fn asked(proxy: SocketAddr, at: SocketAddr) -> Option<String> {
    let asking = async {
        let mut stream = TcpStream::connect(proxy).await.ok()?;
        let request =
            format!("GET http://{at}/ HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    };
    timeout(MOMENT * 3, asking).await.ok().flatten()
}

fn is_served(answer: Option<String>) -> bool {
    answer.is_some_and(|answer| answer.ends_with("here"))
}

#[tokio::test]
async fn what_leaves_a_sandbox_stops_with_either_end_and_goes_on_with_the_next() {
    let (machine, noted) = (Machine::new(), Arc::new(Mutex::new(Vec::new())));
    let (at, host) = host();
    let egress = machine.egress(machine.own()).await;
    let (remote, server) = machine.server("one", machine.own(), noted.clone());
    remote.wait(PATIENCE).await;
    let outlet = TcpListener::bind("127.0.0.1:0").unwrap();
    let (proxy, bound) = (outlet.local_addr().unwrap(), machine.bound());
    // The host of the sandbox has it too, as long as that lives.
    let kept = outlet.try_clone().unwrap();
    let dressed = remote.dress(&bound).await.unwrap();
    assert!(
        dressed
            .authority
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE")
    );
    remote.attach(bound.clone(), outlet).await;
    assert!(is_served(asked(proxy, at).await));
    let entry = async {
        while noted.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, entry)
        .await
        .expect("decisions are in the server's audit log");

    egress.kill().await;
    assert!(asked(proxy, at).await.is_none(), "nobody accepts");
    let egress = machine.egress(machine.own()).await;
    remote.wait(PATIENCE).await;
    assert!(
        is_served(asked(proxy, at).await),
        "it was handed over again"
    );

    // Nobody could revoke it any more: it is let go at once.
    server.kill().await;
    drop(remote);
    sleep(MOMENT).await;
    assert!(asked(proxy, at).await.is_none(), "it outlives its server");
    let (remote, server) = machine.server("two", machine.own(), noted);
    remote.wait(PATIENCE).await;
    remote
        .attach(bound.clone(), kept.try_clone().unwrap())
        .await;
    assert!(is_served(asked(proxy, at).await), "the next server has it");
    remote.revoke(bound.incarnation).await;
    assert!(asked(proxy, at).await.is_none(), "it was revoked");
    server.kill().await;
    egress.kill().await;
    host.kill().await;
}
