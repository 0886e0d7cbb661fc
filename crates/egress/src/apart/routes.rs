//! What the egress process answers. Nothing here opens a secret for whoever asks.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, FromRequestParts, State},
    response::{IntoResponse as _, Response},
    routing::{any, post},
};
use futures::TryStreamExt as _;
use http::{
    HeaderMap, HeaderValue, Request, StatusCode,
    header::{CONNECTION, UPGRADE},
    request::Parts,
};
use outlast_kernel::{Bound, Dress, Network as _, Reader, Unreachable, sweep};
use outlast_model::upstream::{Forward, Part};
use outlast_protocol::{CallResult, Micros, credential::Validation};
use outlast_store::SealedSecret;
use outlast_vault::{Custodian, Declined, Holding, Order, Purpose, Turned};
use serde::de::DeserializeOwned;
use tokio_util::io::{ReaderStream, StreamReader};

use super::{
    About,
    ask::FAILED,
    models::MODELS,
    tenant::{House, Tenant},
    wire::{HELLO, Hello, Life, OF, Of, Opened, PROTOCOL, SERVER, Tried, UNREACHED, VERSION},
};
use crate::front::asked::may_leave;

/// Bytes that are read at once.
const CHUNK: usize = 256 * 1024;

/// The most of a body that is read whole, in bytes: more than a server takes in.
const LARGEST: usize = 256 << 20;

/// How a handler answers.
type Answer<T> = Result<Json<T>, Refusal>;

/// Why it was declined.
struct Refusal(Declined);

impl From<Declined> for Refusal {
    fn from(declined: Declined) -> Self {
        Self(declined)
    }
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (FAILED, Json(self.0)).into_response()
    }
}

pub(super) fn router(house: Arc<House>) -> Router {
    Router::new()
        .route("/about", post(about))
        .route("/link", post(link))
        .route("/open", post(open))
        .route("/secure", post(secure))
        .route("/end", post(end))
        .route("/validate", post(validate))
        .route("/holding", post(holding))
        .route("/turn", post(turn))
        .route("/outdate", post(outdate))
        .route("/dress", post(dress))
        .route("/unreachable", post(unreachable))
        .route("/revoke", post(revoke))
        .route("/sweep/result", post(sweep_result))
        .route("/sweep/texts", post(sweep_texts))
        .route("/sweep/bytes", post(sweep_bytes))
        .route(&format!("{MODELS}/{{*path}}"), any(models))
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(house)
}

/// Whoever asks, if it is linked.
struct Asking(Arc<Tenant>);

impl FromRequestParts<Arc<House>> for Asking {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, house: &Arc<House>) -> Result<Self, Refusal> {
        Ok(Self(house.tenant(name(&parts.headers))?))
    }
}

fn name(headers: &HeaderMap) -> &str {
    let name = headers.get(SERVER).and_then(|name| name.to_str().ok());
    name.unwrap_or_default()
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    // The words of such an error may quote what was sent.
    let wrong = |_| Declined::Broken("it is not understood".to_owned());
    Ok(serde_json::from_slice(bytes).map_err(wrong)?)
}

async fn about(State(house): State<Arc<House>>) -> Json<About> {
    Json(About {
        version: VERSION,
        pid: std::process::id(),
        models: house.options.models.clone(),
    })
}

/// Turns a connection around.
async fn link(State(house): State<Arc<House>>, mut request: Request<Body>) -> Response {
    let headers = request.headers();
    let hello = headers
        .get(HELLO)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    let hello: Hello = match serde_json::from_slice(hello) {
        Ok(hello) => hello,
        Err(_) => return (StatusCode::BAD_REQUEST, "it does not say what it is").into_response(),
    };
    if hello.version != VERSION {
        let words = format!(
            "it speaks version {} with a server of version {VERSION}: both have to be of one version of \
             outlast",
            hello.version
        );
        return (StatusCode::BAD_REQUEST, words).into_response();
    }
    let tenant = match house.admit(name(headers), &hello) {
        Ok(tenant) => tenant,
        Err(words) => return (StatusCode::CONFLICT, words).into_response(),
    };
    let turning = hyper::upgrade::on(&mut request);
    let holder = house.clone();
    house.tasks.spawn(async move {
        match turning.await {
            Ok(turned) => holder.hold(tenant, turned).await,
            Err(_) => holder.let_go(tenant).await,
        }
    });
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

async fn open(State(house): State<Arc<House>>, Asking(tenant): Asking) -> Json<Opened> {
    house.open(&tenant).await;
    let custodian: &dyn Custodian = &tenant.vault;
    let keys = [Purpose::Receipts, Purpose::BrainTokens];
    let keys = keys
        .into_iter()
        .filter_map(|purpose| Some((purpose, *custodian.derive(purpose)?)));
    Json(Opened {
        trouble: custodian.trouble(),
        keys: keys.collect(),
    })
}

async fn secure(Asking(tenant): Asking, bytes: Bytes) -> Answer<SealedSecret> {
    let order: Order = read(&bytes)?;
    Ok(Json(tenant.vault.secure(order).await?))
}

async fn end(Asking(tenant): Asking, bytes: Bytes) -> Answer<Option<Micros>> {
    let sealed: SealedSecret = read(&bytes)?;
    Ok(Json(tenant.vault.end_of(&sealed).await?))
}

async fn validate(Asking(tenant): Asking, bytes: Bytes) -> Answer<(Validation, Option<String>)> {
    let Tried { vault, credential } = read(&bytes)?;
    let tried = Custodian::validate(&tenant.vault, vault, credential).await?;
    let unreached = tried.unreached.clone();
    Ok(Json((tried, unreached)))
}

async fn holding(Asking(tenant): Asking) -> Answer<Holding> {
    Ok(Json(Custodian::holding(&tenant.vault).await?))
}

async fn turn(Asking(tenant): Asking) -> Answer<Turned> {
    Ok(Json(Custodian::turn(&tenant.vault).await?))
}

async fn outdate(Asking(tenant): Asking) -> Answer<()> {
    tenant.vault.outdate().await;
    Ok(Json(()))
}

async fn dress(Asking(tenant): Asking, bytes: Bytes) -> Answer<Dress> {
    let bound: Bound = read(&bytes)?;
    let dressed = tenant.forwarder.dress(&bound).await;
    let dressed = dressed.map_err(|problem| Declined::Locked(problem.message))?;
    Ok(Json(dressed))
}

async fn unreachable(Asking(tenant): Asking, bytes: Bytes) -> Answer<Option<Vec<Unreachable>>> {
    let Life { incarnation } = read(&bytes)?;
    let found = tenant.forwarder.unreachable(incarnation).await;
    Ok(Json(found.map(|found| found.to_vec())))
}

async fn revoke(Asking(tenant): Asking, bytes: Bytes) -> Answer<()> {
    let Life { incarnation } = read(&bytes)?;
    tenant.forwarder.revoke(incarnation).await;
    Ok(Json(()))
}

async fn sweep_result(Asking(tenant): Asking, bytes: Bytes) -> Answer<CallResult> {
    let (of, result): (Of, CallResult) = read(&bytes)?;
    let scrubber = tenant.scrubber(&of).await;
    let scrubber = scrubber.map_err(|error| Declined::Away(error.to_string()))?;
    Ok(Json(sweep::result(&scrubber, result)))
}

async fn sweep_texts(Asking(tenant): Asking, bytes: Bytes) -> Answer<Vec<String>> {
    let (of, texts): (Of, Vec<String>) = read(&bytes)?;
    let scrubber = tenant.scrubber(&of).await;
    let scrubber = scrubber.map_err(|error| Declined::Away(error.to_string()))?;
    Ok(Json(sweep::texts(&scrubber, texts)))
}

/// Sends bytes back as they come, without secrets.
async fn sweep_bytes(
    Asking(tenant): Asking,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let of: Of = read(
        headers
            .get(OF)
            .map(HeaderValue::as_bytes)
            .unwrap_or_default(),
    )?;
    let scrubber = tenant.scrubber(&of).await;
    let scrubber = scrubber.map_err(|error| Declined::Away(error.to_string()))?;
    let chunks = body.into_data_stream().map_err(std::io::Error::other);
    let content: Reader = Box::pin(StreamReader::new(chunks));
    let swept = ReaderStream::with_capacity(sweep::reader(&scrubber, content), CHUNK);
    Ok(Body::from_stream(swept).into_response())
}

/// Passes a request on under the key.
async fn models(State(house): State<Arc<House>>, parts: Parts, body: Bytes) -> Response {
    let path = parts.uri.path().strip_prefix(MODELS).unwrap_or_default();
    let unreached =
        |words: String| (StatusCode::BAD_GATEWAY, [(UNREACHED, "yes")], words).into_response();
    let part = match (path, path.strip_prefix("/v1/models/")) {
        ("/v1/messages", _) => Part::Messages,
        ("/v1/messages/count_tokens", _) => Part::CountTokens,
        ("/v1/models", _) => Part::Models,
        (_, Some(id)) => match Part::model(id) {
            Ok(part) => part,
            Err(_) => return StatusCode::NOT_FOUND.into_response(),
        },
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let Some(provider) = &house.options.provider else {
        return no_backend();
    };
    let forward = Forward {
        method: parts.method,
        part,
        query: parts.uri.query().map(str::to_owned),
        headers: may_leave(&parts.headers),
        body,
    };
    match provider.forward(forward).await {
        Ok(forwarded) => {
            let chunks = forwarded.body.map_err(std::io::Error::other);
            let mut response = Response::new(Body::from_stream(chunks));
            *response.status_mut() = forwarded.status;
            *response.headers_mut() = forwarded.headers;
            // How this hop is framed is its own matter.
            // Without the key a body is shorter.
            for name in [
                "connection",
                "content-length",
                "transfer-encoding",
                "keep-alive",
            ] {
                response.headers_mut().remove(name);
            }
            response
        }
        Err(words) => unreached(words),
    }
}

/// Says in the API's own shape that there is no model.
fn no_backend() -> Response {
    let words = "no backend is configured for this model: set OUTLAST_UPSTREAM_API_KEY for the egress \
                 process, or use model `scripted`";
    let body = serde_json::json!({
        "type": "error", "error": {"type": "not_found_error", "message": words},
    });
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}
