//! Connections that break, hosts that end, hosts of another version, other users.

use std::{
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use outlast_hands::{
    CallError, Provisioner as _, Recalled,
    fake::{Fakes, Reply},
    host::{Ended, Found, Options, Place, Remote, Starter, VERSION},
};
use outlast_protocol::CallResult;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
};

use super::{LONG, Running, fakes, options, remote};
use crate::support::{FENCE, call_id, raw, recipe, text, until};

/// How many calls go over connections that break.
const CALLS: usize = 100;

/// Passes bytes on to a host and cuts each connection after some, in either direction.
async fn cut(listener: UnixListener, host: std::path::PathBuf, cuts: Arc<AtomicUsize>) {
    let mut after = 1;
    loop {
        let (mut here, _) = listener.accept().await.unwrap();
        let mut there = UnixStream::connect(&host).await.unwrap();
        // From nothing at all to several whole answers.
        after = (after * 7 + 13) % 1500;
        let (mut left, mut up, mut down) = (after, vec![0; 512], vec![0; 512]);
        let cuts = cuts.clone();
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        tokio::spawn(async move {
            loop {
                let (bytes, to) = tokio::select! {
                    read = here.read(&mut up) => (&up[..read.unwrap_or(0)], &mut there),
                    read = there.read(&mut down) => (&down[..read.unwrap_or(0)], &mut here),
                };
                if bytes.is_empty() {
                    return;
                }
                let part = &bytes[..bytes.len().min(left)];
                left -= part.len();
                if to.write_all(part).await.is_err() || left == 0 {
                    cuts.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_no_lost_hand_and_no_second_run() {
    let (dir, front) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let driver = Fakes::new(|asked| {
        let result = CallResult::text(asked.call.to_string());
        Reply::After(Duration::from_millis(2), result)
    });
    let place = Place::usual(dir.path());
    let host = Running::start(place.clone(), Arc::new(driver.clone()), options(LONG));
    // As long as its lock is held, the host lives.
    let proxy = Place::usual(front.path());
    let _lock = proxy.take().await.unwrap();
    let (listener, cuts) = (
        UnixListener::bind(proxy.socket()).unwrap(),
        Arc::<AtomicUsize>::default(),
    );
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    tokio::spawn(cut(listener, place.socket(), cuts.clone()));
    let remote = remote(front.path()).await;
    let hand = remote.provision(&recipe()).await.unwrap();
    for _ in 0..CALLS / 10 {
        let asked = (0..10).map(async |_| {
            let call = call_id();
            let done = hand.execute(FENCE, call, "tool", &raw(&json!({}))).await;
            assert_eq!(text(&done.unwrap()), call.to_string());
            assert_eq!(driver.executions(call), 1);
        });
        futures::future::join_all(asked).await;
    }
    assert!(cuts.load(Ordering::Relaxed) > CALLS / 4, "{cuts:?}");
    host.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_when_its_connection_ends() {
    let dir = tempfile::tempdir().unwrap();
    let driver = Fakes::new(|_| Reply::After(Duration::from_millis(300), CallResult::text("late")));
    let host = Running::start(
        Place::usual(dir.path()),
        Arc::new(driver.clone()),
        options(LONG),
    );
    let recipe = recipe();
    let call = call_id();
    {
        let first = remote(dir.path()).await;
        let hand = first.provision(&recipe).await.unwrap();
        let input = raw(&json!({}));
        let gone = hand.execute(FENCE, call, "tool", &input);
        tokio::time::timeout(Duration::from_millis(50), gone)
            .await
            .unwrap_err();
    }
    let second = remote(dir.path()).await;
    let hand = second.find(recipe.incarnation).await.unwrap();
    let done = hand.execute(FENCE, call, "tool", &raw(&json!({}))).await;
    assert_eq!(text(&done.unwrap()), "late");
    assert_eq!(driver.executions(call), 1);
    host.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_gone_is_a_loss_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let host = Running::start(Place::usual(dir.path()), Arc::new(fakes()), options(LONG));
    let remote = remote(dir.path()).await;
    let recipe = recipe();
    let hand = remote.provision(&recipe).await.unwrap();
    let input = raw(&json!({}));
    let kill = async {
        until_begun(&remote, &recipe).await;
        tokio::task::spawn_blocking(|| host.die()).await.unwrap();
    };
    let (call, _) = tokio::join!(hand.execute(FENCE, BEGUN.get(), "endless", &input), kill);
    let Err(CallError::Lost(lost)) = call else {
        panic!("not lost: {call:?}");
    };
    assert!(lost.handed_over && lost.reason.contains("ended"), "{lost}");
    assert!(remote.find(recipe.incarnation).await.is_none());
    assert_eq!(
        remote.recall(recipe.incarnation, call_id()).await,
        Recalled::Unknown
    );
    remote.provision(&recipe).await.unwrap_err();
}

/// The call that a host dies of.
static BEGUN: Begun = Begun(std::sync::OnceLock::new());

struct Begun(std::sync::OnceLock<outlast_protocol::id::EventId>);

impl Begun {
    fn get(&self) -> outlast_protocol::id::EventId {
        *self.0.get_or_init(call_id)
    }
}

async fn until_begun(remote: &Remote, recipe: &outlast_hands::Recipe) {
    while remote.recall(recipe.incarnation, BEGUN.get()).await != Recalled::Begun {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts hosts in this process.
#[derive(Debug, Default)]
struct Here {
    started: Mutex<Vec<(Place, Running)>>,
}

#[async_trait]
impl Starter for Here {
    async fn start(&self, place: &Place) -> std::io::Result<()> {
        let host = Running::start(place.clone(), Arc::new(fakes()), options(LONG));
        self.started.lock().unwrap().push((place.clone(), host));
        Ok(())
    }
}

impl Here {
    fn stop(&self) {
        for (_, host) in self.started.lock().unwrap().drain(..) {
            host.stop();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_gone_is_followed_by_another() {
    let (dir, starter) = (tempfile::tempdir().unwrap(), Arc::new(Here::default()));
    let open = || Remote::open(dir.path(), Some(starter.clone() as Arc<dyn Starter>));
    let (remote, found) = open().await.unwrap();
    assert_eq!(found, Found::Started);
    assert_eq!(open().await.unwrap().1, Found::Adopted);
    let hand = remote.provision(&recipe()).await.unwrap();
    let (_, host) = starter.started.lock().unwrap().pop().unwrap();
    host.die();
    // Several at once start one.
    let (input, call) = (raw(&json!({})), call_id());
    let (lost, listed, next) = tokio::join!(
        hand.execute(FENCE, call, "tool", &input),
        remote.list(),
        async { remote.provision(&recipe()).await },
    );
    assert!(matches!(lost, Err(CallError::Lost(_))), "{lost:?}");
    drop(listed);
    let done = next.unwrap().execute(FENCE, call, "tool", &input).await;
    done.unwrap();
    assert_eq!(starter.started.lock().unwrap().len(), 1);
    starter.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_drains_ends_with_its_last_call() {
    let dir = tempfile::tempdir().unwrap();
    let old = Running::start(
        Place::usual(dir.path()),
        Arc::new(Fakes::new(|_| {
            Reply::After(Duration::from_millis(500), CallResult::text("done"))
        })),
        options(LONG),
    );
    let remote = remote(dir.path()).await;
    let hand = remote.provision(&recipe()).await.unwrap();
    let input = raw(&json!({}));
    let call = hand.execute(FENCE, call_id(), "tool", &input);
    let drain = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ask(&Place::usual(dir.path()).socket(), "POST /v1/host/drain").await
    };
    let (done, said) = tokio::join!(call, drain);
    assert!(said.contains("200 OK"), "{said}");
    assert_eq!(text(&done.unwrap()), "done");
    let ended = tokio::task::spawn_blocking(|| old.thread.join().unwrap());
    assert_eq!(ended.await.unwrap(), Some(Ended::Drained));
}

/// Neither a newer one nor the one before, whose hands never have a way out, is spoken with.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_version_drains_and_one_starts_beside_it() {
    for version in [VERSION + 1, VERSION - 1] {
        let (dir, starter) = (tempfile::tempdir().unwrap(), Arc::new(Here::default()));
        let foreign = Running::start(
            Place::usual(dir.path()),
            Arc::new(fakes()),
            Options {
                version,
                ..options(LONG)
            },
        );
        let open = || Remote::open(dir.path(), Some(starter.clone() as Arc<dyn Starter>));
        let (remote, found) = open().await.unwrap();
        assert_eq!(found, Found::Beside);
        remote.provision(&recipe()).await.unwrap();
        let ended = tokio::task::spawn_blocking(|| foreign.thread.join().unwrap());
        assert_eq!(ended.await.unwrap(), Some(Ended::Drained));
        // The next server finds the one that fits.
        assert_eq!(open().await.unwrap().1, Found::Adopted);
        let started = starter.started.lock().unwrap();
        let places: Vec<_> = started
            .iter()
            .map(|(place, _)| place.stem().to_owned())
            .collect();
        drop(started);
        assert_eq!(places, [format!("hand-host-v{VERSION}")]);
        starter.stop();
    }
}

/// Makes one bare request and returns the whole answer.
pub(super) async fn ask(socket: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let text = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_ends_when_nobody_speaks_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let short = Duration::from_millis(600);
    let driver = fakes();
    let host = Running::start(
        Place::usual(dir.path()),
        Arc::new(driver.clone()),
        options(short),
    );
    let recipe = recipe();
    {
        let remote = remote(dir.path()).await;
        remote.provision(&recipe).await.unwrap();
        // A server that is there and asks for nothing keeps it.
        drop(tokio::time::timeout(short * 4, remote.attend()).await);
        assert!(!host.thread.is_finished());
        assert!(driver.find(recipe.incarnation).await.is_some());
    }
    until("the host ends", || host.thread.is_finished()).await;
    assert_eq!(host.thread.join().unwrap(), Some(Ended::Orphaned));
    // Its hand ended with it and left what it had.
    assert!(driver.find(recipe.incarnation).await.is_none());
    assert_eq!(driver.list().await, [recipe.incarnation]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_hands_ends_with_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::usual(dir.path());
    let host = Running::start(place.clone(), Arc::new(fakes()), options(LONG));
    let remote = remote(dir.path()).await;
    let recipe = recipe();
    remote.provision(&recipe).await.unwrap();
    remote.leave().await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!host.thread.is_finished(), "it has a hand");
    remote
        .reap(recipe.incarnation, outlast_hands::Keep::Layer)
        .await
        .unwrap();
    remote.leave().await;
    until("the host ends", || host.thread.is_finished()).await;
    assert_eq!(host.thread.join().unwrap(), Some(Ended::Unused));
    assert!(!place.is_held().unwrap() && !place.socket().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_users_are_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(dir.path(), 0o755);
    let place = Place::usual(dir.path());
    let host = Running::start(place.clone(), Arc::new(fakes()), options(LONG));
    let http = "s.send(b'GET /v1/host HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n')".to_owned();
    let unknown = recipe().incarnation;
    let outlet = format!("s.send(b'{unknown}'); s.shutdown(1)");
    let outlets = dir.path().join("hand-host.outlets.sock");
    for (socket, asked, answer) in [(place.socket(), http, "200 OK"), (outlets, outlet, "none")] {
        open(&socket, 0o666);
        let script = format!(
            "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({socket:?})\n\
             try:\n  {asked}\n  print(s.recv(99))\n\
             except OSError:\n  print(b'')\n"
        );
        let said = |uid: u32| {
            let mut python = Command::new("python3");
            let done = python.args(["-c", &script]).uid(uid).output().unwrap();
            assert!(done.status.success(), "{done:?}");
            String::from_utf8(done.stdout).unwrap()
        };
        assert!(said(0).contains(answer), "{}", said(0));
        assert_eq!(said(65_534).trim(), "b''");
    }
    host.stop();
    // And a server does not speak to a host of another user.
    let listen = format!(
        "import socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind({:?})\ns.listen()\n\
         c, _ = s.accept()\nprint(c.recv(99))\n",
        place.socket()
    );
    open(dir.path(), 0o777);
    let mut python = Command::new("python3");
    let child = python
        .args(["-c", &listen])
        .uid(65_534)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let _lock = place.take().await.unwrap();
    until("it listens", || place.socket().exists()).await;
    let opened = tokio::time::timeout(Duration::from_secs(3), Remote::open(dir.path(), None));
    assert!(opened.await.is_err(), "it spoke to another user's host");
    let done = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap().trim(), "b''");
}
