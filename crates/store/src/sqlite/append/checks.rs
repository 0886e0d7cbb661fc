//! What the judge of proposals cannot see: whether what they name is there.

use std::sync::Arc;

use outlast_protocol::id::{EventId, SessionId};
use outlast_session::{
    Draft, DraftBody, Proposal, Refusal,
    body::{Config, Mounted},
};
use rusqlite::params;

use super::{Fault, Head, Pass, Stop};
use crate::{
    AppendError, Minter,
    sqlite::{files, read::has_event},
};

impl Pass<'_> {
    /// Checks what `admit` cannot see.
    pub(super) fn check(
        &self,
        session: SessionId,
        proposal: &Proposal,
        head: Option<&Head>,
    ) -> Result<(), Stop> {
        match proposal {
            Proposal::Create(new) if new.id != session => {
                Err(Refusal::Illegal("the proposal is for another session").into())
            }
            Proposal::Create(new) => {
                self.references(&new.config, None)?;
                self.sources(&new.config.resources)
            }
            Proposal::Mount { resource, .. } => {
                self.alive(session, head)?;
                self.sources(std::slice::from_ref(resource))
            }
            Proposal::Update(change) => {
                self.alive(session, head)?;
                self.references(&change.config, Some(&change.from))
            }
            Proposal::Send(_)
            | Proposal::Unmount { .. }
            | Proposal::Archive(_)
            | Proposal::Delete(_)
            | Proposal::Claim { .. }
            | Proposal::Brain { .. }
            | Proposal::Keyed { .. }
            | Proposal::Checkpoint(_) => self.alive(session, head),
        }
    }

    fn alive(&self, session: SessionId, head: Option<&Head>) -> Result<(), Stop> {
        match head {
            Some(head) if !head.state.deleted => Ok(()),
            Some(_) | None => Err(AppendError::NotFound(session).into()),
        }
    }

    /// Checks that what a configuration names is there.
    fn references(&self, config: &Config, before: Option<&Arc<Config>>) -> Result<(), Stop> {
        let environment = config.environment_id;
        if before.is_none_or(|before| before.environment_id != environment) {
            self.exists("environment", &environment.to_string(), 1)?;
        }
        let agent = &config.agent;
        if before.is_none_or(|before| before.agent.id != agent.id) {
            self.exists("agent", &agent.id.to_string(), agent.version)?;
        }
        Ok(())
    }

    /// Checks that the files to copy are there.
    fn sources(&self, mounted: &[Mounted]) -> Result<(), Stop> {
        match files::missing(self.transaction, mounted, self.room.clock.now())? {
            None => Ok(()),
            Some(file) => Err(AppendError::Missing(file.to_string()).into()),
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

    /// Checks that events have ids, and that those which a writer brought along are new.
    pub(super) fn unused(
        &self,
        drafts: &[Draft],
        minter: &Minter<'_>,
        before: Option<&Head>,
    ) -> Result<(), Stop> {
        let mut seen = Vec::new();
        for draft in drafts {
            let Some(event) = draft.event else {
                if has_event(draft.kind) {
                    return Err(Refusal::Illegal("an event has no id").into());
                }
                continue;
            };
            let key = (event, draft.kind.is_public());
            let twice = seen.contains(&key);
            seen.push(key);
            if twice || (!minter.drew(event) && self.stands(before, draft, event)?) {
                return Err(Refusal::Illegal("an event id is used twice").into());
            }
        }
        Ok(())
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
