//! A server in this process that proves on drop that it left nothing behind.

use std::{path::Path, sync::Arc, thread, time::Duration};

use outlast_model::{
    Scripted,
    wire::{self, Captured, Tape},
};
use outlast_server::{
    Server,
    client::Client,
    config::{Config, Environment, Flags, load},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    runtime::Handle,
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{
    DEADLINE, Does as _,
    ear::{self, Ear},
    guard::Guard,
    host, leftovers, log,
};

/// A server with a model behind it that asks for a key, and with a secret in every place that has one.
///
/// On drop it ends, and the test fails if a task, a lease, a process, a mount or a control group is
/// left, or if one of the secrets stands in a log line, a file of the data directory, the environment or
/// the arguments of a process, a figure, or in what a client was told.
pub(crate) struct TestServer {
    server: Option<Server>,
    client: Option<Client>,
    dir: TempDir,
    guard: Arc<Guard>,
    key: String,
    ear: Ear,
    tape: Arc<Tape>,
    model: JoinHandle<()>,
    tasks: usize,
    /// How long what ends by itself may take to do so.
    patience: Duration,
}

/// Returns a configuration on a port of the system's choice, with quick retries.
fn config(dir: &Path) -> Config {
    let flags = Flags {
        data_dir: Some(dir.to_owned()),
        ..Flags::default()
    };
    let mut config = load(&flags, &Environment::default()).unwrap().config;
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config.server.shutdown_seconds = 20;
    config.retries.first_seconds = 0.01;
    config
}

impl TestServer {
    /// The model that lies behind the upstream, and so behind the key.
    pub(crate) const UPSTREAM: &'static str = "behind-the-key";

    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), change).await
    }

    pub(crate) async fn start_in(dir: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        log::install();
        let guard = Guard::over(dir.path());
        let key = guard.draw("the key of clients");
        let tape = Arc::new(Tape::default());
        let (url, model) = model(guard.model_key(), tape.clone()).await;
        let tasks = Handle::current().metrics().num_alive_tasks();
        let mut config = config(dir.path());
        config.server.api_key = Some(key.clone().into());
        config.upstream.base_url = Some(url);
        config.upstream.api_key = Some(guard.model_key().into());
        config.vault.master_key = Some(guard.master_key().into());
        change(&mut config);
        let server = Server::start(&config, dir.path()).await.unwrap();
        let ear = Ear::open(server.address()).await;
        let client = Client::new(&ear.url, Some(&SecretString::from(key.clone()))).unwrap();
        for url in [&ear.url, &server.url()] {
            guard.is_at(url);
        }
        let server = Self {
            server: Some(server),
            client: Some(client),
            dir,
            guard,
            key,
            ear,
            tape,
            model,
            tasks,
            patience: DEADLINE,
        };
        server.plant().await;
        server
    }

    /// Gives the server what it is to keep for itself; nobody listens.
    async fn plant(&self) {
        let before = self.server().tasks();
        let client = self.direct();
        self.guard.plant(&client).await;
        let wanted = json!({"name": "canary", "scope": "admin"});
        let made = client.post("/outlast/v1/keys", &wanted).await.unwrap();
        self.guard
            .hide("the key of an admin", made["key"].as_str().unwrap());
        drop(client);
        // A place among few connections is free again.
        comes(DEADLINE, || self.server().tasks() <= before).await;
    }

    /// Returns a client of the server itself.
    fn direct(&self) -> Client {
        let key = SecretString::from(self.key.clone());
        Client::new(&self.server().url(), Some(&key)).unwrap()
    }

    pub(crate) fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits for nothing at the end: for tests of what is left behind.
    pub(crate) fn hurry(&mut self) {
        self.patience = Duration::ZERO;
    }

    /// Returns the key that clients send.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Tells how many requests reached the model with the server's key for it.
    pub(crate) fn asked(&self) -> usize {
        let captured = self.tape.captured();
        let has = |name: &str, value: &str| {
            captured
                .iter()
                .filter(|asked| asked.headers.get(name).is_some_and(|v| v == value))
                .count()
        };
        has("x-api-key", self.guard.model_key())
    }

    /// Returns what reached the model.
    pub(crate) fn captured(&self) -> Vec<Captured> {
        self.tape.captured()
    }

    /// Returns the body of the n-th request that reached the model, from 0.
    pub(crate) fn sent(&self, n: usize) -> Value {
        let captured = self.tape.captured();
        serde_json::from_slice(&captured[n].body).unwrap()
    }

    /// Keeps what a client saw, to be searched at the end.
    pub(crate) fn note(&self, seen: impl std::fmt::Display) {
        ear::note(seen.to_string().as_bytes());
    }

    /// Plays events to the end of their turn and returns all events so far.
    pub(crate) async fn play(&self, session: &str, events: &[Value], turn: usize) -> Vec<Value> {
        self.client().send(session, events).await;
        self.client().idle(session, turn).await
    }

    /// Looks for a secret too that the test gives the server.
    pub(crate) fn hides(&self, name: &str, secret: &str) {
        self.guard.hide(name, secret);
    }

    /// Ends it; returns what would have the test fail.
    pub(crate) async fn end(mut self) -> Vec<String> {
        let mut wrong = self.finish().await;
        wrong.extend(self.search());
        wrong
    }

    /// Ends the server and looks for what it left.
    async fn finish(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.server.is_none() {
            return wrong;
        }
        let client = self.direct();
        self.guard.ask(&client).await;
        drop(client);
        wrong.extend(self.guard.alive(&[std::process::id()], &[]));
        let Some(server) = self.server.take() else {
            return wrong;
        };
        let kernel = server.kernel().clone();
        if !comes(self.patience, || kernel.turns() == 0).await {
            wrong.push(format!("{} leases are held", kernel.turns()));
        }
        drop(self.client.take());
        if !server.close().await {
            wrong.push("the server did not end in time".to_owned());
        }
        drop(kernel);
        self.ear.close();
        let alive = || Handle::current().metrics().num_alive_tasks();
        if !comes(self.patience, || alive() <= self.tasks).await {
            wrong.push(format!(
                "{} tasks are left, {} were there before",
                alive(),
                self.tasks
            ));
        }
        self.model.abort();
        wrong
    }

    /// Looks for processes, mounts, groups and secrets.
    fn search(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let dir = self.dir.path();
        if let Some(pid) = host::pid(dir) {
            wrong.push(format!("process {pid} has the sandboxes"));
        }
        let processes = leftovers::processes(dir);
        if !processes.is_empty() {
            wrong.push(format!(
                "processes live on the data directory: {processes:?}"
            ));
        }
        let mounts = leftovers::mounts(dir);
        if !mounts.is_empty() {
            wrong.push(format!("mounts are left: {mounts:?}"));
        }
        let groups = leftovers::groups(dir);
        if !groups.is_empty() {
            wrong.push(format!("control groups are left: {groups:?}"));
        }
        wrong.extend(self.guard.over_all());
        wrong
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if thread::panicking() || self.server.is_none() {
            return;
        }
        let mut wrong = tokio::task::block_in_place(|| Handle::current().block_on(self.finish()));
        wrong.extend(self.search());
        assert!(
            wrong.is_empty(),
            "the server left something behind: {wrong:#?}"
        );
    }
}

/// Waits until something holds, but not for ever: it may be what is wrong.
async fn comes(patience: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
    true
}

/// Serves the scripted model to whoever has the key.
pub(crate) async fn model(key: &str, tape: Arc<Tape>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let key = SecretString::from(key.to_owned());
    assert!(!key.expose_secret().is_empty());
    let options = wire::Options {
        key: Some(key),
        recorder: Some(tape),
    };
    let router = wire::router(Arc::new(Scripted::new()), options);
    #[expect(
        clippy::disallowed_methods,
        reason = "ended by the server that it belongs to"
    )]
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, task)
}
