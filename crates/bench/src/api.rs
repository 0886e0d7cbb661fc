//! What the benchmarks do with a server, over one connection.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{http::Connection, model::Ask};

/// How often a session is asked whether its turn is over.
const LOOK: Duration = Duration::from_millis(3);

/// Looks before a turn counts as stuck: a minute.
const LOOKS: u32 = 20_000;

/// A client with an agent and an environment of its own.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
    session: Value,
}

impl Client {
    /// Connects, and makes the agent and the environment that its sessions use; the agent's model
    /// is the one at [`Endpoint`](crate::model::Endpoint).
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        Self::with(address, "bench").await
    }

    /// The same with the model that is built in, for servers without an upstream.
    pub(crate) async fn scripted(address: SocketAddr) -> Result<Self> {
        Self::with(address, "scripted").await
    }

    async fn with(address: SocketAddr, model: &str) -> Result<Self> {
        let mut connection = Connection::open(address).await?;
        let tools = json!([{"type": "agent_toolset_20260401"}]);
        let agent = json!({"name": "bench", "model": model, "tools": tools});
        let agent = id(&connection.post("/v1/agents", &agent).await?)?;
        let environment = json!({"name": "bench", "config": {"type": "cloud"}});
        let environment = id(&connection.post("/v1/environments", &environment).await?)?;
        let session = json!({"agent": agent, "environment_id": environment});
        Ok(Self {
            connection,
            session,
        })
    }

    /// Connects once more, for sessions of the same agent.
    pub(crate) async fn again(&self, address: SocketAddr) -> Result<Self> {
        Ok(Self {
            connection: Connection::open(address).await?,
            session: self.session.clone(),
        })
    }

    /// Makes a session.
    pub(crate) async fn session(&mut self) -> Result<String> {
        id(&self.connection.post("/v1/sessions", &self.session).await?)
    }

    /// Sends events that were written before, and waits until they are accepted.
    pub(crate) async fn send(&mut self, session: &str, events: Bytes) -> Result<()> {
        let path = format!("/v1/sessions/{session}/events");
        self.connection
            .call(Method::POST, &path, events)
            .await
            .map(drop)
    }

    /// Has the model do something, and waits until the turn is over.
    pub(crate) async fn turn(&mut self, session: &str, ask: Ask) -> Result<()> {
        self.send(session, message(ask, 0)).await?;
        self.idle(session).await
    }

    /// Waits until a session is idle.
    pub(crate) async fn idle(&mut self, session: &str) -> Result<()> {
        let path = format!("/v1/sessions/{session}");
        for _ in 0..LOOKS {
            let session = self.connection.get(&path).await?;
            match session.get("status").and_then(Value::as_str) {
                Some("idle") => return Ok(()),
                Some("terminated") => bail!("`{path}` is over"),
                Some(_) | None => sleep(LOOK).await,
            }
        }
        bail!("`{path}` does not come to rest")
    }

    /// Returns the events of a session, all types or some.
    pub(crate) async fn events(&mut self, session: &str, types: &[&str]) -> Result<Vec<Value>> {
        let types: String = types
            .iter()
            .map(|kind| format!("types[]={kind}&"))
            .collect();
        let path = format!("/v1/sessions/{session}/events?{types}limit=1000");
        let page = self.connection.get(&path).await?;
        Ok(page
            .get("data")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default())
    }

    /// Deletes a session and with it its sandbox.
    pub(crate) async fn delete(&mut self, session: &str) -> Result<()> {
        let path = format!("/v1/sessions/{session}");
        self.connection
            .call(Method::DELETE, &path, Bytes::new())
            .await
            .map(drop)
    }

    /// Returns the ids of all sessions.
    pub(crate) async fn sessions(&mut self) -> Result<Vec<String>> {
        let (mut ids, mut next) = (Vec::new(), String::new());
        loop {
            let page = self
                .connection
                .get(&format!("/v1/sessions?limit=1000{next}"))
                .await?;
            let data = page
                .get("data")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            for session in data {
                ids.push(id(session)?);
            }
            match page.get("next_page").and_then(Value::as_str) {
                Some(page) => next = format!("&page={page}"),
                None => return Ok(ids),
            }
        }
    }

    /// Asks whether the server lives.
    pub(crate) async fn health(&mut self) -> Result<()> {
        self.connection
            .call(Method::GET, "/healthz", Bytes::new())
            .await
            .map(drop)
    }

    /// Returns the server's figures.
    pub(crate) async fn metrics(&mut self) -> Result<String> {
        let text = self
            .connection
            .call(Method::GET, "/metrics", Bytes::new())
            .await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Writes a request of one message of about that many bytes.
pub(crate) fn message(ask: Ask, bytes: usize) -> Bytes {
    let content = json!([{"type": "text", "text": ask.text(bytes)}]);
    json!({"events": [{"type": "user.message", "content": content}]})
        .to_string()
        .into()
}

/// Writes a request of so many interrupts.
pub(crate) fn interrupts(count: usize) -> Bytes {
    let events = vec![json!({"type": "user.interrupt"}); count];
    json!({"events": events}).to_string().into()
}

fn id(object: &Value) -> Result<String> {
    let id = object.get("id").and_then(Value::as_str);
    id.map(str::to_owned).context("the answer has no id")
}
