//! What a host answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Query, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{delete, get, post, put},
};
use outlast_protocol::id::{EventId, IncarnationId};
use serde::Serialize;
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::TaskTracker;

use super::{
    streams,
    wire::{About, Alive, Asked, Reap, Settings, milliseconds},
};
use crate::{CallError, Fence, HandLost, ProvisionError, Provisioner, Recalled, Recipe};

/// The longest call or recipe; the frames to PID 1 are shorter.
const LONGEST: usize = 256 << 20;

/// What the handlers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) provisioner: Arc<dyn Provisioner>,
    pub(super) about: About,
    figures: fn() -> String,
    /// Calls go on here when the connection that brought them ends.
    pub(super) tasks: TaskTracker,
    pub(super) changed: Notify,
    state: Mutex<Changing>,
}

/// What changes.
#[derive(Debug)]
struct Changing {
    spoken: Instant,
    draining: bool,
    leaving: bool,
    orphan: Duration,
    running: HashMap<IncarnationId, usize>,
}

/// A domain error: what was asked was understood, and this came of it.
pub(super) const FAILED: StatusCode = StatusCode::CONFLICT;

/// How a handler answers.
pub(super) type Answer<T, E> = Result<Json<T>, (StatusCode, Json<E>)>;

/// Makes the answer of a handler.
pub(super) fn answer<T: Serialize, E: Serialize>(done: Result<T, E>) -> Answer<T, E> {
    done.map(Json).map_err(|error| (FAILED, Json(error)))
}

/// One call that runs, for whoever wants to end its hand.
struct Running {
    shared: Arc<Shared>,
    incarnation: IncarnationId,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(count) = state.running.get_mut(&self.incarnation) {
            *count -= 1;
            if *count == 0 {
                state.running.remove(&self.incarnation);
            }
        }
    }
}

impl Shared {
    pub(super) fn new(
        provisioner: Arc<dyn Provisioner>,
        figures: fn() -> String,
        about: About,
    ) -> Self {
        let changing = Changing {
            spoken: Instant::now(),
            draining: false,
            leaving: false,
            orphan: Duration::from_millis(about.orphan_ms),
            running: HashMap::new(),
        };
        Self {
            provisioner,
            about,
            figures,
            tasks: TaskTracker::new(),
            changed: Notify::new(),
            state: Mutex::new(changing),
        }
    }

    /// Locks what changes, never across an await.
    fn state(&self) -> MutexGuard<'_, Changing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a server last asked for something.
    pub(super) fn spoken(&self) -> Instant {
        self.state().spoken
    }

    /// Returns after how long without a word from a server the host ends.
    pub(super) fn orphan(&self) -> Duration {
        self.state().orphan
    }

    /// Tells whether the host ends with its last hand.
    pub(super) fn is_draining(&self) -> bool {
        self.state().draining
    }

    /// Tells whether the server went away in order; the host ends if it has no hand.
    pub(super) fn is_left(&self) -> bool {
        self.state().leaving
    }

    /// Returns how many calls of a hand run.
    pub(super) fn calls(&self, incarnation: IncarnationId) -> usize {
        self.state().running.get(&incarnation).copied().unwrap_or(0)
    }

    fn run(self: &Arc<Self>, incarnation: IncarnationId) -> Running {
        *self.state().running.entry(incarnation).or_default() += 1;
        Running {
            shared: Arc::clone(self),
            incarnation,
        }
    }

    /// Says what becomes of a call of a hand that does not live here.
    async fn of_the_dead(
        &self,
        incarnation: IncarnationId,
        call: EventId,
    ) -> Result<outlast_protocol::CallResult, CallError> {
        let recalled = self.provisioner.recall(incarnation, call).await;
        let handed_over = match recalled {
            Recalled::Settled(result) => return Ok(result),
            Recalled::NotStarted => false,
            Recalled::Begun | Recalled::Unknown => true,
        };
        Err(self.gone(incarnation, handed_over).await.into())
    }

    /// Makes the error of a hand that does not live here.
    async fn gone(&self, incarnation: IncarnationId, handed_over: bool) -> HandLost {
        let fate = self.provisioner.fate(incarnation).await;
        HandLost {
            incarnation,
            reason: fate.unwrap_or_else(|| "it is not running any more".to_owned()),
            handed_over,
        }
    }
}

/// Makes the router of a host.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let hand = Router::new()
        .route("/", put(provision).get(find).delete(reap))
        .route("/holds", get(holds))
        .route("/fate", get(fate))
        .route("/fence", post(raise))
        .route("/calls/{call}", post(execute).get(recall))
        .route("/calls/{call}/cancel", post(cancel))
        .route("/checkpoint", get(streams::checkpoint))
        .route("/layer", put(streams::restore))
        .route("/uploads", get(streams::uploads))
        .route(
            "/uploads/{path}",
            put(streams::place).merge(delete(streams::unplace)),
        )
        .route("/outputs", get(streams::outputs))
        .route("/outputs/{path}", get(streams::output));
    Router::new()
        .route("/v1/host", get(about))
        .route("/v1/host/drain", post(drain))
        .route("/v1/host/figures", get(figures))
        .route("/v1/host/leave", post(leave))
        .route("/v1/host/settings", put(settle))
        .route("/v1/hands", get(list))
        .nest("/v1/hands/{incarnation}", hand)
        .layer(DefaultBodyLimit::max(LONGEST))
        .layer(middleware::from_fn_with_state(shared.clone(), hear))
        .with_state(shared)
}

/// Notes that a server is there.
async fn hear(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    {
        let mut state = shared.state();
        state.spoken = Instant::now();
        // Whoever speaks is there: an earlier farewell is void.
        state.leaving = false;
    }
    next.run(request).await
}

async fn about(State(shared): State<Arc<Shared>>) -> Json<About> {
    let (draining, orphan) = (shared.is_draining(), shared.orphan());
    Json(About {
        draining,
        orphan_ms: milliseconds(orphan),
        ..shared.about.clone()
    })
}

async fn figures(State(shared): State<Arc<Shared>>) -> Json<String> {
    Json((shared.figures)())
}

async fn drain(State(shared): State<Arc<Shared>>) -> Json<()> {
    tracing::info!("told to drain: no new hand is made, those there are end with their calls");
    shared.state().draining = true;
    shared.changed.notify_one();
    Json(())
}

async fn leave(State(shared): State<Arc<Shared>>) -> Json<()> {
    shared.state().leaving = true;
    shared.changed.notify_one();
    Json(())
}

async fn settle(
    State(shared): State<Arc<Shared>>,
    Json(Settings { orphan_ms }): Json<Settings>,
) -> Json<()> {
    tracing::info!(orphan_ms, "told how long to wait for a server");
    shared.state().orphan = Duration::from_millis(orphan_ms);
    shared.changed.notify_one();
    Json(())
}

async fn list(State(shared): State<Arc<Shared>>) -> Json<Vec<IncarnationId>> {
    Json(shared.provisioner.list().await)
}

async fn provision(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
    Json(recipe): Json<Recipe>,
) -> Answer<Alive, ProvisionError> {
    if shared.is_draining() && shared.provisioner.find(incarnation).await.is_none() {
        return answer(Err(ProvisionError::Step {
            incarnation,
            step: "ask the hand host".to_owned(),
            reason: "it is about to end and takes no new hand".to_owned(),
            mend: None,
        }));
    }
    let made = shared.provisioner.provision(&recipe).await;
    answer(made.map(|hand| Alive {
        promise: hand.promise(),
    }))
}

async fn find(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
) -> Json<Option<Alive>> {
    let found = shared.provisioner.find(incarnation).await;
    Json(found.map(|hand| Alive {
        promise: hand.promise(),
    }))
}

async fn reap(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
    Query(Reap { keep }): Query<Reap>,
) -> Answer<(), crate::ReapError> {
    answer(shared.provisioner.reap(incarnation, keep).await)
}

async fn holds(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
) -> Answer<bool, String> {
    let held = shared.provisioner.holds(incarnation).await;
    answer(held.map_err(|fault| fault.to_string()))
}

async fn fate(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
) -> Json<Option<String>> {
    Json(shared.provisioner.fate(incarnation).await)
}

async fn raise(
    State(shared): State<Arc<Shared>>,
    Path(incarnation): Path<IncarnationId>,
    Json(fence): Json<Fence>,
) -> Answer<(), HandLost> {
    match shared.provisioner.find(incarnation).await {
        Some(hand) => answer(hand.raise(fence).await),
        None => answer(Err(shared.gone(incarnation, false).await)),
    }
}

async fn execute(
    State(shared): State<Arc<Shared>>,
    Path((incarnation, call)): Path<(IncarnationId, EventId)>,
    body: Bytes,
) -> Response {
    let task = {
        let shared = Arc::clone(&shared);
        async move {
            let asked: Asked<'_> = serde_json::from_slice(&body)?;
            let _running = shared.run(incarnation);
            let Some(hand) = shared.provisioner.find(incarnation).await else {
                return Ok(shared.of_the_dead(incarnation, call).await);
            };
            let done = hand
                .execute(asked.fence(), call, &asked.name, asked.input)
                .await;
            Ok::<_, serde_json::Error>(done)
        }
    };
    match shared.tasks.spawn(task).await {
        Ok(Ok(done)) => answer(done).into_response(),
        Ok(Err(error)) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn recall(
    State(shared): State<Arc<Shared>>,
    Path((incarnation, call)): Path<(IncarnationId, EventId)>,
) -> Json<Recalled> {
    Json(shared.provisioner.recall(incarnation, call).await)
}

async fn cancel(
    State(shared): State<Arc<Shared>>,
    Path((incarnation, call)): Path<(IncarnationId, EventId)>,
) -> Json<()> {
    if let Some(hand) = shared.provisioner.find(incarnation).await {
        hand.cancel(call).await;
    }
    Json(())
}
