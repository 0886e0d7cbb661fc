//! Clients: they do what the API lets them do, in any order, and try again as the SDKs do.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Method;
use outlast_protocol::id::SessionId;
use outlast_session::{Phase, Route, State, Status};
use outlast_testkit::random::Seeded;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    net::{Net, Reply},
    script,
    watch::Watcher,
};

/// How long a session may take to come to rest once nothing disturbs it any more.
const PATIENCE: Duration = Duration::from_secs(4 * 3_600);

/// How long a client waits for a turn before it stops it.
const BORED: Duration = Duration::from_secs(300);

/// What all clients of a world share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) net: Net,
    pub(crate) watcher: Watcher,
    pub(crate) sent: Arc<Mutex<Vec<Sent>>>,
    pub(crate) agent: String,
    pub(crate) environment: String,
}

/// A wish that names itself, and whether a client was told that it was accepted.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) token: String,
    pub(crate) accepted: bool,
}

/// One client with one session at a time.
pub(crate) struct Client {
    shared: Shared,
    chance: Seeded,
    name: String,
    session: Option<SessionId>,
    wishes: u64,
}

impl Client {
    pub(crate) fn new(shared: Shared, chance: Seeded, name: String) -> Self {
        Self {
            shared,
            chance,
            name,
            session: None,
            wishes: 0,
        }
    }

    /// Does so many things, with pauses.
    pub(crate) async fn act(&mut self, actions: u64) {
        for _ in 0..actions {
            sleep(self.pause()).await;
            match self.session {
                Some(session) => self.one(session).await,
                None => self.create().await,
            }
        }
    }

    /// Ends what it began: answers what it is asked, and waits.
    pub(crate) async fn settle(&mut self) {
        let Some(session) = self.session else { return };
        let (begin, mut since) = (Instant::now(), Instant::now());
        while let Some(state) = self.state(session).filter(|state| !rests(state)) {
            if begin.elapsed() > PATIENCE {
                let waker = state.threads[0].waker();
                let words = format!("session `{session}` never came to rest: {waker:?}");
                return self.shared.watcher.wrong(words);
            }
            sleep(Duration::from_secs(1)).await;
            if state.threads[0].asked().next().is_some() {
                self.answer(session, &state, true).await;
            } else if since.elapsed() > BORED {
                since = Instant::now();
                self.events(session, &json!([{ "type": "user.interrupt" }]))
                    .await;
            }
        }
    }

    fn pause(&self) -> Duration {
        let most = *self.chance.pick(&[5, 50, 500, 5_000]).unwrap();
        Duration::from_millis(self.chance.below(most))
    }

    fn state(&self, session: SessionId) -> Option<Arc<State>> {
        self.shared.watcher.session(session)
    }

    async fn one(&mut self, session: SessionId) {
        match self.chance.below(100) {
            0..42 => self.say(session, false).await,
            42..47 => self.say(session, true).await,
            47..57 => drop(
                self.events(session, &json!([{ "type": "user.interrupt" }]))
                    .await,
            ),
            57..82 => {
                if let Some(state) = self.state(session) {
                    self.answer(session, &state, false).await;
                }
            }
            82..87 => self.update(session).await,
            87..95 => self.list(session).await,
            95..98 => self.end(session, Method::POST, "/archive").await,
            _ => self.end(session, Method::DELETE, "").await,
        }
    }

    /// Draws a word that stands for one wish.
    fn token(&mut self) -> String {
        self.wishes += 1;
        format!("wish-{}-{}-", self.name, self.wishes)
    }

    /// Notes whether a wish was accepted, as far as its client knows.
    fn note(&self, token: String, reply: Option<&Reply>) {
        let accepted = reply.is_some_and(|reply| reply.status.is_success());
        let mut sent = self
            .shared
            .sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sent.push(Sent { token, accepted });
    }

    async fn create(&mut self) {
        let token = self.token();
        let Shared {
            agent, environment, ..
        } = &self.shared;
        let body = json!({
            "agent": agent, "environment_id": environment, "title": token,
        });
        let reply = self.submit(Method::POST, "/v1/sessions", &body).await;
        self.note(token, reply.as_ref());
        let made: Option<Value> = reply.and_then(|reply| serde_json::from_str(&reply.text).ok());
        let id = made.and_then(|made| SessionId::parse(made["id"].as_str()?));
        self.session = id;
    }

    /// Sends a message with a script, behind an interrupt if it is to redirect.
    async fn say(&mut self, session: SessionId, redirect: bool) {
        let token = self.token();
        let text = script::message(&token, &self.chance);
        let mut events = Vec::new();
        if redirect {
            events.push(json!({ "type": "user.interrupt" }));
        }
        let content = json!([{ "type": "text", "text": text }]);
        events.push(json!({ "type": "user.message", "content": content }));
        if self.chance.chance(10) {
            let content = json!([{ "type": "text", "text": "An operator speaks." }]);
            events.push(json!({ "type": "system.message", "content": content }));
        }
        let reply = self.events(session, &json!(events)).await;
        self.note(token, reply.as_ref());
    }

    /// Answers one call that waits for a client, if there is one.
    async fn answer(&mut self, session: SessionId, state: &State, kindly: bool) {
        let waiting: Vec<_> = state.threads[0].calls.iter().collect();
        let waiting: Vec<_> = waiting
            .into_iter()
            .filter(|call| call.phase == Phase::Asked)
            .collect();
        let Some(call) = self.chance.pick(&waiting) else {
            return;
        };
        let id = call.id;
        let event = match call.route {
            Route::Client => json!({
                "type": "user.custom_tool_result", "custom_tool_use_id": id,
                "content": [{ "type": "text", "text": "a client's answer" }],
            }),
            Route::Hand if kindly || self.chance.chance(60) => {
                json!({ "type": "user.tool_confirmation", "tool_use_id": id, "result": "allow" })
            }
            Route::Hand => json!({
                "type": "user.tool_confirmation", "tool_use_id": id, "result": "deny",
                "deny_message": "not now",
            }),
        };
        self.events(session, &json!([event])).await;
    }

    async fn update(&mut self, session: SessionId) {
        let title = self.token();
        let path = format!("/v1/sessions/{session}");
        let body = json!({ "metadata": { "note": title } });
        self.submit(Method::POST, &path, &body).await;
    }

    async fn end(&mut self, session: SessionId, method: Method, what: &str) {
        let path = format!("/v1/sessions/{session}{what}");
        let reply = self.submit(method, &path, &Value::Null).await;
        if reply.is_some_and(|reply| reply.status.is_success()) {
            self.session = None;
        }
    }

    /// Lists events page by page: none twice.
    async fn list(&self, session: SessionId) {
        let order = *self.chance.pick(&["asc", "desc"]).unwrap();
        let (mut page, mut seen) = (String::new(), Vec::new());
        for _ in 0..50 {
            let path = format!("/v1/sessions/{session}/events?limit=5&order={order}{page}");
            let reply = self
                .shared
                .net
                .ask(&self.chance, Method::GET, &path, &[], "");
            let Ok(reply) = reply.await else { return };
            let Some(listed) = listed(&reply) else { return };
            for event in listed["data"].as_array().into_iter().flatten() {
                let id = event["id"].as_str().unwrap().to_owned();
                if seen.contains(&id) {
                    let words = format!("session `{session}`: `{id}` was listed twice");
                    self.shared.watcher.wrong(words);
                }
                seen.push(id);
            }
            match listed["next_page"].as_str() {
                Some(next) => page = format!("&page={next}"),
                None => return,
            }
        }
    }

    async fn events(&mut self, session: SessionId, events: &Value) -> Option<Reply> {
        let path = format!("/v1/sessions/{session}/events");
        self.submit(Method::POST, &path, &json!({ "events": events }))
            .await
    }

    /// Sends a request until it is answered, or gives up.
    async fn submit(&mut self, method: Method, path: &str, body: &Value) -> Option<Reply> {
        self.wishes += 1;
        let keyed = self.chance.chance(40);
        let key = format!("{}-{}", self.name, self.wishes);
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        for count in 0..if keyed { 60 } else { 3 } {
            let header = match keyed {
                true => ("idempotency-key", key.clone()),
                false => ("x-stainless-retry-count", count.to_string()),
            };
            let (net, headers) = (&self.shared.net, [header]);
            let asked = net.ask(&self.chance, method.clone(), path, &headers, &text);
            match asked.await {
                Ok(reply) if !is_to_be_repeated(&reply) => return Some(reply),
                Ok(_) | Err(_) => {}
            }
            let wait = 500_u64 << count.min(4);
            sleep(Duration::from_millis(
                wait * (75 + self.chance.below(25)) / 100,
            ))
            .await;
        }
        None
    }
}

/// Tells whether a session waits for its client, or is over.
fn rests(state: &State) -> bool {
    let over = state.deleted || state.status == Status::Terminated;
    let asks = state.threads[0].asked().next().is_some();
    let idle = state.shown() == Status::Idle && state.threads[0].lease.is_none();
    over || (idle && !asks)
}

/// Tells whether an SDK sends the request again.
fn is_to_be_repeated(reply: &Reply) -> bool {
    let usual = matches!(reply.status.as_u16(), 408 | 409 | 429 | 500..);
    reply.retry.unwrap_or(usual)
}

fn listed(reply: &Reply) -> Option<Value> {
    let value = serde_json::from_str(&reply.text).ok();
    value.filter(|_| reply.status.is_success())
}
