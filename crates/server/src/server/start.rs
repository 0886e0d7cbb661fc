//! Starts a server: the port first, then the lock, then everything else.

use std::{fs, net::SocketAddr, os::unix::fs::DirBuilderExt as _, path::Path, sync::Arc};

use axum::{Router, routing::get};
use outlast_api::Api;
use outlast_blobs::Blobs;
use outlast_egress::{Front, Gateway, Routes};
use outlast_hands::{host::Starter, images::Images};
use outlast_harness::Worker;
use outlast_kernel::{Claims, Kernel, Network, Parts, Sweep};
use outlast_model::{Facts as ModelFacts, Model, Scripted, Upstream};
use outlast_vault::{Custodian, Purpose};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Facts, Server, StartError, address,
    connections::{self, Desk, Phases, Service},
    database::{Database, Seams},
    egress::{Around, Egress},
    hands::Hands,
    key,
    late::Late,
    retention,
};
use crate::{
    OsEntropy, SystemClock,
    config::{self, Config},
    models::Reachable,
    telemetry,
};

impl Server {
    /// Starts a server on a data directory, with sandboxes in this process.
    ///
    /// The port is bound before anything is written, so that a start which cannot succeed leaves
    /// nothing behind. Must run in a multi-threaded tokio runtime.
    ///
    /// # Errors
    ///
    /// If the configuration, the port or the data directory is not fit; another server on the same
    /// directory is named.
    pub async fn start(config: &Config, data_dir: &Path) -> Result<Self, StartError> {
        Self::start_with(config, data_dir, None).await
    }

    /// Starts a server whose sandboxes live in another process, which outlives it: the one that
    /// has them already, or one that the starter starts.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and if there is no such process in the end.
    pub async fn start_beside(
        config: &Config,
        data_dir: &Path,
        starter: Arc<dyn Starter>,
    ) -> Result<Self, StartError> {
        Self::start_with(config, data_dir, Some(starter)).await
    }

    async fn start_with(
        config: &Config,
        data_dir: &Path,
        starter: Option<Arc<dyn Starter>>,
    ) -> Result<Self, StartError> {
        let started = Self::begin(config, data_dir, starter).await;
        started.map_err(|error| error.of_room(data_dir))
    }

    async fn begin(
        config: &Config,
        data_dir: &Path,
        starter: Option<Arc<dyn Starter>>,
    ) -> Result<Self, StartError> {
        config.check()?;
        let roles = config.roles()?;
        roles.look(config)?;
        config.hands.packages.look()?;
        let facts = Arc::new(config.models.load()?);
        let (listener, address) = listen(config).await?;
        let upstream = upstream(config, address).await?;
        let (database, blobs) = open(config, data_dir, &facts).await?;
        let hands = Arc::new(Hands::open(config, data_dir, starter).await?);
        let known = Arc::default();
        let around = Around {
            config,
            data_dir,
            database: &database,
            address,
            upstream,
            kernel: &known,
        };
        let egress = Egress::open(roles, around).await?;
        let (worker, stop_worker) = egress.begin().await;
        // A start that fails leaves nothing running.
        let stopping = stop_worker.clone().drop_guard();
        let provider = egress.provider();
        let upstream = provider.clone().map(|provider| provider as Arc<dyn Model>);
        let routes = Arc::new(Routes::new(Scripted::new(), upstream));
        let seams = (blobs, egress.network(&known), egress.sweep());
        let (kernel, claims) = kernel(config, &database, seams, &hands, data_dir).await?;
        // Nobody else has it, so it is empty.
        drop(known.set(kernel.clone()));
        share_tokens(&*egress.custodian(), &kernel);
        let key = key::admit(&kernel, config.server.api_key.as_ref(), data_dir).await?;
        let (isolation, has_sandboxes) = hands.verdict();
        let shown = Facts {
            data_dir: data_dir.to_owned(),
            backend: egress.backend(config),
            isolation,
            has_sandboxes,
            host: hands.place(),
            key,
        };
        let server = Self {
            address,
            facts: shown,
            data_dir: data_dir.to_owned(),
            deadline: config.server.shutdown(),
            kernel,
            database,
            hands,
            phases: Phases::default(),
            leaving: CancellationToken::new(),
            streams: CancellationToken::new(),
            connections: TaskTracker::new(),
            requests: TaskTracker::new(),
            worker,
            stop_worker,
            egress,
            failed: CancellationToken::new(),
        };
        server.work(config, &routes, &facts, claims);
        drop(stopping.disarm());
        let front = Front::new(server.kernel.clone(), facts.clone(), provider);
        server.serve(&config.server, listener, (routes, front), facts);
        address::tell(data_dir, address);
        Ok(server)
    }

    /// Starts the loop.
    fn work(&self, config: &Config, routes: &Arc<Routes>, facts: &Arc<ModelFacts>, claims: Claims) {
        let model = Gateway::new(self.kernel.clone(), routes.clone(), facts.clone());
        let worker = Worker::new(outlast_harness::Options {
            model: Arc::new(model),
            facts: facts.clone(),
            retries: config.retries.options(),
        });
        let (hands, stop) = (self.hands.clone(), self.stop_worker.clone());
        self.worker.spawn(async move {
            tokio::select! {
                () = hands.attend() => {}
                () = stop.cancelled() => {}
            }
        });
        if let Some(kept) = config.audit.kept() {
            let trim = retention::keep(self.database.trim(), self.kernel.clone(), kept);
            let stop = self.stop_worker.clone();
            self.worker.spawn(async move {
                tokio::select! {
                    () = trim => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        let stop = self.stop_worker.clone();
        self.watch(&self.worker, "the loop", async move {
            tokio::select! {
                () = worker.run(claims) => {}
                () = stop.cancelled() => {}
            }
        });
    }

    /// Starts to accept requests.
    fn serve(
        &self,
        config: &config::Server,
        listener: TcpListener,
        (routes, front): (Arc<Routes>, Front),
        facts: Arc<ModelFacts>,
    ) {
        let beside = outlast_api::Beside {
            clients: front.clients(),
            others: front.brains(),
        };
        let api = Api {
            kernel: self.kernel.clone(),
            vault: self.egress.custodian(),
            models: Arc::new(Reachable { routes, facts }),
            leaving: self.leaving.clone(),
            shutdown: self.streams.clone(),
            tasks: self.requests.clone(),
            ping: outlast_api::PING,
            bounds: outlast_api::Bounds {
                body_bytes: config.body_mib << 20,
                uploads: config.uploads,
                ..outlast_api::Bounds::default()
            },
        };
        let api = outlast_api::router_beside(api, beside);
        let hands = self.hands.clone();
        let own = Router::new().route("/metrics", get(async move || metrics(&hands).await));
        let kernel = self.kernel.clone();
        let service = Service {
            router: api.merge(outlast_api::behind_key(&self.kernel, own)),
            refuse: Arc::new(move |status| outlast_api::unread(&kernel, status)),
        };
        let away = outlast_api::turning_away(&self.kernel);
        let desk = Desk::new(service, away, config.connections, config.stall());
        let accept = connections::accept(
            listener,
            desk,
            self.phases.clone(),
            self.connections.clone(),
        );
        self.watch(&self.connections, "the listener", accept);
    }

    /// Spawns a task that the server cannot do without.
    fn watch(
        &self,
        owner: &TaskTracker,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let (failed, stop) = (self.failed.clone(), self.phases.stop.clone());
        // Told by drop, so that a panic counts too.
        let guard = Guard { name, failed, stop };
        owner.spawn(async move {
            task.await;
            drop(guard);
        });
    }
}

/// Says that a task ended, however it did.
struct Guard {
    name: &'static str,
    failed: CancellationToken,
    stop: CancellationToken,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            tracing::error!("{} ended, the server cannot go on", self.name);
            self.failed.cancel();
        }
    }
}

/// Binds the port; beyond loopback only with a key that the operator set.
async fn listen(config: &Config) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = config.server.listen;
    if !address.ip().to_canonical().is_loopback() && config.server.api_key.is_none() {
        return Err(StartError::Open(address));
    }
    let bound = TcpListener::bind(address).await;
    let bound = bound.and_then(|bound| Ok((bound.local_addr()?, bound)));
    let (own, bound) = bound.map_err(|error| StartError::Listen { address, error })?;
    Ok((bound, own))
}

/// Makes the client of the upstream, unless it would lead back here.
async fn upstream(config: &Config, own: SocketAddr) -> Result<Option<Upstream>, StartError> {
    let Some(options) = config.upstream.options() else {
        return Ok(None);
    };
    if address::leads_to(&options.base_url, own).await {
        let fallback = config.upstream.fallback.as_ref();
        let variable = fallback.and_then(|fallback| fallback.variables.last().copied());
        return Err(StartError::Itself {
            url: options.base_url,
            variable,
        });
    }
    Ok(Some(Upstream::new(options)?))
}

/// Opens the store, which takes the directory's lock, and what lies beside it.
async fn open(
    config: &Config,
    dir: &Path,
    facts: &Arc<ModelFacts>,
) -> Result<(Database, Arc<dyn Blobs>), StartError> {
    make(dir)?;
    let blobs = Arc::new(Late::default());
    let facts = facts.clone();
    let seams = Seams {
        blobs: blobs.clone(),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(OsEntropy),
        rules: config.kernel.rules(&config.prices),
        takes_system: Arc::new(move |model| facts.of(model).mid_conversation_system),
    };
    let database = Database::open(config, dir, seams).await?;
    blobs.open(&config.blobs, dir).await?;
    Ok((database, blobs))
}

/// Opens the store without a server, under the lock of the data directory.
pub(crate) async fn open_alone(
    config: &Config,
    dir: &Path,
) -> Result<(Database, Arc<dyn Blobs>), StartError> {
    let facts = Arc::new(config.models.load()?);
    open(config, dir, &facts).await
}

/// Has tokens of brains made under a key that every node of the store has, if the vault is open.
fn share_tokens(custodian: &dyn Custodian, kernel: &Kernel) {
    if let Some(key) = custodian.derive(Purpose::BrainTokens) {
        // Nobody made a token yet, so it is in time.
        let _in_time = kernel.make_tokens_under(key);
    }
}

/// Makes the data directory, closed to other users.
pub(super) fn make(dir: &Path) -> Result<(), StartError> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir);
    made.map_err(|error| StartError::Data {
        path: dir.to_owned(),
        error,
    })
}

async fn kernel(
    config: &Config,
    database: &Database,
    (blobs, network, sweep): (Arc<dyn Blobs>, Arc<dyn Network>, Arc<dyn Sweep>),
    hands: &Hands,
    data_dir: &Path,
) -> Result<(Kernel, Claims), StartError> {
    let parts = Parts {
        store: database.store(),
        blobs,
        provisioner: hands.provisioner(),
        network: Some(network),
        sweep: Some(sweep),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(OsEntropy),
        options: outlast_kernel::Options {
            brains: config.kernel.brains,
            limits: config.hands.limits(),
            require: config.hands.require.clone(),
            images: Images::new(data_dir.join("images")),
            mirrors: config.hands.packages.mirrors(),
            install: config.hands.packages.install(),
            hand_idle: config.hands.idle(),
            checkpoints: config.hands.checkpoints(),
            hands: config.hands.most,
            hand_age: config.hands.max_age(),
            hand_life: hands.life(),
            deadlines: config.sessions.deadlines(),
            hour_price: config.prices.hour(),
            file_bytes: config.files.largest(),
            output_bytes: config.files.outputs(),
            beats: database.is_shared().then(|| config.kernel.beats()),
        },
    };
    Ok(Kernel::start(parts).await?)
}

/// `GET /metrics`, in the text form of Prometheus, with those of the process that has the hands; empty
/// if nobody installed metrics.
async fn metrics(hands: &Hands) -> ([(&'static str, &'static str); 1], String) {
    let text = telemetry::render() + &hands.figures().await;
    ([("content-type", "text/plain; version=0.0.4")], text)
}
