//! What stands over every server of a test: secrets in every place, and the search for them at its end.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use outlast_protocol::seam::Entropy as _;
use outlast_server::{OsEntropy, client::Client};
use outlast_testkit::canary::{self, Canary, Search};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ear, log};

/// The only files that may hold secrets as they are: those in which a server keeps its own.
const KEEPERS: [&str; 2] = ["local.key", "master.key"];

/// Credentials that are planted.
pub(crate) const PLANTED: u64 = 3;

/// How long the questions at the end may take together: some servers are ill by then.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sessions that are looked into at the end; the database is searched whatever is in it.
const LOOKED: usize = 20;

static ALL: Mutex<Vec<Arc<Guard>>> = Mutex::new(Vec::new());

/// Stands over the servers of one data directory.
#[derive(Debug)]
pub(crate) struct Guard {
    dir: PathBuf,
    canary: Mutex<Canary>,
    model_key: String,
    vault: OnceLock<String>,
    urls: Mutex<Vec<String>>,
}

impl Guard {
    /// Returns the guard over a data directory, the same one for each server that it has.
    pub(crate) fn over(dir: &Path) -> Arc<Self> {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|guard| guard.dir == dir) {
            return known.clone();
        }
        let model_key = canary::draw("canary", &OsEntropy);
        let guard = Arc::new(Self {
            dir: dir.to_owned(),
            canary: Mutex::default(),
            model_key,
            vault: OnceLock::new(),
            urls: Mutex::default(),
        });
        guard.hide("the model's key", &guard.model_key);
        all.push(guard.clone());
        guard
    }

    /// Returns the guard over the server at an address.
    pub(crate) fn at(url: &str) -> Option<Arc<Self>> {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let knows = |guard: &&Arc<Self>| guard.urls.lock().unwrap().iter().any(|one| one == url);
        all.iter().find(knows).cloned()
    }

    /// Stands over the server at that address too.
    pub(crate) fn is_at(&self, url: &str) {
        self.urls.lock().unwrap().push(url.to_owned());
    }

    /// Returns the key that the server asks its model with.
    pub(crate) fn model_key(&self) -> &str {
        &self.model_key
    }

    /// Draws a secret that is looked for from now on.
    pub(crate) fn draw(&self, name: &str) -> String {
        let secret = canary::draw("canary", &OsEntropy);
        self.hide(name, &secret);
        secret
    }

    /// Draws a master key, as an operator sets it.
    pub(crate) fn master_key(&self) -> String {
        let mut bytes = [0; 32];
        OsEntropy.fill(&mut bytes);
        self.hide("the master key", bytes);
        let hex = bytes.map(|byte| format!("{byte:02x}"));
        hex.concat()
    }

    /// Looks for a secret from now on that a test has given the server.
    pub(crate) fn hide(&self, name: &str, secret: impl AsRef<[u8]>) {
        self.canary.lock().unwrap().hide(name, secret);
    }

    /// Returns the vault that was planted.
    pub(crate) fn vault(&self) -> Option<&str> {
        self.vault.get().map(String::as_str)
    }

    /// Has the server keep a credential of each kind, once for all servers of the directory.
    pub(crate) async fn plant(&self, client: &Client) {
        if self.vault.get().is_some() {
            return;
        }
        let wanted = json!({"display_name": "canary"});
        let vault = client.post("/v1/vaults", &wanted).await.unwrap();
        let vault = vault["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/vaults/{vault}/credentials");
        for auth in self.credentials() {
            client.post(&path, &json!({"auth": auth})).await.unwrap();
        }
        self.vault.set(vault).unwrap();
    }

    /// Returns a credential of each kind. None leads anywhere.
    fn credentials(&self) -> [Value; 3] {
        let endpoint = json!({"type": "client_secret_post",
            "client_secret": self.draw("the secret of an OAuth client")});
        [
            json!({"type": "environment_variable", "secret_name": "CANARY",
                "secret_value": self.draw("the value of a variable"),
                "networking": {"type": "limited", "allowed_hosts": ["canary.example"]}}),
            json!({"type": "static_bearer", "mcp_server_url": "https://127.0.0.1:1/bearer",
                "token": self.draw("a bearer's token")}),
            json!({"type": "mcp_oauth", "mcp_server_url": "https://127.0.0.1:1/oauth",
                "access_token": self.draw("an access token"), "expires_at": "2099-01-01T00:00:00Z",
                "refresh": {"client_id": "client", "token_endpoint": "https://127.0.0.1:1/token",
                    "refresh_token": self.draw("a refresh token"), "token_endpoint_auth": endpoint}}),
        ]
    }

    /// Asks for all that a client can be shown, refusals included, to be searched.
    pub(crate) async fn ask(&self, client: &Client) {
        let client = client.clone().patient(Duration::ZERO);
        drop(timeout(PATIENCE, self.ask_for_all(&client)).await);
    }

    async fn ask_for_all(&self, client: &Client) {
        let metrics = client.text("/metrics").await;
        ear::note(metrics.unwrap_or_default().as_bytes());
        for path in ["diagnosis", "audit", "keys", "vault"] {
            see(client, &format!("/outlast/v1/{path}")).await;
        }
        for path in ["agents", "environments", "files", "vaults"] {
            see(client, &format!("/v1/{path}")).await;
        }
        let sessions = see(client, "/v1/sessions").await;
        let sessions = sessions["data"].as_array().cloned().unwrap_or_default();
        for session in sessions.iter().take(LOOKED) {
            let id = session["id"].as_str().unwrap();
            for part in ["", "/events", "/resources", "/threads"] {
                see(client, &format!("/v1/sessions/{id}{part}")).await;
            }
            for part in ["diagnosis", "outline", "deadlines"] {
                see(client, &format!("/outlast/v1/sessions/{id}/{part}")).await;
            }
        }
        let Some(vault) = self.vault() else { return };
        let path = format!("/v1/vaults/{vault}/credentials");
        see(client, &path).await;
        let token = self.draw("a token that is refused");
        let url = "https://127.0.0.1:1/refused";
        for token in [
            json!(format!("{token} ")),
            json!([token]),
            json!({"of": token}),
        ] {
            let auth = json!({"type": "static_bearer", "mcp_server_url": url, "token": token});
            let refused = client.post(&path, &json!({"auth": auth})).await;
            ear::note(refused.unwrap_err().to_string().as_bytes());
        }
    }

    /// Looks at what ends with the server: its processes and the log of its database. Of those in `own`
    /// the environment is where the operator keeps keys, and is not looked at.
    pub(crate) fn alive(&self, own: &[u32], roots: &[u32]) -> Vec<String> {
        self.learn();
        let search = self.search();
        let children = canary::descendants(&[own, roots].concat());
        let others = [roots, &children[..]].concat();
        let mut wrong = search.environments(&others);
        wrong.extend(search.arguments(&[own, &others[..]].concat()));
        let wal = self.dir.join("outlast.db-wal");
        wrong.extend(search.files(&[wal]));
        wrong
    }

    /// Looks at everything that is left behind: files, the log, what clients saw.
    pub(crate) fn over_all(&self) -> Vec<String> {
        self.learn();
        let search = self.search();
        let mut wrong = search.files(&canary::under(&self.dir, &KEEPERS));
        wrong.extend(ear::wrong(&search));
        wrong.extend(search.bytes("the log", log::lines().as_bytes()));
        wrong
    }

    /// Looks at one more file.
    pub(crate) fn file(&self, path: &Path) -> Vec<String> {
        self.search().files(&[path.to_owned()])
    }

    /// Learns the secrets that the server made for itself.
    fn learn(&self) {
        for name in KEEPERS {
            let text = fs::read_to_string(self.dir.join(name)).unwrap_or_default();
            for key in text.split_whitespace() {
                self.hide(name, key);
                // What is short stands somewhere by chance.
                if let Ok(bytes) = BASE64_STANDARD.decode(key)
                    && bytes.len() >= 32
                {
                    self.hide(name, bytes);
                }
            }
        }
    }

    fn search(&self) -> Search {
        self.canary.lock().unwrap().search().unwrap()
    }
}

/// Asks for one object; what is told instead was seen too.
async fn see(client: &Client, path: &str) -> Value {
    match client.get(path, &[]).await {
        Ok(found) => {
            ear::note(found.to_string().as_bytes());
            found
        }
        Err(told) => {
            ear::note(told.to_string().as_bytes());
            Value::Null
        }
    }
}
