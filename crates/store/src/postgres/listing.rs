//! Listing sessions, page by page.

use std::sync::Arc;

use outlast_session::State;

use super::{
    conditions::{Conditions, Values},
    connect::Connection,
    load::{head, head_columns},
};
use crate::{
    Listing, Order, ReadError, SessionQuery, bodies::Bodies, projection::word, stored::integer,
};

/// Lists sessions as their rows have them.
pub(super) async fn sessions(
    connection: &Connection,
    query: &SessionQuery,
    bodies: &Bodies,
) -> Result<Listing, ReadError> {
    let (text, values) = statement(query);
    let rows = connection.rows(&text, &values.all()).await?;
    let more = rows.len() > query.limit;
    let mut sessions: Vec<Arc<State>> = Vec::with_capacity(rows.len());
    for row in rows.iter().take(query.limit) {
        sessions.push(head(connection, row, bodies).await?.state);
    }
    Ok(Listing { sessions, more })
}

/// Returns the statement of a query with its values.
fn statement(query: &SessionQuery) -> (String, Values) {
    let order = match query.order {
        Order::Forwards => "ORDER BY s.created, s.id",
        Order::Backwards => "ORDER BY s.created DESC, s.id DESC",
    };
    // One more than asked for tells whether there are more.
    let (condition, values) = conditions(query).finish(order, query.limit.saturating_add(1));
    let text = format!(
        concat!(
            "SELECT ",
            head_columns!(),
            " FROM sessions s LEFT JOIN configs c ON c.session_no = s.no WHERE {}"
        ),
        condition
    );
    (text, values)
}

fn conditions(query: &SessionQuery) -> Conditions {
    let mut found = Conditions::default();
    found.fixed("NOT s.deleted");
    if !query.archived {
        found.fixed("s.archived IS NULL");
    }
    if let Some(agent) = query.agent {
        found.one("s.agent = ?", agent.to_string());
    }
    if let Some(version) = query.agent_version {
        found.one("s.agent_version = ?", integer(version));
    }
    if let [one] = query.statuses.as_slice() {
        found.one("s.status = ?", word(*one));
    } else if !query.statuses.is_empty() {
        let words: Vec<&str> = query.statuses.iter().map(|one| word(*one)).collect();
        found.one("s.status = ANY(?)", words);
    }
    let bounds = [
        ("s.created > ?", query.created_gt),
        ("s.created >= ?", query.created_gte),
        ("s.created < ?", query.created_lt),
        ("s.created <= ?", query.created_lte),
    ];
    for (condition, bound) in bounds {
        if let Some(at) = bound {
            found.one(condition, at.0);
        }
    }
    if let Some((created, id)) = query.after {
        let side = match query.order {
            Order::Forwards => "(s.created, s.id) > (?, ?)",
            Order::Backwards => "(s.created, s.id) < (?, ?)",
        };
        found.two(side, created.0, id.to_string());
    }
    found
}
