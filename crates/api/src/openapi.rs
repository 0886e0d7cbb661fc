//! `GET /openapi.json`: what this server answers, as machines read it.

use axum::{Router, routing::get};

use crate::{
    answer::{self, Answer},
    app::Shared,
    extract::Params,
};

/// The description of every route of this server, those of other rooms included.
///
/// It is written by hand, because what requests may hold is decided by readers and not by types; tests
/// hold it to router, readers and answers in both directions.
pub const DOCUMENT: &str = include_str!("../../../docs/openapi.json");

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/openapi.json", get(document))
}

async fn document(Params(query): Params) -> Answer {
    query.finish()?;
    Ok(answer::json(DOCUMENT))
}
