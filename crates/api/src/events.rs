//! Events of a session: sent and listed.

use axum::extract::State;
use outlast_kernel::{Cursor, EventQuery, Order as Way};
use outlast_protocol::{
    event,
    id::SessionId,
    limits,
    page::{self, List},
    query::{Order, Query, TimeRange},
};
use outlast_session::{Kind, Record};
use serde::{Deserialize, Serialize};

use crate::{
    answer::{self, Answer},
    app::{App, Shared},
    extract::{Named, Params, Submission},
    once::{Form, Ticket},
};

/// Values of `types[]` (ours: all types there are, twice over).
const TYPES: usize = 100;

/// `POST /v1/sessions/{session_id}/events`.
pub(crate) async fn send(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    request: Submission,
) -> Answer {
    let events = event::parse_send(&request.body)?;
    let (work, by) = (app.clone(), request.by);
    let work = move |ticket: Option<Ticket>| async move {
        let receipt = ticket.map(|ticket| ticket.records(id));
        Ok(data(&work.kernel.send(by, id, &events, receipt).await?))
    };
    app.once(request.attempt, Form::Events, work).await
}

/// `GET /v1/sessions/{session_id}/events`: those of its primary thread.
pub(crate) async fn list(
    State(app): State<Shared>,
    Named(id): Named<SessionId>,
    Params(mut query): Params,
) -> Answer {
    let order = query.order(Order::Asc)?;
    let types = query.words("types", TYPES, event::Kind::TABLE)?;
    let created = query.range("created_at")?;
    app.events(
        id,
        0,
        query,
        Filter {
            order,
            types,
            created,
        },
    )
    .await
}

/// What a list of events is narrowed to.
#[derive(Debug)]
pub(crate) struct Filter {
    /// Which way.
    pub(crate) order: Order,
    /// Only of these types; empty is all.
    pub(crate) types: Vec<event::Kind>,
    /// Only processed then.
    pub(crate) created: TimeRange,
}

impl Filter {
    /// Everything, oldest first.
    pub(crate) fn none() -> Self {
        Self {
            order: Order::Asc,
            types: Vec::new(),
            created: TimeRange::default(),
        }
    }
}

/// Where a page of events ended, as a cursor keeps it.
#[derive(Debug, Deserialize, Serialize)]
struct Place {
    order: Order,
    placed: Option<u64>,
    arrived: Option<u64>,
    edge: Option<u64>,
}

impl Place {
    fn new(
        order: Order,
        Cursor {
            placed,
            arrived,
            edge,
        }: Cursor,
    ) -> Self {
        Self {
            order,
            placed,
            arrived,
            edge,
        }
    }

    fn cursor(self) -> Cursor {
        let Self {
            placed,
            arrived,
            edge,
            ..
        } = self;
        Cursor {
            placed,
            arrived,
            edge,
        }
    }
}

impl App {
    /// Lists events of a thread.
    pub(crate) async fn events(
        &self,
        session: SessionId,
        thread: u32,
        mut query: Query,
        filter: Filter,
    ) -> Answer {
        let owner = format!("{session}/{thread}");
        let limit = query.limit(limits::EVENT_PAGE_MAX, limits::EVENT_PAGE_MAX)?;
        let place = query
            .page()?
            .map(|text| page::decode::<Place>(List::Events, &owner, &text));
        query.finish()?;
        let place = place.transpose()?;
        if let Some(place) = &place {
            page::check_order(place.order, filter.order)?;
        }
        // Types that this server never makes are none of its kinds.
        let kinds: Vec<_> = filter
            .types
            .iter()
            .filter_map(|kind| Kind::parse(kind.as_str()).ok())
            .collect();
        if kinds.is_empty() && !filter.types.is_empty() {
            self.kernel.state(session).await?;
            return Ok(answer::json(answer::page::<&str>(
                &[],
                &[("next_page", None)],
            )));
        }
        let query = EventQuery {
            thread,
            order: way(filter.order),
            kinds,
            after: filter.created.gt,
            from: filter.created.gte,
            before: filter.created.lt,
            until: filter.created.lte,
            cursor: place.map(Place::cursor),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let found = self.kernel.events(session, &query).await?;
        let place = found.next.map(|cursor| Place::new(filter.order, cursor));
        let next = place.map(|place| page::encode(List::Events, &owner, &place));
        let data: Vec<_> = found.records.iter().filter_map(wire).collect();
        Ok(answer::json(answer::page(&data, &[("next_page", next)])))
    }
}

fn way(order: Order) -> Way {
    match order {
        Order::Asc => Way::Forwards,
        Order::Desc => Way::Backwards,
    }
}

/// Makes the answer to a send.
pub(crate) fn data(records: &[Record]) -> String {
    answer::page(&records.iter().filter_map(wire).collect::<Vec<_>>(), &[])
}

/// Returns what clients see of a record; `None` for records that are none of their business.
///
/// An arrival is its event with a null `processed_at`. The arrival of a result is private: what
/// the server makes has always been processed.
pub(crate) fn wire(record: &Record) -> Option<String> {
    let (kind, at) = match shown(record.kind)? {
        Sight::Placed => (record.kind, Some(record.at)),
        Sight::Arrived(kind) => (kind, None),
    };
    let id = record.event?;
    // What is left of an erased body has the fields of its event.
    Some(event::wire(kind.text(), id, at, record.body.json()))
}

/// How clients see a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sight {
    /// As an event in its place.
    Placed,
    /// As this event, which waits.
    Arrived(Kind),
}

/// Tells how clients see records of a kind, if they do.
pub(crate) fn shown(kind: Kind) -> Option<Sight> {
    match kind.announces() {
        Some(Kind::AgentToolResult) => None,
        Some(event) => Some(Sight::Arrived(event)),
        None => kind.is_public().then_some(Sight::Placed),
    }
}
