//! One hand, as its connections see it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use outlast_kernel::{Bound, Unreachable};
use outlast_protocol::id::IncarnationId;
use outlast_reach::{Dialer, Host};
use rustls::{ClientConfig, ServerConfig};
use tokio::{net::TcpStream, sync::Semaphore, task::JoinHandle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    answer::Answer,
    audit::{Audit, Decided},
    authority::Authority,
    credentials::{Credentials, Held},
    kept::Kept,
    listen::{self, Incoming},
    options::{AWAY, DIALING, Options},
    place::Place,
    policy::{Policy, Rule},
    tls::Trust,
    told::{Tell, Told},
    worn::Worn,
};
use crate::metric_definitions as metrics;

/// What all hands share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) dialer: Dialer,
    pub(crate) options: Options,
    pub(crate) audit: Audit,
    pub(crate) credentials: Arc<dyn Credentials>,
    pub(crate) trust: Trust,
}

/// How a tunnel is opened: what the client sees, and what the host does.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) serving: Arc<ServerConfig>,
    pub(crate) asking: Arc<ClientConfig>,
}

/// The rule by which the audit log is told that a hand asks for too much to tell of each.
const MANY: &str = "too_many_refusals";

/// One life of a hand whose way out is served.
#[derive(Debug)]
pub(crate) struct Hand {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bound: Bound,
    pub(crate) policy: Policy,
    /// Connections that it may have open.
    pub(crate) slots: Arc<Semaphore>,
    /// Connections beyond that which are told so.
    pub(crate) away: Arc<Semaphore>,
    dialing: Semaphore,
    /// Cuts everything.
    stop: CancellationToken,
    /// What listens at the moment.
    listening: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    tasks: TaskTracker,
    authority: OnceLock<Option<Authority>>,
    kept: Mutex<Option<Kept>>,
    told: Mutex<Told>,
}

impl Hand {
    pub(crate) fn new(shared: Arc<Shared>, bound: Bound) -> Self {
        let options = &shared.options;
        let policy = Policy::new(&bound.networking, &bound.mcp_hosts, &options.managers);
        let slots = Arc::new(Semaphore::new(options.connections));
        Self {
            shared,
            bound,
            policy,
            slots,
            away: Arc::new(Semaphore::new(AWAY)),
            dialing: Semaphore::new(DIALING),
            stop: CancellationToken::new(),
            listening: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            authority: OnceLock::new(),
            kept: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Runs something until it ends or the hand is let go.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = work => {}
            }
        })
    }

    /// Listens anew; nothing listens where something did before when this returns.
    pub(crate) async fn listen(self: &Arc<Self>, incoming: Incoming) {
        let mut listening = self.listening.lock().await;
        if let Some(before) = listening.take() {
            before.abort();
            // Ended, in whatever way.
            drop(before.await);
        }
        *listening = Some(self.spawn(listen::accept(self.clone(), incoming)));
    }

    /// Cuts everything; nothing more leaves when this returns.
    pub(crate) async fn cut(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Says what allows a host.
    ///
    /// # Errors
    ///
    /// The answer, if nothing does.
    pub(crate) fn decide(&self, host: &Host) -> Result<Rule, Answer> {
        self.policy.decide(host)
    }

    /// Connects to a host, at an address that was checked.
    ///
    /// # Errors
    ///
    /// The answer, if it may not be connected to, or nobody answers.
    pub(crate) async fn connect(&self, place: &Place) -> Result<TcpStream, Answer> {
        // Never closed, so it is always there in the end.
        let _turn = self.dialing.acquire().await;
        let connected = self.shared.dialer.connect(&place.host, place.port).await?;
        // Small requests must not wait for each other; if it cannot be set they do.
        drop(connected.set_nodelay(true));
        Ok(connected)
    }

    async fn held(&self) -> Result<Arc<[Held]>, Answer> {
        let held = self.shared.credentials.of(&self.bound).await;
        held.map_err(|error| Answer::unavailable("credentials", error.to_string()))
    }

    /// Returns how a tunnel to a place is opened; none if no credential may go there.
    ///
    /// # Errors
    ///
    /// The answer, if that cannot be said now: then nothing is sent.
    pub(crate) async fn opening(&self, place: &Place) -> Result<Option<Opening>, Answer> {
        let held = self.held().await?;
        let Some(authority) = self
            .authority()
            .filter(|_| held.iter().any(|one| one.is_for(place)))
        else {
            return Ok(None);
        };
        let no = |error: String| Answer::unavailable("tls", error);
        let serving = authority
            .serving(&place.host)
            .map_err(|error| no(error.to_string()))?;
        let asking = self.shared.trust.config().await;
        let asking = asking.map_err(|error| no(error.to_string()))?;
        Ok(Some(Opening { serving, asking }))
    }

    /// Returns the authority of this life; none without a master key, and then no credential either.
    fn authority(&self) -> Option<&Authority> {
        let made = self.authority.get_or_init(|| {
            let life = self.bound.incarnation;
            authority(&*self.shared.credentials, life)
        });
        made.as_ref()
    }

    /// Returns what this hand's credentials mean for a place at this moment.
    ///
    /// # Errors
    ///
    /// The answer, if they cannot be read.
    pub(crate) async fn worn(&self, place: &Place) -> Result<Arc<Worn>, Answer> {
        let held = self.held().await?;
        Ok(self.kept(held, |kept| kept.worn(place)))
    }

    /// Returns the credentials that name hosts which the hand may not; none if they cannot be read now.
    pub(crate) async fn unreachable(&self) -> Option<Arc<[Unreachable]>> {
        let held = self.held().await.ok()?;
        Some(self.kept(held, |kept| kept.unreachable()))
    }

    /// Looks at what follows from credentials; it is made anew if they are others than before.
    fn kept<T>(&self, held: Arc<[Held]>, look: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_some_and(|kept| !kept.is_of(&held)) {
            *kept = None;
        }
        look(kept.get_or_insert_with(|| Kept::new(held, &self.policy)))
    }

    /// Tells that something went on.
    pub(crate) fn allowed(&self, place: &Place, rule: &str, credential: Option<&str>) {
        let place = place.host.with_port(place.port);
        self.shared.audit.tell(Decided {
            bound: &self.bound,
            place: Some(&place),
            rule,
            allowed: true,
            credential,
        });
    }

    /// Tells that something was refused, or failed.
    pub(crate) fn refused(&self, place: Option<&Place>, answer: &Answer) {
        let rule = answer.rule();
        ::metrics::counter!(metrics::REFUSED, "rule" => rule).increment(1);
        if !answer.is_refusal() {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, rule) = match told.next(Instant::now()) {
            Tell::This => (place, rule),
            Tell::More => (None, MANY),
            Tell::Nothing => return,
        };
        drop(told);
        let place = place.map(|place| place.host.with_port(place.port));
        self.shared.audit.tell(Decided {
            bound: &self.bound,
            place: place.as_deref(),
            rule,
            allowed: false,
            credential: None,
        });
    }
}

/// Makes the authority of a life; none without a master key.
pub(crate) fn authority(credentials: &dyn Credentials, life: IncarnationId) -> Option<Authority> {
    let seed = credentials.seed(life)?;
    match Authority::new(&seed, &life.to_string()) {
        Ok(authority) => Some(authority),
        Err(error) => {
            tracing::error!(incarnation = %life, %error, "{error}; no credential leaves for this hand");
            None
        }
    }
}
