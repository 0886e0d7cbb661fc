//! Drafts get their bodies: new ones, staged ones, and those they share with earlier records.

use std::sync::Arc;

use outlast_protocol::id::SessionId;
use outlast_session::{Decision, Draft, DraftBody, Json, Record};
use rusqlite::params;

use super::{Fault, Head, Pass, Stop, Stored, unavailable};
use crate::{
    End, Material, seal,
    sqlite::{
        job::is_large,
        rows::{integer, record_columns},
    },
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
        let mut blobs: Vec<Option<u64>> = Vec::with_capacity(decision.drafts.len());
        let mut material = |draft: &Draft, sealed: &[Record]| {
            let (material, blob) = self.material(session, before, draft, sealed, &blobs, staged)?;
            blobs.push(blob);
            Ok::<_, Stop>(material)
        };
        let records = seal::seal(decision, end, &mut material)?;
        Ok(records
            .into_iter()
            .zip(blobs)
            .map(|(record, blob)| Stored { record, blob })
            .collect())
    }

    /// Returns the body of a draft, and its size if it lies in a blob.
    fn material(
        &self,
        session: SessionId,
        before: Option<&Head>,
        draft: &Draft,
        sealed: &[Record],
        blobs: &[Option<u64>],
        staged: &[(Json, Material)],
    ) -> Result<(Material, Option<u64>), Stop> {
        match &draft.body {
            DraftBody::Copy(position) => {
                let same = sealed
                    .iter()
                    .position(|record| record.position == *position);
                if let Some(record) = same.and_then(|at| sealed.get(at)) {
                    let blob = same.and_then(|at| blobs.get(at).copied()).flatten();
                    return Ok((record.into(), blob));
                }
                let original = self.original(before, *position)?;
                Ok(((&original.record).into(), original.blob))
            }
            DraftBody::Json(body) if is_large(body.get()) => {
                let size = u64::try_from(body.get().len()).unwrap_or(u64::MAX);
                let known = staged.iter().find(|(known, _)| Arc::ptr_eq(known, body));
                let material = match known {
                    Some((_, material)) => material.clone(),
                    None => self.put(session, body)?,
                };
                Ok((material, Some(size)))
            }
            DraftBody::Json(body) => Ok((Material::fresh(body, &*self.room.entropy), None)),
        }
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
        Stored::read(rows.next()?.ok_or_else(missing)?)
    }

    /// Puts a large body that only the decision made into a blob, here and now.
    fn put(&self, session: SessionId, body: &Json) -> Result<Material, Stop> {
        let material = Material::fresh(body, &*self.room.entropy);
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
