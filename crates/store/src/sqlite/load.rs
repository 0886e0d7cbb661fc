//! Heads as the tables have them; where what is stored is of another version, as the log has them.

use std::sync::Arc;

use outlast_protocol::id::SessionId;
use outlast_session::{STATE_VERSION, State, fold};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use tokio::runtime::Handle;

use super::{
    fault::Fault,
    rows::{record_columns, stored},
};
use crate::{
    bodies::Bodies,
    heads::Head,
    staging::is_away,
    stored::{Stored, natural, session_id, shaped},
};

/// The columns that [`Kept::read`] wants, of `sessions s` joined with `configs c`.
macro_rules! head_columns {
    () => {
        "s.no, s.id, s.tail, s.hash, s.state_version, s.state, c.body"
    };
}
pub(super) use head_columns;

/// Where bodies come from while blocking work goes on.
#[derive(Clone, Debug)]
pub(super) struct Loader {
    pub(super) bodies: Bodies,
    pub(super) handle: Handle,
}

/// A head as its row has it.
#[derive(Debug)]
pub(super) struct Kept {
    no: i64,
    id: String,
    tail: i64,
    hash: [u8; 32],
    version: i64,
    state: String,
    config: Option<String>,
}

impl Kept {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            no: row.get(0)?,
            id: row.get(1)?,
            tail: row.get(2)?,
            hash: row.get(3)?,
            version: row.get(4)?,
            state: row.get(5)?,
            config: row.get(6)?,
        })
    }

    /// Reads the state, or folds it again where it was kept in another shape or not at all.
    pub(super) fn head(self, connection: &Connection, loader: &Loader) -> Result<Head, Fault> {
        let state = match self.parse() {
            Some(state) => state,
            None => refold(connection, self.no, session_id(&self.id)?, loader)?,
        };
        Ok(Head {
            no: self.no,
            state: Arc::new(state),
            hash: self.hash,
        })
    }

    /// Tells whether the state is kept in the shape that this version knows.
    pub(super) fn is_of_this_version(&self) -> bool {
        self.version == i64::from(STATE_VERSION)
    }

    /// Reads the state; `None` if it is of another version, damaged, or not that of the tail.
    pub(super) fn parse(&self) -> Option<State> {
        if !self.is_of_this_version() {
            return None;
        }
        let mut state: State = serde_json::from_str(&self.state).ok()?;
        state.config = Some(Arc::new(
            serde_json::from_str(self.config.as_deref()?).ok()?,
        ));
        (state.tail == natural(self.tail)).then_some(state)
    }
}

/// Returns the head of a session, deleted or not.
pub(super) fn head(
    connection: &Connection,
    session: SessionId,
    loader: &Loader,
) -> Result<Option<Head>, Fault> {
    let kept = connection
        .prepare_cached(concat!(
            "SELECT ",
            head_columns!(),
            " FROM sessions s LEFT JOIN configs c ON c.session_no = s.no WHERE s.id = ?1"
        ))?
        .query_row([session.to_string()], Kept::read)
        .optional()?;
    kept.map(|kept| kept.head(connection, loader)).transpose()
}

/// Folds a whole log.
pub(super) fn refold(
    connection: &Connection,
    no: i64,
    session: SessionId,
    loader: &Loader,
) -> Result<State, Fault> {
    let mut state = State::blank(session);
    let mut statement = connection.prepare_cached(concat!(
        "SELECT ",
        record_columns!(),
        " FROM records WHERE session_no = ?1 ORDER BY position"
    ))?;
    let mut rows = statement.query(params![no])?;
    while let Some(row) = rows.next()? {
        let mut read = stored(row)?;
        loader.complete(session, &mut read)?;
        fold(&mut state, &read.record.entry())
            .map_err(|error| Fault::Unreadable(error.to_string()))?;
    }
    Ok(state)
}

impl Loader {
    /// Loads a body that lies in a blob.
    fn complete(&self, session: SessionId, stored: &mut Stored) -> Result<(), Fault> {
        let record = &mut stored.record;
        if is_away(&record.body, record.salt.as_ref()) {
            let body = self
                .handle
                .block_on(self.bodies.get(session, &record.digest))?;
            record.body = shaped(record.kind, record.version, body)?;
        }
        Ok(())
    }
}
