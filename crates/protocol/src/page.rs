//! Page cursors: opaque to clients, refused anywhere but in the list they came from.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::query::Order;
use crate::words::words;
use crate::{Problem, limits};

/// What every cursor begins with.
const PREFIX: &str = "page_";

/// The form of cursors that this version writes and reads.
const VERSION: u16 = 1;

words! {
    /// Which list a cursor belongs to.
    pub enum List {
        /// Agents.
        Agents = "agents",
        /// Versions of one agent.
        AgentVersions = "agent versions",
        /// Credentials of one vault.
        Credentials = "credentials",
        /// Environments.
        Environments = "environments",
        /// Files.
        Files = "files",
        /// The audit log.
        Audit = "the audit log",
        /// API keys.
        Keys = "API keys",
        /// What is mounted in one session.
        Resources = "session resources",
        /// Sessions.
        Sessions = "sessions",
        /// Events of one session or thread.
        Events = "events",
        /// Threads of one session.
        Threads = "threads",
        /// Vaults.
        Vaults = "vaults",
    }
}

/// Where a cursor belongs and where it points.
#[derive(Deserialize, Serialize)]
struct Envelope<P> {
    #[serde(rename = "v")]
    version: u16,
    #[serde(rename = "l")]
    list: List,
    /// The id of the object whose list it is, empty for lists of the whole server.
    #[serde(rename = "o")]
    owner: String,
    #[serde(rename = "p")]
    place: P,
}

/// Writes a cursor that points at `place` in a list of `owner` (empty: of the whole server).
#[expect(
    clippy::expect_used,
    reason = "places are small structs with text keys; nothing in them can fail to serialize"
)]
pub fn encode(list: List, owner: &str, place: &impl Serialize) -> String {
    let envelope = Envelope {
        version: VERSION,
        list,
        owner: owner.to_owned(),
        place,
    };
    let json = serde_json::to_vec(&envelope).expect("a cursor serializes");
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(json))
}

/// Reads a cursor of this list and owner.
///
/// Refuses, naming `page`: text that is no cursor, a cursor of another version, of another list,
/// or of another owner. A cursor is not a secret and not signed: a forged one points at some
/// other place of a list that the client may read anyway.
pub fn decode<P: DeserializeOwned>(list: List, owner: &str, text: &str) -> Result<P, Problem> {
    let bad =
        || refuse("is not a cursor of this server; pass `next_page` or `prev_page` as you got it");
    if text.len() > limits::CURSOR {
        return Err(bad());
    }
    let digits = text.strip_prefix(PREFIX).ok_or_else(bad)?;
    let json = URL_SAFE_NO_PAD.decode(digits).map_err(|_| bad())?;
    let envelope: Envelope<serde_json::Value> = serde_json::from_slice(&json).map_err(|_| bad())?;
    if envelope.version != VERSION {
        return Err(refuse(
            "is a cursor of another version of this server; start again from the first page",
        ));
    }
    if envelope.list != list {
        return Err(refuse(format_args!(
            "is a cursor of another list ({}); it cannot be used here ({})",
            envelope.list.as_str(),
            list.as_str()
        )));
    }
    if envelope.owner != owner {
        return Err(refuse(format_args!(
            "is a cursor of the {} of another object",
            list.as_str()
        )));
    }
    serde_json::from_value(envelope.place).map_err(|_| bad())
}

/// A place in a list that is ordered by creation: agents, versions, environments, sessions.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Place {
    /// The order of the list; the next request must have the same.
    pub order: Order,
    /// Which way from the place the page lies.
    pub side: Side,
    /// The time of creation of the entry at the edge, in microseconds.
    pub at: i64,
    /// Its id, or its version in a list of versions.
    pub id: String,
}

words! {
    /// Which way from a place a page lies.
    pub enum Side {
        /// Behind it, as `next_page`.
        Next = "next",
        /// Before it, as `prev_page`.
        Prev = "prev",
    }
}

impl Place {
    /// Refuses a request whose order is not that of the cursor.
    pub fn check_order(&self, order: Order) -> Result<(), Problem> {
        check_order(self.order, order)
    }
}

/// Refuses a request whose order is not that of the cursor.
pub fn check_order(cursor: Order, request: Order) -> Result<(), Problem> {
    if cursor == request {
        return Ok(());
    }
    Err(refuse(format_args!(
        "is a cursor of `order={}`; it cannot be used with `order={}`",
        cursor.as_str(),
        request.as_str()
    )))
}

fn refuse(what: impl std::fmt::Display) -> Problem {
    Problem::invalid(format!("page: {what}"))
}

#[cfg(test)]
mod tests;
