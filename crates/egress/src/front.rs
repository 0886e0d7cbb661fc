//! The Messages API for those who are outside: clients with a key, brains with a token.
//!
//! What they send goes on as it is, under this server's key; what comes back goes back as it is.

mod answer;
pub(crate) mod asked;
mod listed;
mod spans;

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, Request, State},
    response::Response,
    routing::{get, post},
};
use http::{HeaderMap, HeaderValue, Uri, header, request::Parts};
use outlast_kernel::{Asker, Identity, Kernel};
use outlast_model::{
    Facts, Scripted,
    upstream::{Forward, Forwarded, Part, Provider},
    wire,
};
use outlast_protocol::{ErrorCode, Problem};
use tower::ServiceExt as _;

use self::{
    answer::{Refused, respond},
    asked::{Asked, may_leave},
};
use crate::budget::{Budget, Payer, Unbounded};

/// Where brains find it.
const BRAINS: &str = "/outlast/v1/brains";

/// The header that the API asks for, and what it says if the caller leaves it out.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The Messages API in front of a model.
#[derive(Clone, Debug)]
pub struct Front(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kernel: Kernel,
    facts: Arc<Facts>,
    scripted: Router,
    upstream: Option<Arc<dyn Provider>>,
    budget: Arc<dyn Budget>,
}

type Answer = Result<Response, Refused>;

impl Front {
    /// Opens the API; without an upstream the scripted model alone answers.
    pub fn new(kernel: Kernel, facts: Arc<Facts>, upstream: Option<Arc<dyn Provider>>) -> Self {
        let scripted = Arc::new(Scripted::new());
        Self(Arc::new(Inner {
            kernel,
            facts,
            scripted: wire::router(scripted, wire::Options::default()),
            upstream,
            budget: Arc::new(Unbounded),
        }))
    }

    /// Asks a budget before anything leaves.
    #[must_use]
    pub fn under(self, budget: Arc<dyn Budget>) -> Self {
        let Inner {
            kernel,
            facts,
            scripted,
            upstream,
            ..
        } = &*self.0;
        Self(Arc::new(Inner {
            kernel: kernel.clone(),
            facts: facts.clone(),
            scripted: scripted.clone(),
            upstream: upstream.clone(),
            budget,
        }))
    }

    /// Routes what clients ask; whoever mounts them has checked the key, and says whose it is by an
    /// [`Identity`] in the extensions.
    pub fn clients(&self) -> Router {
        Router::new()
            .route("/v1/messages", post(messages))
            .route("/v1/messages/count_tokens", post(count_tokens))
            .route("/v1/models", get(models))
            .route("/v1/models/{model_id}", get(model))
            // Whoever mounts them has bounded what a body may have.
            .layer(DefaultBodyLimit::disable())
            .with_state(self.clone())
    }

    /// Routes what brains ask with the token of their lease, as if `BRAINS` were the API.
    pub fn brains(&self) -> Router {
        Router::new()
            .route(&format!("{BRAINS}/v1/messages"), post(spans::messages))
            .route(
                &format!("{BRAINS}/v1/messages/count_tokens"),
                post(spans::count_tokens),
            )
            // Whoever mounts them has bounded what a body may have.
            .layer(DefaultBodyLimit::disable())
            .with_state(self.clone())
    }
}

/// `POST /v1/messages`.
async fn messages(
    State(front): State<Front>,
    Extension(who): Extension<Identity>,
    parts: Parts,
    body: Bytes,
) -> Answer {
    let asked = Asked::read(&body)?;
    let payer = Payer::Key(who.key);
    front.0.budget.admit(payer, &asked.model).await?;
    let forwarded = front
        .send(Part::Messages, Some(&asked), parts, body)
        .await?;
    respond(forwarded).await
}

/// `POST /v1/messages/count_tokens`.
async fn count_tokens(State(front): State<Front>, parts: Parts, body: Bytes) -> Answer {
    let asked = Asked::read(&body)?;
    let forwarded = front
        .send(Part::CountTokens, Some(&asked), parts, body)
        .await?;
    respond(forwarded).await
}

/// `GET /v1/models`: those of the upstream, and the scripted one behind the last.
async fn models(State(front): State<Front>, parts: Parts) -> Answer {
    let headers = parts.headers.clone();
    let forwarded = front.send(Part::Models, None, parts, Bytes::new()).await?;
    if front.0.upstream.is_none() {
        return respond(forwarded).await;
    }
    respond(listed::with_scripted(forwarded, &front, headers).await?).await
}

/// `GET /v1/models/{model_id}`.
async fn model(State(front): State<Front>, Path(id): Path<String>, parts: Parts) -> Answer {
    let unknown = |_| Problem::not_found(format_args!("model `{}`", asked::excerpt(&id)));
    let part = Part::model(&id).map_err(unknown)?;
    respond(front.send(part, None, parts, Bytes::new()).await?).await
}

impl Front {
    /// Sends a request to whoever answers the model that it asks.
    async fn send(
        &self,
        part: Part,
        asked: Option<&Asked>,
        parts: Parts,
        body: Bytes,
    ) -> Result<Forwarded, Problem> {
        let model = match &part {
            Part::Model(id) => Some(id.as_str()),
            Part::Messages | Part::CountTokens | Part::Models => {
                asked.map(|asked| asked.model.as_str())
            }
        };
        let scripted = model == Some(Scripted::ID);
        match &self.0.upstream {
            Some(upstream) if !scripted => {
                let forward = Forward {
                    method: parts.method,
                    part,
                    query: parts.uri.query().map(str::to_owned),
                    headers: may_leave(&parts.headers),
                    body,
                };
                let sent = upstream.forward(forward).await;
                sent.map_err(|words| Problem::new(ErrorCode::Unavailable, words))
            }
            None if !scripted && model.is_some() => Err(no_backend(model.unwrap_or_default())),
            Some(_) | None => Ok(self.scripted(&part, parts, body).await),
        }
    }

    /// Asks the scripted model.
    async fn scripted(&self, part: &Part, parts: Parts, body: Bytes) -> Forwarded {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = Uri::try_from(part.path()).unwrap_or_default();
        *request.headers_mut() = may_leave(&parts.headers);
        let (name, usual) = VERSION;
        let headers = request.headers_mut();
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(usual));
        let answered = self.0.scripted.clone().oneshot(request).await;
        let (parts, body) = answered.unwrap_or_else(|never| match never {}).into_parts();
        Forwarded::new(parts.status, parts.headers, body.into_data_stream())
    }
}

fn no_backend(model: &str) -> Problem {
    let words = format!(
        "model: no backend is configured for `{}`; this server has `{}`",
        asked::excerpt(model),
        Scripted::ID
    );
    Problem::new(ErrorCode::NotFound, words)
}

/// Finds the token of a brain in either header.
fn token(headers: &HeaderMap) -> Option<&str> {
    let key = headers
        .get("x-api-key")
        .and_then(|value| value.to_str().ok());
    let bearer = || {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.trim().split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    };
    bearer().or(key)
}

impl Front {
    /// Returns which brain asks, if its lease still stands.
    async fn brain(&self, headers: &HeaderMap) -> Result<Asker, Problem> {
        let missing = || Problem::new(ErrorCode::Authentication, "no token of a brain");
        let asker = self.0.kernel.asker(token(headers).ok_or_else(missing)?)?;
        self.0.kernel.holds(asker).await?;
        Ok(asker)
    }
}
