//! Drafts get their bodies: new ones, staged ones, and those they share with earlier records.

use outlast_protocol::id::SessionId;
use outlast_session::{Decision, Json};
use rusqlite::params;

use super::{Fault, Head, Pass, Stop, unavailable};
use crate::{
    End, Material,
    deciding::place,
    sqlite::rows::{record_columns, stored},
    stored::{Stored, integer},
};

impl Pass<'_> {
    /// Gives the drafts their places; large bodies are in blobs when this returns.
    pub(super) fn seal(
        &self,
        session: SessionId,
        before: Option<&Head>,
        decision: &Decision,
        staged: &[(Json, Material)],
    ) -> Result<Vec<Stored>, Stop> {
        let end = before.map_or_else(|| End::of_nothing(session), Head::end);
        place(
            decision,
            end,
            staged,
            &*self.room.seams.entropy,
            |position| Ok(self.original(before, position)?),
            |body| self.put(session, body),
        )
    }

    /// Reads the record that a copy shares its body with.
    fn original(&self, before: Option<&Head>, position: u64) -> Result<Stored, Fault> {
        let missing = || {
            Fault::Bug(format!(
                "a copy names record {position}, which is not there"
            ))
        };
        let no = before.ok_or_else(missing)?.no;
        let mut statement = self.transaction.prepare_cached(concat!(
            "SELECT ",
            record_columns!(),
            " FROM records WHERE session_no = ?1 AND position = ?2"
        ))?;
        let mut rows = statement.query(params![no, integer(position)])?;
        stored(rows.next()?.ok_or_else(missing)?)
    }

    /// Puts a large body that only the decision made into a blob, here and now.
    fn put(&self, session: SessionId, body: &Json) -> Result<Material, Stop> {
        let material = Material::fresh(body, &*self.room.seams.entropy);
        let loader = &self.room.loader;
        let put = loader.bodies.put(session, &material.digest, body.clone());
        // A failure here is about this body, not about the transaction: nothing was written yet.
        loader
            .handle
            .block_on(put)
            .map_err(|error| unavailable(&error))?;
        Ok(material)
    }
}
