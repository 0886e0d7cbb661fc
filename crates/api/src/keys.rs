//! Keys of clients, under `/outlast/v1/keys`: for admins.

use axum::{
    Router,
    extract::State,
    routing::{get, post},
};
use outlast_kernel::{ApiKey, KeyPage, KeyQuery, NewKey, shown_key};
use outlast_protocol::{
    Problem,
    id::ApiKeyId,
    key::{CreateKey, Key},
    limits,
    page::List,
    query::{Order, TimeRange},
};
use secrecy::ExposeSecret as _;
use serde::Serialize;

use crate::{
    answer::{self, Answer},
    app::Shared,
    extract::{Named, Params, Submission},
    listing::Page,
    once::{Form, Ticket},
};

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/outlast/v1/keys", get(list).post(create))
        .route("/outlast/v1/keys/{key_id}/revoke", post(revoke))
}

/// A key as it is shown when it is made.
#[derive(Serialize)]
struct Made<'a> {
    #[serde(flatten)]
    shown: &'a Key,
    /// Its secret; null in a repeat of the answer.
    key: Option<&'a str>,
}

/// `POST /outlast/v1/keys`: the answer is the only one that ever has the secret.
///
/// A repeat of the request is answered without it: what is kept of an answer lies in the store.
async fn create(State(app): State<Shared>, request: Submission) -> Answer {
    let wanted = CreateKey::parse(&request.body)?;
    let work = app.clone();
    let work = move |ticket: Option<Ticket>| async move {
        let new = NewKey::draw(wanted, work.kernel.now(), work.kernel.entropy());
        let shown = new.shown();
        let text = |key| answer::text(&Made { shown: &shown, key });
        let kept = text(None)?;
        let receipt = ticket.map(|ticket| ticket.body(&kept));
        work.kernel.create_key(&new, receipt).await?;
        text(Some(new.secret().expose_secret()))
    };
    app.once(request.attempt, Form::Stored, work).await
}

/// `GET /outlast/v1/keys`, newest first.
async fn list(State(app): State<Shared>, Params(mut query): Params) -> Answer {
    let (bounds, all) = ((limits::PAGE, limits::PAGE_MAX), TimeRange::default());
    let page = Page::read(&mut query, (List::Keys, ""), bounds, Order::Desc, &all)?;
    let revoked = query.flag("include_revoked")?;
    query.finish()?;
    let after = page
        .after()
        .map(|(at, id)| Some((at, ApiKeyId::parse(&id)?)));
    let query = KeyQuery {
        revoked,
        order: page.way(),
        after: after.flatten(),
        limit: page.limit,
    };
    let KeyPage { mut items, more } = app.kernel.keys(&query).await?;
    page.arrange(&mut items);
    let edge = |key: &ApiKey| (key.created_at, key.id.to_string());
    let edges = items.first().map(edge).zip(items.last().map(edge));
    let (next, _) = page.cursors(edges, more);
    let data = items.iter().map(|key| answer::text(&shown_key(key)));
    let data: Vec<String> = data.collect::<Result<_, Problem>>()?;
    Ok(answer::json(answer::page(&data, &[("next_page", next)])))
}

/// `POST /outlast/v1/keys/{key_id}/revoke`; repeating it changes nothing.
async fn revoke(
    State(app): State<Shared>,
    Named(id): Named<ApiKeyId>,
    request: Submission,
) -> Answer {
    request.empty()?;
    answer::view(&app.kernel.revoke_key(id).await?)
}
