//! The scripted model behind the real Messages wire.
//!
//! `POST /v1/messages`, plain and streamed, `POST /v1/messages/count_tokens`, `GET /v1/models` and
//! `GET /v1/models/{id}`, with the API's error bodies and a `request-id` on every answer. Any model
//! id is taken, so that an agent made for another model can be tried offline.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::Scripted;
use crate::scripted::{Dialect, Plan, Rejection};

mod plain;

/// When the scripted model came to be, for the list of models.
const BORN: &str = "2026-01-01T00:00:00Z";

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Its method.
    pub method: Method,
    /// Its path with the query.
    pub path: String,
    /// Its headers, the key among them.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Looks at every request, for tests.
pub trait Recorder: fmt::Debug + Send + Sync {
    /// Takes a request in; called before it is checked.
    fn record(&self, captured: Captured);
}

/// Keeps every request in memory.
#[derive(Debug, Default)]
pub struct Tape(Mutex<Vec<Captured>>);

impl Tape {
    /// Returns what has been recorded so far.
    pub fn captured(&self) -> Vec<Captured> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Recorder for Tape {
    fn record(&self, captured: Captured) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(captured);
    }
}

/// How to serve.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The key that is asked for; `None` takes any and none.
    pub key: Option<SecretString>,
    /// Who looks at the requests; `None` records nothing.
    pub recorder: Option<Arc<dyn Recorder>>,
}

#[derive(Debug)]
struct Server {
    scripted: Arc<Scripted>,
    options: Options,
    served: AtomicU64,
}

/// A request that may be answered.
struct Admitted {
    body: Bytes,
    dialect: Dialect,
}

/// Makes the routes.
pub fn router(scripted: Arc<Scripted>, options: Options) -> Router {
    let server = Arc::new(Server {
        scripted,
        options,
        served: AtomicU64::new(0),
    });
    Router::new()
        .route("/", get(root))
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/v1/models", get(models))
        .route("/v1/models/{id}", get(model))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .with_state(server)
}

async fn root(State(server): State<Arc<Server>>) -> Response {
    server.finish(Ok(json_response(&json!({"model": Scripted::ID}))))
}

async fn messages(State(server): State<Arc<Server>>, request: Request) -> Response {
    let answer = async {
        let Admitted { body, dialect } = server.admit(request).await?;
        let plan = server.scripted.answer(&body, dialect, "")?;
        if wants_stream(&body) {
            Ok(stream(plan))
        } else {
            plain::message(plan).await
        }
    };
    let answer = answer.await;
    server.finish(answer)
}

async fn count_tokens(State(server): State<Arc<Server>>, request: Request) -> Response {
    let answer = async {
        let Admitted { body, dialect } = server.admit(request).await?;
        let tokens = server.scripted.count_tokens(&body, dialect)?;
        Ok(json_response(&json!({"input_tokens": tokens})))
    };
    let answer = answer.await;
    server.finish(answer)
}

async fn models(State(server): State<Arc<Server>>, request: Request) -> Response {
    let answer = server.admit(request).await.map(|admitted| {
        json_response(
            &json!({"data": [describe(admitted.dialect)], "has_more": false,
            "first_id": Scripted::ID, "last_id": Scripted::ID}),
        )
    });
    server.finish(answer)
}

async fn model(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let answer = match server.admit(request).await {
        Ok(admitted) if id == Scripted::ID => Ok(json_response(&describe(admitted.dialect))),
        Ok(_) => Err(not_found(format!("model: {id}"))),
        Err(rejection) => Err(rejection),
    };
    server.finish(answer)
}

async fn unknown(State(server): State<Arc<Server>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    server.finish(Err(not_found(format!("Not found: {path}"))))
}

async fn wrong_method(State(server): State<Arc<Server>>) -> Response {
    let mut rejection = Rejection::invalid("Method Not Allowed");
    rejection.status = 405;
    server.finish(Err(rejection))
}

impl Server {
    /// Reads and records a request and checks key and version.
    async fn admit(&self, request: Request) -> Result<Admitted, Rejection> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, crate::scripted::BODY)
            .await
            .map_err(|_| crate::scripted::too_large())?;
        if let Some(recorder) = &self.options.recorder {
            recorder.record(Captured {
                method: parts.method,
                path: parts
                    .uri
                    .path_and_query()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                headers: parts.headers.clone(),
                body: body.clone(),
            });
        }
        self.check_key(&parts.headers)?;
        let dialect = dialect(&parts.headers)?;
        Ok(Admitted { body, dialect })
    }

    fn check_key(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        let Some(key) = &self.options.key else {
            return Ok(());
        };
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let message = match text("x-api-key").or(bearer) {
            // Hashes are compared in constant time.
            Some(given) if hash(given) == hash(key.expose_secret()) => return Ok(()),
            Some(_) => "invalid x-api-key",
            None => "x-api-key header is required",
        };
        Err(Rejection {
            status: 401,
            kind: "authentication_error".to_owned(),
            message: message.to_owned(),
            retry_after: None,
        })
    }

    /// Gives an answer its id, and a refusal its body.
    fn finish(&self, answer: Result<Response, Rejection>) -> Response {
        let number = self.served.fetch_add(1, Ordering::Relaxed);
        let id = format!("req_scripted_{number:08}");
        let mut response = answer.unwrap_or_else(|rejection| refusal(&rejection, &id));
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert("request-id", id);
        }
        response
    }
}

fn hash(text: &str) -> blake3::Hash {
    blake3::hash(text.as_bytes())
}

fn dialect(headers: &HeaderMap) -> Result<Dialect, Rejection> {
    match headers.get("anthropic-version").map(HeaderValue::as_bytes) {
        Some(b"2023-06-01") => Ok(Dialect::V2023),
        Some(b"2026-10-21") => Ok(Dialect::V2026),
        Some(_) => Err(Rejection::invalid(
            "anthropic-version: is not a valid version",
        )),
        None => Err(Rejection::invalid("anthropic-version: header is required")),
    }
}

/// Tells whether a body, which has been read once already, asks for a stream.
fn wants_stream(body: &[u8]) -> bool {
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    body.get("stream").and_then(Value::as_bool).unwrap_or(false)
}

fn stream(plan: Plan) -> Response {
    with_type(
        "text/event-stream; charset=utf-8",
        Body::from_stream(plan.into_frames()),
    )
}

fn json_response(value: &Value) -> Response {
    with_type("application/json", Body::from(value.to_string()))
}

fn with_type(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn refusal(rejection: &Rejection, id: &str) -> Response {
    let mut response = with_type("application/json", Body::from(rejection.body(Some(id))));
    *response.status_mut() =
        StatusCode::from_u16(rejection.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(after) = rejection.retry_after {
        let headers = response.headers_mut();
        let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        headers.insert("retry-after-ms", millis.into());
        headers.insert(header::RETRY_AFTER, millis.div_ceil(1_000).into());
    }
    response
}

fn not_found(message: String) -> Rejection {
    Rejection {
        status: 404,
        kind: "not_found_error".to_owned(),
        message,
        retry_after: None,
    }
}

/// Describes the model, with all that clients of a version look for.
fn describe(dialect: Dialect) -> Value {
    let (id, name) = (Scripted::ID, "Outlast scripted model");
    match dialect {
        Dialect::V2023 => {
            json!({"type": "model", "id": id, "display_name": name, "created_at": BORN})
        }
        Dialect::V2026 => json!({
            "type": "model", "id": id, "display_name": name, "created_at": BORN,
            "capabilities": null, "deprecated_at": null, "lifecycle": "active", "line": null,
            "max_input_tokens": null, "max_tokens": null, "retires_at": null,
        }),
    }
}
