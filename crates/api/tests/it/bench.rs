//! A whole API in process: router, kernel, store in memory, pretended hands, a clock that stands.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, response::Response};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use outlast_api::{Api, Bounds};
use outlast_hands::{Limits, fake::Fakes};
use outlast_kernel::{Claims, Kernel, Lease, Options, Parts, Schedule};
use outlast_protocol::{
    agent::Effort,
    facts::{ModelFacts, Models},
};
use outlast_testkit::{
    blobs::Memory as Blobs, faulty::Faulty, memory::Memory, random::Seeded, time::ManualClock,
    vault,
};
use outlast_vault::Vault;
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use crate::{openapi::Document, reader::Reader, redact::redact};

/// The key of most requests.
pub(crate) const KEY: &str = "sk-outlast-test";

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A whole API.
pub(crate) struct Bench {
    pub(crate) router: Router,
    pub(crate) kernel: Kernel,
    pub(crate) vault: Vault,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) blobs: Arc<Blobs>,
    pub(crate) store: Arc<Faulty<Memory>>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) tasks: TaskTracker,
    step: Duration,
    claims: Mutex<Claims>,
}

/// An answer that was read whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns status and body with ids and times replaced, for snapshots.
    pub(crate) fn shown(&self) -> Value {
        json!({ "status": self.status.as_u16(), "body": redact(&self.json()) })
    }

    /// Returns the body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        self.json()
    }

    /// Returns the message of a refusal with this status.
    #[track_caller]
    pub(crate) fn refused(self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// `full` has every setting, `plain` none, and no other is known.
#[derive(Debug)]
struct TwoModels;

impl Models for TwoModels {
    fn facts(&self, model: &str) -> Option<ModelFacts> {
        let full = match model {
            "full" => true,
            "plain" => false,
            _ => return None,
        };
        let efforts = [Effort::Low, Effort::Medium, Effort::High];
        Some(ModelFacts {
            default_effort: if full { Effort::Medium } else { Effort::High },
            efforts: if full { efforts.to_vec() } else { Vec::new() },
            supports_speed: full,
            supports_inference_geo: full,
            mid_conversation_system: full,
        })
    }
}

/// What a bench may differ in.
pub(crate) struct Setup {
    pub(crate) brains: usize,
    pub(crate) ping: Duration,
    pub(crate) seed: u64,
    /// How far the clock goes on with every request.
    pub(crate) step: Duration,
    /// How much is taken in at once.
    pub(crate) bounds: Bounds,
    /// Whether there is no master key.
    pub(crate) locked: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            brains: 4,
            ping: Duration::from_secs(15),
            seed: 1,
            step: Duration::from_millis(1),
            bounds: Bounds::default(),
            locked: false,
        }
    }
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let clock = Arc::new(ManualClock::default());
        let entropy = Arc::new(Seeded::new(setup.seed));
        let memory = Memory::new(clock.clone(), entropy.clone());
        let store = Arc::new(Faulty::new(memory));
        Self::over(setup, store, clock).await
    }

    /// Starts on a store that was there before, as after a restart.
    pub(crate) async fn over(
        setup: Setup,
        store: Arc<Faulty<Memory>>,
        clock: Arc<ManualClock>,
    ) -> Self {
        // Not that of the store: both draw ids.
        let entropy = Arc::new(Seeded::new(setup.seed + 1_000_000));
        let blobs = Arc::new(Blobs::default());
        let options = Options {
            brains: setup.brains,
            limits: Limits::default(),
            require: Vec::new(),
            images: outlast_hands::images::Images::new("/nowhere"),
            mirrors: outlast_hands::packages::Mirrors::default(),
            install: Duration::from_secs(600),
            hand_idle: Duration::from_secs(600),
            checkpoints: Schedule::NEVER,
            hands: 512,
            hand_age: None,
            hand_life: outlast_kernel::HandLife::WithServer,
            deadlines: Default::default(),
            hour_price: 80_000_000,
            file_bytes: 1 << 20,
            output_bytes: 4 << 20,
            beats: None,
        };
        let parts = Parts {
            store: store.clone(),
            blobs: blobs.clone(),
            provisioner: Arc::new(Fakes::obliging()),
            network: None,
            sweep: None,
            clock: clock.clone(),
            entropy: entropy.clone(),
            options,
        };
        let key = if setup.locked { "" } else { vault::KEY };
        let vault = vault::under(key, store.clone(), clock.clone(), entropy).await;
        vault.unlock().await;
        let (kernel, claims) = Kernel::start(parts).await.unwrap();
        kernel.admit_key(KEY, "test").await.unwrap();
        let (shutdown, tasks) = (CancellationToken::new(), TaskTracker::new());
        let router = outlast_api::router(Api {
            kernel: kernel.clone(),
            vault: Arc::new(vault.clone()),
            models: Arc::new(TwoModels),
            leaving: CancellationToken::new(),
            shutdown: shutdown.clone(),
            tasks: tasks.clone(),
            ping: setup.ping,
            bounds: setup.bounds,
        });
        Self {
            router,
            kernel,
            vault,
            clock,
            blobs,
            store,
            shutdown,
            tasks,
            step: setup.step,
            claims: Mutex::new(claims),
        }
    }

    /// Sends a request as it is.
    pub(crate) async fn raw(&self, request: Request<Body>) -> Response {
        self.clock.advance(self.step);
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request and reads its answer whole, which has to be one that is described.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Reply {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let reply = whole(self.raw(request).await).await;
        let misfit = Document::get().misfit(&method, &path, &reply);
        assert_eq!(misfit, None, "{method} {path} is not described so");
        reply
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask(request(Method::GET, path, &[], "")).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.ask(request(Method::DELETE, path, &[], "")).await
    }

    /// Posts a body; one that is taken has to be one that is described.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        let reply = self
            .ask(request(Method::POST, path, &[], &body.to_string()))
            .await;
        if reply.status.is_success() {
            let misfit = Document::get().misfit_of_body(path, &body);
            assert_eq!(misfit, None, "{path} takes {body}, which is not described");
        }
        reply
    }

    /// Posts without a body.
    pub(crate) async fn poke(&self, path: &str) -> Reply {
        self.ask(request(Method::POST, path, &[], "")).await
    }

    /// Waits for the next lease.
    pub(crate) async fn lease(&self) -> Lease {
        timeout(PATIENCE, async { self.claims.lock().await.recv().await })
            .await
            .unwrap()
            .unwrap()
    }

    /// Makes an agent and an environment; returns their ids.
    pub(crate) async fn home(&self) -> (String, String) {
        let agent = json!({ "name": "helper", "model": "full", "tools": tools() });
        let agent = self.post("/v1/agents", agent).await.ok();
        let environment = self
            .post("/v1/environments", json!({ "name": "home" }))
            .await
            .ok();
        (id(&agent), id(&environment))
    }

    /// Makes an idle session; returns its id.
    pub(crate) async fn session(&self) -> String {
        let (agent, environment) = self.home().await;
        let body = json!({ "agent": agent, "environment_id": environment });
        id(&self.post("/v1/sessions", body).await.ok())
    }

    /// Sends a text; returns the event's id.
    pub(crate) async fn say(&self, session: &str, text: &str) -> String {
        let body = json!({ "events": [message(text)] });
        let sent = self
            .post(&format!("/v1/sessions/{session}/events"), body)
            .await
            .ok();
        id(&sent["data"][0])
    }

    /// Opens a stream.
    pub(crate) async fn open(&self, path: &str, headers: &[(&str, &str)]) -> Reader {
        let response = self.raw(request(Method::GET, path, headers, "")).await;
        assert_eq!(response.status(), StatusCode::OK);
        Reader::new(response)
    }

    /// Follows a session, from behind a position or from its head on.
    pub(crate) async fn follow(&self, session: &str, from: Option<u64>) -> Reader {
        let from = from.map(|from| from.to_string());
        let headers: Vec<_> = from.iter().map(|from| ("last-event-id", &**from)).collect();
        self.open(&format!("/v1/sessions/{session}/events/stream"), &headers)
            .await
    }

    /// Lists all events of a session, oldest first.
    pub(crate) async fn log(&self, session: &str) -> Vec<Value> {
        let listed = self
            .get(&format!("/v1/sessions/{session}/events"))
            .await
            .ok();
        listed["data"].as_array().unwrap().clone()
    }
}

/// Reads an answer whole.
pub(crate) async fn whole(response: Response) -> Reply {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    Reply {
        status: parts.status,
        headers: parts.headers,
        text,
    }
}

/// Makes a request with the usual headers.
pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Request<Body> {
    let mut builder = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "application/json");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Body::from(body.to_owned())).unwrap()
}

pub(crate) fn id(object: &Value) -> String {
    object["id"]
        .as_str()
        .unwrap_or_else(|| panic!("no id: {object}"))
        .to_owned()
}

pub(crate) fn message(text: &str) -> Value {
    json!({ "type": "user.message", "content": [{ "type": "text", "text": text }] })
}

/// The built-in tools, `bash` with a question, and one tool of the client.
pub(crate) fn tools() -> Value {
    json!([
        {
            "type": "agent_toolset_20260401",
            "configs": [
                { "name": "bash", "permission_policy": { "type": "always_ask" } },
            ],
        },
        {
            "type": "custom",
            "name": "weather",
            "description": "Tells the weather.",
            "input_schema": { "type": "object", "properties": { "city": { "type": "string" } } },
        },
    ])
}
