//! `GET /outlast/v1/audit`: who did what. For admins.

use axum::{Router, extract::State, routing::get};
use outlast_kernel::{AuditPage, AuditQuery, Order as Way};
use outlast_protocol::{
    Problem, limits,
    page::{self, List},
    query::Order,
};
use serde::{Deserialize, Serialize};

use crate::{
    answer::{self, Answer},
    app::Shared,
    extract::Params,
};

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/outlast/v1/audit", get(list))
}

/// Where a page begins: behind this place.
#[derive(Deserialize, Serialize)]
struct Place {
    order: Order,
    position: u64,
}

async fn list(State(app): State<Shared>, Params(mut query): Params) -> Answer {
    let limit = query.limit(limits::PAGE, limits::EVENT_PAGE_MAX)?;
    let order = query.order(Order::Desc)?;
    let (since, until) = (query.time("at[gte]")?, query.time("at[lte]")?);
    let cursor = query.page()?;
    let cursor = cursor.map(|text| page::decode::<Place>(List::Audit, "", &text));
    let cursor = cursor.transpose()?;
    if cursor.as_ref().is_some_and(|place| place.order != order) {
        return Err(Problem::invalid("page: belongs to the other `order`").into());
    }
    let wanted = AuditQuery {
        actor: query.text("actor")?,
        action: query.text("action")?,
        subject: query.text("subject_id")?,
        since,
        until,
        order: match order {
            Order::Asc => Way::Forwards,
            Order::Desc => Way::Backwards,
        },
        after: cursor.map(|place| place.position),
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    };
    query.finish()?;
    let AuditPage { items, more } = app.kernel.audit_log(&wanted).await?;
    let last = items.last().filter(|_| more).map(|item| item.position);
    let next = last.map(|position| page::encode(List::Audit, "", &Place { order, position }));
    let data = items.iter().map(answer::text);
    let data: Vec<String> = data.collect::<Result<_, Problem>>()?;
    Ok(answer::json(answer::page(&data, &[("next_page", next)])))
}
