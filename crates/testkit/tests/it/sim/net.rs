//! The network between clients and whatever process is there: slow, and at times it loses things.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream},
    response::Response,
};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use outlast_api::Connection;
use outlast_testkit::{faults::Faults, random::Seeded};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use crate::sim::world::{KEY, Life, spawn};

/// How long a connection stays open behind an answer that arrived.
const KEPT: Duration = Duration::from_secs(5);

/// The processes that can be reached, the newest last.
#[derive(Clone, Default)]
pub(crate) struct Net(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lives: Vec<Arc<Life>>,
    /// Of a hundred requests or answers, so many are lost.
    loss: u64,
}

/// Nothing was heard of a request; whether it was done nobody knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken;

/// An answer that was read whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    /// What the server says of trying again.
    pub(crate) retry: Option<bool>,
}

impl Net {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets so many of a hundred messages be lost from now on.
    pub(crate) fn lose(&self, percent: u64) {
        self.lock().loss = percent;
    }

    /// Lets a process be reached.
    pub(crate) fn join(&self, life: &Arc<Life>) {
        self.lock().lives.push(life.clone());
    }

    /// Lets it be reached no more.
    pub(crate) fn leave(&self, life: &Arc<Life>) {
        self.lock().lives.retain(|known| !Arc::ptr_eq(known, life));
    }

    /// Returns some process that can be reached.
    pub(crate) fn some(&self, chance: &Seeded) -> Option<Arc<Life>> {
        let state = self.lock();
        chance.pick(&state.lives).cloned()
    }

    fn loses(&self, chance: &Seeded) -> bool {
        let loss = self.lock().loss;
        chance.chance(loss)
    }

    /// Sends a request and reads its answer whole.
    pub(crate) async fn ask(
        &self,
        chance: &Seeded,
        method: Method,
        path: &str,
        headers: &[(&str, String)],
        body: &str,
    ) -> Result<Reply, Broken> {
        sleep(Duration::from_millis(chance.below(20))).await;
        let (lost, impatient) = (self.loses(chance), self.loses(chance));
        let Some(life) = self.some(chance).filter(|_| !lost) else {
            return Err(Broken);
        };
        let patience = match impatient {
            true => Duration::from_millis(chance.below(40)),
            false => Duration::from_secs(600),
        };
        let (answer_lost, written) = (self.loses(chance), chance.chance(50));
        let (connection, guard) = Connection::open();
        let request = request(method, path, headers, body, connection);
        let answered = async {
            let response = life.router.clone().oneshot(request).await.unwrap();
            // Lost before it was written, or behind that.
            if answer_lost && !written {
                return Err(Broken);
            }
            let reply = whole(response).await?;
            if answer_lost { Err(Broken) } else { Ok(reply) }
        };
        let reply = alive(&life.faults, timeout(patience, answered)).await?;
        let reply = reply.map_err(|_| Broken)??;
        spawn(async move {
            sleep(KEPT).await;
            drop(guard);
        });
        Ok(reply)
    }

    /// Opens a stream at some process; returns what comes until that dies.
    pub(crate) async fn open(
        &self,
        chance: &Seeded,
        path: &str,
        headers: &[(&str, String)],
    ) -> Result<(BodyDataStream, Arc<Faults>), Broken> {
        sleep(Duration::from_millis(chance.below(20))).await;
        let lost = self.loses(chance);
        let Some(life) = self.some(chance).filter(|_| !lost) else {
            return Err(Broken);
        };
        let (connection, guard) = Connection::open();
        let request = request(Method::GET, path, headers, "", connection);
        let response = alive(&life.faults, life.router.clone().oneshot(request)).await?;
        let response = response.unwrap();
        drop(guard);
        match response.status() {
            StatusCode::OK => Ok((response.into_body().into_data_stream(), life.faults.clone())),
            _ => Err(Broken),
        }
    }
}

/// Waits for something that a process does, for as long as it lives.
pub(crate) async fn alive<T>(faults: &Faults, doing: impl Future<Output = T>) -> Result<T, Broken> {
    tokio::select! {
        biased;
        () = faults.died() => Err(Broken),
        done = doing => Ok(done),
    }
}

async fn whole(response: Response) -> Result<Reply, Broken> {
    let (parts, body) = response.into_parts();
    let retry = parts.headers.get("x-should-retry");
    let retry = retry.map(|value| value.as_bytes() == b"true");
    let bytes = body.collect().await.map_err(|_| Broken)?.to_bytes();
    Ok(Reply {
        status: parts.status,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
        retry,
    })
}

fn request(
    method: Method,
    path: &str,
    headers: &[(&str, String)],
    body: &str,
    connection: Connection,
) -> Request<Body> {
    let mut builder = Request::builder()
        .method(method)
        .uri(path)
        .extension(connection)
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "application/json");
    for (name, value) in headers {
        builder = builder.header(*name, value);
    }
    builder.body(Body::from(body.to_owned())).unwrap()
}
