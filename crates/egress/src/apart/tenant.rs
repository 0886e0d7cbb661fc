//! The server that the egress process works for at the moment.
//!
//! It is known by a name that it made for itself, and stays as long as one link of it stands. What was
//! made for it goes with it: its vault with all that was opened, and every way out.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use hyper::upgrade::Upgraded;
use outlast_kernel::Sweep as _;
use outlast_reach::{Dialer, System};
use outlast_scrub::Scrubber;
use outlast_store::ReadError;
use outlast_vault::{Declined, Parts, Vault};
use tokio::sync::{OnceCell, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Options, Peer,
    doorman::Doorman,
    linked::Linked,
    wire::{Ask, Hello, Of},
};
use crate::{
    Sweeper,
    hand::{Audit, Forwarder, Vaulted},
};

/// Decisions that wait to be told to the server; what is beyond is not told.
const WAITING: usize = 16_384;

/// Decisions that are told together.
const TOGETHER: usize = 256;

/// What the egress process has, whichever server is there.
pub(super) struct House {
    pub(super) peer: Peer,
    pub(super) options: Options,
    pub(super) linked: Linked,
    pub(super) tasks: TaskTracker,
    tenant: Mutex<Option<Arc<Tenant>>>,
}

/// What it has for one server.
pub(super) struct Tenant {
    name: String,
    pid: u32,
    pub(super) vault: Vault,
    pub(super) forwarder: Forwarder,
    pub(super) doorman: Doorman,
    opened: OnceCell<()>,
    stop: CancellationToken,
    /// Counted while the house is locked.
    links: AtomicUsize,
}

impl House {
    pub(super) fn new(peer: Peer, options: Options) -> Self {
        Self {
            peer,
            options,
            linked: Linked::default(),
            tasks: TaskTracker::new(),
            tenant: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Tenant>>> {
        self.tenant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what there is for a server that is linked.
    pub(super) fn tenant(&self, name: &str) -> Result<Arc<Tenant>, Declined> {
        match &*self.lock() {
            Some(tenant) if tenant.name == name => Ok(tenant.clone()),
            Some(_) | None => Err(Declined::Locked(
                "the egress process is not linked to this server yet".to_owned(),
            )),
        }
    }

    /// Lets a server in, unless another one is there.
    pub(super) fn admit(&self, name: &str, hello: &Hello) -> Result<Arc<Tenant>, String> {
        let mut tenant = self.lock();
        if let Some(tenant) = &*tenant {
            if tenant.stop.is_cancelled() {
                return Err("it lets go of the server that was there before".to_owned());
            }
            if tenant.name == name {
                tenant.links.fetch_add(1, Ordering::Relaxed);
                return Ok(tenant.clone());
            }
            return Err(format!(
                "it works for another server, process {}",
                tenant.pid
            ));
        }
        let doorman = Doorman::new().map_err(|error| error.to_string())?;
        let new = Arc::new(self.make(name, hello, doorman));
        *tenant = Some(new.clone());
        drop(tenant);
        tracing::info!(pid = hello.pid, "a server is here, process {}", hello.pid);
        Ok(new)
    }

    /// Opens the vault of a tenant, once: whatever is wrong then is tried again by itself.
    pub(super) async fn open(&self, tenant: &Tenant) {
        let opening = || async {
            tenant.vault.unlock().await;
            // Not before: two who find no master key would make two.
            let (vault, stop) = (tenant.vault.clone(), tenant.stop.clone());
            self.tasks.spawn(async move { vault.keep(stop).await });
        };
        tenant.opened.get_or_init(opening).await;
    }

    /// Makes what a server gets that has one link.
    fn make(&self, name: &str, hello: &Hello, doorman: Doorman) -> Tenant {
        let Options {
            hands,
            ring,
            clock,
            entropy,
            connect,
            ..
        } = &self.options;
        let mut hands = hands.clone();
        hands.rule = hands.rule.guarding(hello.listens);
        let vault = Vault::new(Parts {
            records: self.linked.records(),
            alone: hello.alone,
            ring: ring.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            dialer: Dialer::new(hands.rule.clone(), Arc::new(System), *connect),
            authorities: hands.authorities.iter().map(|one| one.to_vec()).collect(),
            wary: true,
        });
        let stop = CancellationToken::new();
        let credentials = Arc::new(Vaulted::new(vault.clone()));
        let audit = self.audit(stop.clone());
        Tenant {
            name: name.to_owned(),
            pid: hello.pid,
            forwarder: Forwarder::new(hands, credentials, Arc::new(System), audit),
            doorman,
            vault,
            opened: OnceCell::new(),
            stop,
            links: AtomicUsize::new(1),
        }
    }

    /// Returns what has decisions told to the server.
    fn audit(&self, stop: CancellationToken) -> Audit {
        let (sender, mut receiver) = mpsc::channel(WAITING);
        let linked = self.linked.clone();
        self.tasks.spawn(async move {
            let mut entries = Vec::new();
            loop {
                let came = tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    came = receiver.recv_many(&mut entries, TOGETHER) => came,
                };
                if came == 0 {
                    return;
                }
                let note = Ask::Note(std::mem::take(&mut entries));
                if let Err(reason) = linked.ask(&note).await {
                    tracing::warn!("{came} decisions are not in the audit log: {reason}");
                }
            }
        });
        Audit::noting(self.options.clock.clone(), move |entry| {
            if sender.try_send(entry).is_err() {
                tracing::warn!("a decision is not in the audit log: too many wait");
            }
        })
    }

    /// Has a link of a tenant until it breaks; with the last one everything of the server goes.
    pub(super) async fn hold(&self, tenant: Arc<Tenant>, turned: Upgraded) {
        self.linked.hold(turned).await;
        self.let_go(tenant).await;
    }

    /// Ends what is there for whichever server.
    pub(super) async fn close(&self) {
        let tenant = self.lock().take();
        if let Some(tenant) = tenant {
            tenant.stop.cancel();
            tenant.forwarder.close().await;
            tenant.doorman.close().await;
            // What a token endpoint gave is still written down.
            tenant.vault.close().await;
        }
    }

    /// Counts a link that is no more.
    pub(super) async fn let_go(&self, tenant: Arc<Tenant>) {
        {
            // Nobody is let in meanwhile.
            let _all = self.lock();
            if tenant.links.fetch_sub(1, Ordering::Relaxed) > 1 {
                return;
            }
            tenant.stop.cancel();
        }
        // Whoever comes next gets everything anew, and not before nothing leaves any more.
        tenant.forwarder.close().await;
        tenant.doorman.close().await;
        let mut all = self.lock();
        if all.as_ref().is_some_and(|one| Arc::ptr_eq(one, &tenant)) {
            *all = None;
        }
        tracing::info!(
            "the server, process {}, is gone: nothing leaves for it",
            tenant.pid
        );
    }
}

impl Tenant {
    /// Returns what finds the secrets of a session.
    pub(super) async fn scrubber(&self, of: &Of) -> Result<Scrubber, ReadError> {
        let sweeper = Sweeper::new(self.vault.clone());
        match sweeper.of(of.session, &of.vaults, &of.repositories).await? {
            outlast_kernel::Finder::Here(scrubber) => Ok(scrubber),
            outlast_kernel::Finder::Apart(_) => Ok(Scrubber::new([])),
        }
    }
}
