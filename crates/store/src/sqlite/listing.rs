//! Listing sessions, page by page.

use std::sync::Arc;

use outlast_session::State;
use rusqlite::{Connection, ToSql, params_from_iter};

use super::load::{Kept, Loader, head_columns};
use crate::{
    Listing, Order, ReadError, SessionQuery,
    projection::word,
    stored::{bound, integer},
};

/// A statement that grows by conditions.
#[derive(Default)]
pub(super) struct Conditions {
    text: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl Conditions {
    /// Adds a condition without a value.
    pub(super) fn fixed(&mut self, condition: &str) {
        self.text.push(condition.to_owned());
    }

    /// Adds a condition with one value, which stands in it as `?`.
    pub(super) fn one(&mut self, condition: &str, value: impl ToSql + 'static) {
        self.text.push(condition.to_owned());
        self.values.push(Box::new(value));
    }

    /// Adds a condition with any number of values.
    pub(super) fn many(&mut self, condition: String, values: Vec<Box<dyn ToSql>>) {
        self.text.push(condition);
        self.values.extend(values);
    }

    /// Returns the text behind `WHERE`, and the values, the limit last.
    pub(super) fn finish(self, order: &str, limit: usize) -> (String, Vec<Box<dyn ToSql>>) {
        let Self { text, mut values } = self;
        values.push(Box::new(bound(limit)));
        (format!("{} {order} LIMIT ?", text.join(" AND ")), values)
    }
}

/// Lists sessions as their rows have them.
pub(super) fn sessions(
    connection: &Connection,
    query: &SessionQuery,
    loader: &Loader,
) -> Result<Listing, ReadError> {
    let (text, values) = statement(query);
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement.query_map(params_from_iter(values), Kept::read)?;
    let kept: Vec<Kept> = rows.collect::<Result<_, _>>()?;
    let more = kept.len() > query.limit;
    let mut sessions: Vec<Arc<State>> = Vec::with_capacity(kept.len());
    for row in kept.into_iter().take(query.limit) {
        sessions.push(row.head(connection, loader)?.state);
    }
    Ok(Listing { sessions, more })
}

/// Returns the statement of a query with its values.
fn statement(query: &SessionQuery) -> (String, Vec<Box<dyn ToSql>>) {
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
    found.fixed("s.deleted = 0");
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
        // The plus keeps SQLite on the index of creation times: a page must not sort them all.
        let marks = vec!["?"; query.statuses.len()].join(", ");
        let words = query
            .statuses
            .iter()
            .map(|one| Box::new(word(*one)) as Box<dyn ToSql>);
        found.many(format!("+s.status IN ({marks})"), words.collect());
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
        found.many(
            side.to_owned(),
            vec![Box::new(created.0), Box::new(id.to_string())],
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use outlast_protocol::{
        Micros,
        id::{AgentId, SessionId},
    };
    use outlast_session::Status;
    use outlast_testkit::random::Constant;

    use super::*;
    use crate::sqlite::connect;

    fn plan(connection: &Connection, query: &SessionQuery) -> String {
        connect::plan(connection, &statement(query).0)
    }

    /// A page never sorts all sessions.
    #[test]
    fn pages_walk_along_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let connection = connect::writer(&dir.path().join("a.db")).unwrap();
        for order in [Order::Forwards, Order::Backwards] {
            for archived in [false, true] {
                for after in [
                    None,
                    Some((Micros(1), SessionId::mint(Micros(1), &Constant(0)))),
                ] {
                    let all = SessionQuery {
                        agent: None,
                        agent_version: None,
                        statuses: Vec::new(),
                        created_gt: None,
                        created_gte: Some(Micros(0)),
                        created_lt: None,
                        created_lte: None,
                        archived,
                        order,
                        after,
                        limit: 20,
                    };
                    let agent = Some(AgentId::mint(Micros(1), &Constant(0)));
                    let one = vec![Status::Idle];
                    let two = vec![Status::Idle, Status::Running];
                    for query in [
                        SessionQuery {
                            agent,
                            ..all.clone()
                        },
                        SessionQuery {
                            statuses: one,
                            ..all.clone()
                        },
                        SessionQuery {
                            statuses: two,
                            ..all.clone()
                        },
                        all,
                    ] {
                        let plan = plan(&connection, &query);
                        let walks = plan.contains("USING INDEX sessions_");
                        assert!(walks && !plan.contains("TEMP B-TREE"), "{query:?}: {plan}");
                    }
                }
            }
        }
    }
}
