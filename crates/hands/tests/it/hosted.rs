//! Hands in a host, over a real socket.

mod boots;
mod draining;
mod streams;
mod troubles;

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use outlast_hands::{
    Provisioner,
    conformance::{self, Deed, Fixture},
    fake::{Fakes, Reply},
    files::Abilities,
    host::{Ended, Host, Options, Place, Remote, VERSION},
    namespace::{self, Namespaces},
};
use outlast_protocol::CallResult;
use tokio_util::sync::CancellationToken;

use crate::support::Counter;

/// A host on a runtime of its own, so that it can end with everything it has, as a process does.
#[derive(Debug)]
pub(crate) struct Running {
    stop: CancellationToken,
    die: CancellationToken,
    thread: JoinHandle<Option<Ended>>,
}

impl Running {
    /// Starts a host and returns when it listens.
    pub(crate) fn start(place: Place, provisioner: Arc<dyn Provisioner>, options: Options) -> Self {
        let (stop, die) = (CancellationToken::new(), CancellationToken::new());
        let (stopped, dead) = (stop.clone(), die.clone());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let ended = runtime.block_on(async {
                let lock = place.take().await.unwrap();
                let host = Host::open(lock, provisioner, options).unwrap();
                ready.send(()).unwrap();
                tokio::select! {
                    (ended, _lock) = host.serve(stopped) => Some(ended),
                    () = dead.cancelled() => None,
                }
            });
            runtime.shutdown_background();
            ended
        });
        is_ready.recv().unwrap();
        Self { stop, die, thread }
    }

    pub(crate) fn stop(self) -> Option<Ended> {
        self.stop.cancel();
        self.thread.join().unwrap()
    }

    /// Waits for its end.
    fn ended(self) -> Option<Ended> {
        self.thread.join().unwrap()
    }

    fn die(self) {
        self.die.cancel();
        assert_eq!(self.thread.join().unwrap(), None);
    }
}

pub(crate) fn options(orphan: Duration) -> Options {
    Options {
        isolation: "as a test wants it".to_owned(),
        orphan,
        ..Options::default()
    }
}

pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) async fn remote(dir: &Path) -> Remote {
    Remote::open(dir, None).await.unwrap().0
}

/// Runs the suite against hosts in front of drivers that `make` makes.
async fn conforms(
    make: impl AsyncFn(&Path) -> Arc<dyn Provisioner>,
    quick: (&'static str, &'static str),
    endless: (&'static str, &'static str),
    deed: fn(&Deed) -> (String, String),
) {
    let (dir, number) = (tempfile::tempdir().unwrap(), AtomicU64::new(0));
    let hosts = Mutex::new(Vec::new());
    conformance::run(async || {
        let dir = dir
            .path()
            .join(number.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir(&dir).unwrap();
        let driver = make(&dir).await;
        let host = Running::start(Place::usual(&dir), driver, options(LONG));
        hosts.lock().unwrap().push(host);
        Fixture {
            provisioner: Arc::new(remote(&dir).await),
            entropy: Arc::new(Counter),
            quick,
            endless,
            deed,
        }
    })
    .await;
    for host in hosts.into_inner().unwrap() {
        assert_eq!(host.stop(), Some(Ended::Told));
    }
}

fn fakes() -> Fakes {
    able(Abilities::ALL)
}

fn able(abilities: Abilities) -> Fakes {
    let number = AtomicU64::new(0);
    Fakes::with(abilities, move |asked| match asked.name.as_str() {
        "endless" => Reply::Never,
        "deed" => Reply::Deed,
        _ => {
            let number = number.fetch_add(1, Ordering::Relaxed);
            Reply::Now(CallResult::text(number.to_string()))
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_waits_for_servers_as_the_newest_one_says() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::usual(dir.path());
    let host = Running::start(place, Arc::new(fakes()), options(LONG));
    let mut first = remote(dir.path()).await;
    first.wait_for_servers(Duration::from_secs(300)).await;
    assert_eq!(first.about().orphan_ms, 300_000);
    let mut second = remote(dir.path()).await;
    assert_eq!(second.about().orphan_ms, 300_000);
    second.wait_for_servers(Duration::from_millis(100)).await;
    // Nobody speaks any more.
    assert_eq!(host.ended(), Some(Ended::Orphaned));
}

#[tokio::test(flavor = "multi_thread")]
async fn pretended_hands_in_a_host_conform() {
    for abilities in [Abilities::ALL, Abilities::default()] {
        let make = async |_: &Path| Arc::new(able(abilities)) as Arc<dyn Provisioner>;
        let (quick, endless) = (("quick", "{}"), ("endless", "{}"));
        conforms(make, quick, endless, Deed::pretended).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_in_a_host_conform() {
    let make = async |dir: &Path| {
        let options = namespace::Options::at(dir.join("hands"));
        let made = Namespaces::new(options).await.unwrap();
        Arc::new(made) as Arc<dyn Provisioner>
    };
    let quick = ("bash", r#"{"command": "date +%N; echo $RANDOM$RANDOM"}"#);
    let endless = ("bash", r#"{"command": "sleep 1000"}"#);
    conforms(make, quick, endless, Deed::in_bash).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let driver = Arc::new(Fakes::obliging());
    let host = Running::start(Place::usual(dir.path()), driver, options(LONG));
    let remote = remote(dir.path()).await;
    let about = remote.about();
    assert_eq!((about.version, about.pid), (VERSION, std::process::id()));
    assert_eq!(about.isolation, "as a test wants it");
    assert_eq!((about.orphan_ms, about.draining), (600_000, false));
    host.stop();
}
