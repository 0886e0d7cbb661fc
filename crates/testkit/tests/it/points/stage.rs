//! A world in which one client does one thing after another, whatever dies meanwhile.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use outlast_kernel::Schedule;
use outlast_protocol::id::SessionId;
use outlast_session::{Rules, State, Status};
use outlast_testkit::faults::Faults;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use crate::sim::{
    Watcher, alive,
    world::{KEY, Life, World, setup, stranger::Stranger},
};

/// How long a step may take, by a clock that costs nothing.
const PATIENCE: Duration = Duration::from_secs(7_200);

/// What becomes of hands when their process dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Hands {
    /// They live on, and the next process finds them.
    Stay,
    /// They die too; only their journals stay.
    Die,
}

/// A world, its one client, and the process that is there now.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) watcher: Watcher,
    hands: Hands,
    life: Option<Life>,
    first: Option<Arc<Faults>>,
    requests: u64,
    agent: String,
    environment: String,
}

impl Stage {
    /// Sets a stage; its first process is the one with the faults.
    pub(crate) async fn set(first: Arc<Faults>, hands: Hands, stranger: Option<Stranger>) -> Self {
        let mut world = match stranger {
            Some(Stranger::Breaks) => {
                let (attempts, rules) = (1, Rules::default());
                World::under(7, Rules { attempts, ..rules }).await
            }
            Some(Stranger::Speaks(_)) | None => World::new(7).await,
        };
        world.schedule = Schedule {
            at_rest: Some(Duration::from_secs(3)),
            within_turns: None,
        };
        let mut stage = Self {
            watcher: Watcher::new(&world),
            world,
            hands,
            life: None,
            first: None,
            requests: 0,
            agent: String::new(),
            environment: String::new(),
        };
        let agent = json!({ "name": "agent", "model": "scripted", "tools": setup::tools() });
        let agent = stage.post("/v1/agents", &agent).await;
        let home = stage
            .post("/v1/environments", &json!({ "name": "home" }))
            .await;
        (stage.agent, stage.environment) = (id(&agent), id(&home));
        if let Some(life) = stage.life.take() {
            life.kill().await;
        }
        stage.world.stranger = stranger;
        stage.first = Some(first);
        stage
    }

    /// Returns the process that is there; a dead one is followed by the next.
    async fn life(&mut self) -> &Life {
        if self.life.as_ref().is_some_and(|life| life.faults.is_dead()) {
            if let Some(dead) = self.life.take() {
                dead.kill().await;
            }
            if self.hands == Hands::Die {
                self.world.bury();
            }
        }
        while self.life.is_none() {
            let faults = self.first.take().unwrap_or_default();
            self.life = self.world.begin(faults).await;
        }
        self.life.as_ref().unwrap()
    }

    /// Sends a request until it is accepted; returns the answer.
    async fn ask(&mut self, method: Method, path: &str, kind: &str, body: &str) -> Value {
        self.requests += 1;
        let key = format!("request-{}", self.requests);
        for _ in 0..100 {
            let request = Request::builder()
                .method(method.clone())
                .uri(path)
                .header("authorization", format!("Bearer {KEY}"))
                .header("content-type", kind)
                .header("idempotency-key", &key)
                .body(Body::from(body.to_owned()))
                .unwrap();
            let life = self.life().await;
            let answered = async {
                let response = life.router.clone().oneshot(request).await.unwrap();
                let status = response.status();
                (
                    status,
                    response.into_body().collect().await.unwrap().to_bytes(),
                )
            };
            match alive(&life.faults, answered).await {
                // What was removed before is gone.
                Ok((StatusCode::NOT_FOUND, _)) if method == Method::DELETE => return Value::Null,
                Ok((status, text)) if status.is_success() => {
                    return serde_json::from_slice(&text).unwrap();
                }
                Ok((status, text)) => assert!(status.is_server_error(), "{path}: {text:?}"),
                Err(_) => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("{path} is never accepted");
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.ask(Method::POST, path, "application/json", &body)
            .await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &Value) {
        let body = body.to_string();
        self.ask(Method::PUT, path, "application/json", &body).await;
    }

    pub(crate) async fn delete(&mut self, path: &str) {
        self.ask(Method::DELETE, path, "application/json", "").await;
    }

    /// Uploads a file; returns its id.
    pub(crate) async fn upload(&mut self) -> String {
        let head = "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n";
        let form = format!("{head}content-type: text/plain\r\n\r\nbytes\r\n--edge--\r\n");
        let kind = "multipart/form-data; boundary=edge";
        id(&self.ask(Method::POST, "/v1/files", kind, &form).await)
    }

    /// Makes a session of the agent, with what is said beside.
    pub(crate) async fn session(&mut self, mut body: Value) -> SessionId {
        body["agent"] = json!(self.agent);
        body["environment_id"] = json!(self.environment);
        let made = self.post("/v1/sessions", &body).await;
        SessionId::parse(&id(&made)).unwrap()
    }

    /// Returns the resource of a session's repository.
    pub(crate) fn repository(&self, session: SessionId) -> String {
        let state = self.watcher.session(session).unwrap();
        let config = state.config.as_deref().unwrap();
        config.repositories[0].id.to_string()
    }

    /// Sends events.
    pub(crate) async fn send(&mut self, session: SessionId, events: &Value) {
        let path = format!("/v1/sessions/{session}/events");
        self.post(&path, &json!({ "events": events })).await;
    }

    /// Has the model play a script, to its end or to where a client is asked.
    pub(crate) async fn play(&mut self, session: SessionId, steps: &Value) {
        self.send(session, &script(steps)).await;
        self.rests(session).await;
    }

    /// Answers the first call that waits for a client.
    pub(crate) async fn answer(&mut self, session: SessionId, mut event: Value) {
        let state = self.watcher.session(session).unwrap();
        let call = state.threads[0].asked().next().unwrap().id;
        let field = match event["type"].as_str() {
            Some("user.tool_confirmation") => "tool_use_id",
            _ => "custom_tool_use_id",
        };
        event[field] = json!(call);
        self.send(session, &json!([event])).await;
        self.rests(session).await;
    }

    /// Waits until a session waits for its client, or is over.
    pub(crate) async fn rests(&mut self, session: SessionId) {
        let rests = |state: &State| {
            let idle = matches!(state.shown(), Status::Idle | Status::Terminated);
            idle && state.threads[0].lease.is_none()
        };
        self.until(session, rests).await;
    }

    /// Waits until a session is as it should be.
    pub(crate) async fn until(&mut self, session: SessionId, is: impl Fn(&State) -> bool) {
        let waited = async {
            loop {
                let moved = self.watcher.moved();
                if self.watcher.session(session).is_some_and(|now| is(&now)) {
                    return;
                }
                let faults = self.life().await.faults.clone();
                tokio::select! {
                    biased;
                    () = faults.died() => {}
                    () = moved => {}
                }
            }
        };
        timeout(PATIENCE, waited).await.expect("it never comes");
    }

    /// Lets time pass.
    pub(crate) async fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.life().await;
            sleep(Duration::from_secs(1)).await;
        }
    }
}

fn id(made: &Value) -> String {
    made["id"].as_str().unwrap().to_owned()
}

/// Makes a message that carries a script.
pub(crate) fn script(steps: &Value) -> Value {
    message(&json!({ "script": steps }).to_string())
}

/// Makes a message.
pub(crate) fn message(text: &str) -> Value {
    json!([{ "type": "user.message", "content": [{ "type": "text", "text": text }] }])
}
