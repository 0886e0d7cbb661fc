//! Every path, and the layers around them.

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{get, post},
};
use outlast_kernel::{Kernel, WhileAway};

use crate::{
    Api, agents,
    app::{App, Shared},
    audit, auth, credentials, environments, events, extract,
    failure::{Failure, overloaded},
    files, health, keys, later, observe, openapi, own, resources, sessions, stream, threads,
    vaults,
};

/// Builds the API.
///
/// `/healthz` and `/readyz` are open, all else needs a key. The router has a fallback: merge others
/// into it, not it into them.
pub fn router(api: Api) -> Router {
    router_beside(api, Beside::default())
}

/// Routes of other rooms that take bodies as large as the API's own.
#[derive(Debug, Default)]
pub struct Beside {
    /// For clients: behind the key.
    pub clients: Router,
    /// For whoever shows something else than a key, which the routes look at themselves.
    pub others: Router,
}

/// Builds the API with routes of other rooms beside its own.
pub fn router_beside(api: Api, beside: Beside) -> Router {
    let kernel = api.kernel.clone();
    let app = Arc::new(App::new(api));
    let taken = middleware::from_fn_with_state(app.clone(), extract::take_in);
    let open = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz));
    let closed = agents()
        .merge(environments())
        .merge(files())
        .merge(sessions())
        .merge(resources())
        .merge(vaults())
        .merge(own::routes())
        .merge(keys::routes())
        .merge(audit::routes())
        .merge(openapi::routes())
        .merge(later::routes())
        .merge(beside.clients.layer(taken.clone()).with_state(()))
        .fallback(later::not_found)
        .method_not_allowed_fallback(later::method_not_allowed)
        .layer(middleware::from_fn_with_state(
            auth::Desk {
                kernel: kernel.clone(),
                away: WhileAway::Refuse,
            },
            auth::require_key,
        ));
    let others = beside.others.layer(taken).with_state(());
    closed
        .merge(others.method_not_allowed_fallback(later::method_not_allowed))
        .merge(open.method_not_allowed_fallback(later::method_not_allowed))
        .layer(middleware::from_fn_with_state(kernel, observe::observe))
        .with_state(app)
}

/// Puts the API's key check, request ids, errors and figures around the routes of another room.
///
/// They are of those that say what is wrong with the server, so a key that was good counts as good
/// while the store cannot be asked.
pub fn behind_key(kernel: &Kernel, routes: Router) -> Router {
    routes
        .method_not_allowed_fallback(later::method_not_allowed)
        .layer(middleware::from_fn_with_state(
            auth::Desk {
                kernel: kernel.clone(),
                away: WhileAway::AsLastKnown,
            },
            auth::require_key,
        ))
        .layer(middleware::from_fn_with_state(
            kernel.clone(),
            observe::observe,
        ))
}

/// Answers whatever is asked with the word that too many connections are open.
pub fn turning_away(kernel: &Kernel) -> Router {
    let full = || async { Failure(overloaded("too many connections are open")) };
    let observed = middleware::from_fn_with_state(kernel.clone(), observe::observe);
    Router::new().fallback(full).layer(observed)
}

fn agents() -> Router<Shared> {
    Router::new()
        .route("/v1/agents", post(agents::create).get(agents::list))
        .route(
            "/v1/agents/{agent_id}",
            get(agents::retrieve).post(agents::update),
        )
        .route("/v1/agents/{agent_id}/archive", post(agents::archive))
        .route("/v1/agents/{agent_id}/versions", get(agents::versions))
}

fn environments() -> Router<Shared> {
    let one = get(environments::retrieve)
        .post(environments::update)
        .delete(environments::delete);
    Router::new()
        .route(
            "/v1/environments",
            post(environments::create).get(environments::list),
        )
        .route("/v1/environments/{environment_id}", one)
        .route(
            "/v1/environments/{environment_id}/archive",
            post(environments::archive),
        )
}

fn files() -> Router<Shared> {
    Router::new()
        .route("/v1/files", post(files::upload).get(files::list))
        .route(
            "/v1/files/{file_id}",
            get(files::retrieve).delete(files::delete),
        )
        .route("/v1/files/{file_id}/content", get(files::content))
}

fn resources() -> Router<Shared> {
    let one = get(resources::retrieve)
        .post(resources::update)
        .delete(resources::delete);
    Router::new()
        .route(
            "/v1/sessions/{session_id}/resources",
            post(resources::add).get(resources::list),
        )
        .route("/v1/sessions/{session_id}/resources/{resource_id}", one)
}

fn vaults() -> Router<Shared> {
    let one = get(vaults::retrieve)
        .post(vaults::update)
        .delete(vaults::delete);
    Router::new()
        .route("/v1/vaults", post(vaults::create).get(vaults::list))
        .route("/v1/vaults/{vault_id}", one)
        .route("/v1/vaults/{vault_id}/archive", post(vaults::archive))
        .merge(credentials())
}

fn credentials() -> Router<Shared> {
    let one = get(credentials::retrieve)
        .post(credentials::update)
        .delete(credentials::delete);
    Router::new()
        .route(
            "/v1/vaults/{vault_id}/credentials",
            post(credentials::create).get(credentials::list),
        )
        .route("/v1/vaults/{vault_id}/credentials/{credential_id}", one)
        .route(
            "/v1/vaults/{vault_id}/credentials/{credential_id}/archive",
            post(credentials::archive),
        )
        .route(
            "/v1/vaults/{vault_id}/credentials/{credential_id}/mcp_oauth_validate",
            post(credentials::validate),
        )
}

fn sessions() -> Router<Shared> {
    let one = get(sessions::retrieve)
        .post(sessions::update)
        .delete(sessions::delete);
    Router::new()
        .route("/v1/sessions", post(sessions::create).get(sessions::list))
        .route("/v1/sessions/{session_id}", one)
        .route("/v1/sessions/{session_id}/archive", post(sessions::archive))
        .route(
            "/v1/sessions/{session_id}/events",
            post(events::send).get(events::list),
        )
        .route(
            "/v1/sessions/{session_id}/events/stream",
            get(stream::session),
        )
        .route("/v1/sessions/{session_id}/threads", get(threads::list))
        .route(
            "/v1/sessions/{session_id}/threads/{thread_id}",
            get(threads::retrieve),
        )
        .route(
            "/v1/sessions/{session_id}/threads/{thread_id}/archive",
            post(threads::archive),
        )
        .route(
            "/v1/sessions/{session_id}/threads/{thread_id}/events",
            get(threads::events),
        )
        .route(
            "/v1/sessions/{session_id}/threads/{thread_id}/stream",
            get(stream::thread),
        )
}
