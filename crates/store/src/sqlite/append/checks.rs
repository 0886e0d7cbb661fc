//! What the judge of proposals cannot see: whether what they name is there.

use outlast_protocol::id::{EventId, ProcessId, SessionId};
use outlast_session::{Draft, DraftBody, Proposal, body::Mounted};
use rusqlite::params;

use super::{Fault, Head, Pass, Stop};
use crate::{
    AppendError, Blob, Minter,
    deciding::{needs, unused},
    projection::kind,
    sqlite::{files, loose},
};

impl Pass<'_> {
    /// Checks what `admit` cannot see.
    pub(super) fn check(
        &self,
        session: SessionId,
        proposal: &Proposal,
        head: Option<&Head>,
    ) -> Result<(), Stop> {
        let needs = needs(session, proposal, head.map(|head| &*head.state))?;
        for (object, id, revision) in needs.objects {
            self.exists(kind(object), &id, revision)?;
        }
        self.sources(needs.sources)?;
        if let Some(blob) = needs.begun {
            self.begun(&blob)?;
        }
        proposal
            .claimant()
            .map_or(Ok(()), |process| self.lives(process))
    }

    /// Checks that the files to copy are there.
    fn sources(&self, mounted: &[Mounted]) -> Result<(), Stop> {
        match files::missing(self.transaction, mounted, self.room.seams.clock.now())? {
            None => Ok(()),
            Some(file) => Err(AppendError::Missing(file.to_string()).into()),
        }
    }

    /// Checks that a blob was not given up.
    fn begun(&self, blob: &Blob) -> Result<(), Stop> {
        if loose::is_begun(self.transaction, blob)? {
            Ok(())
        } else {
            Err(AppendError::Missing(blob.to_string()).into())
        }
    }

    fn exists(&self, kind: &str, id: &str, revision: u32) -> Result<(), Stop> {
        let found = self
            .transaction
            .prepare_cached(
                "SELECT 1 FROM resources WHERE kind = ?1 AND id = ?2 AND revision >= ?3",
            )?
            .exists(params![kind, id, revision])?;
        if found {
            Ok(())
        } else {
            Err(AppendError::Missing(id.to_owned()).into())
        }
    }

    /// Checks that a process may take a lease.
    fn lives(&self, process: ProcessId) -> Result<(), Stop> {
        let dead = self
            .transaction
            .prepare_cached("SELECT 1 FROM processes WHERE id = ?1 AND dead = 1")?
            .exists([process.to_string()])?;
        if dead {
            Err(AppendError::Dead(process).into())
        } else {
            Ok(())
        }
    }

    /// Checks that events have ids, and that those which a writer brought along are new.
    pub(super) fn unused(
        &self,
        drafts: &[Draft],
        minter: &Minter<'_>,
        before: Option<&Head>,
    ) -> Result<(), Stop> {
        unused(
            drafts,
            |event| minter.drew(event),
            |draft, event| Ok::<_, Stop>(self.stands(before, draft, event)?),
        )
    }

    /// Tells whether an id is taken: by its own place for a copy, by anything for a new body.
    fn stands(&self, before: Option<&Head>, draft: &Draft, event: EventId) -> Result<bool, Fault> {
        let Some(head) = before else { return Ok(false) };
        let copy = matches!(draft.body, DraftBody::Copy(_));
        let mut statement = self.transaction.prepare_cached(
            "SELECT 1 FROM records WHERE session_no = ?1 AND event = ?2 AND public >= ?3",
        )?;
        Ok(statement.exists(params![head.no, event.to_string(), copy])?)
    }
}
