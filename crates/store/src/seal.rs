//! Drafts become records: salt, digest, position and hash.

use outlast_protocol::{id::SessionId, seam::Entropy};
use outlast_session::{Body, Decision, Draft, Formats, Json, Record, chain};

/// Bytes of a body that is kept in its row; a larger one goes to a blob.
pub const INLINE: usize = 64 * 1024;

/// A body with what the chain needs of it.
#[derive(Clone, Debug)]
pub struct Material {
    /// The salt of the digest; `None` once erased.
    pub salt: Option<[u8; 16]>,
    /// BLAKE3 over salt and body.
    pub digest: [u8; 32],
    /// The body.
    pub body: Body,
    /// The version of its shape; `None` is what this program writes.
    pub version: Option<u16>,
}

impl Material {
    /// Salts new bytes.
    pub fn fresh(body: &Json, entropy: &dyn Entropy) -> Self {
        let mut salt = [0; 16];
        entropy.fill(&mut salt);
        let digest = chain::digest(&salt, body.get());
        Self {
            salt: Some(salt),
            digest,
            body: Body::Json(body.clone()),
            version: None,
        }
    }
}

impl From<&Record> for Material {
    fn from(record: &Record) -> Self {
        Self {
            salt: record.salt,
            digest: record.digest,
            body: record.body.clone(),
            version: Some(record.version),
        }
    }
}

/// Where a log ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct End {
    /// Position of the last record; 0 where there is none.
    pub tail: u64,
    /// The chain up to it.
    pub hash: [u8; 32],
}

impl End {
    /// Returns the end of a log without a record.
    pub fn of_nothing(session: SessionId) -> Self {
        Self {
            tail: 0,
            hash: chain::genesis(session),
        }
    }
}

/// Finds the body of a draft; it sees the records sealed before it, since a copy may be of one.
pub type Find<'a, E> = dyn FnMut(&Draft, &[Record]) -> Result<Material, E> + 'a;

/// Gives the drafts of a decision their places behind `end`.
///
/// # Errors
///
/// Whatever `find` fails with.
pub fn seal<E>(decision: &Decision, end: End, find: &mut Find<'_, E>) -> Result<Vec<Record>, E> {
    let mut records: Vec<Record> = Vec::with_capacity(decision.drafts.len());
    let mut end = end;
    for draft in &decision.drafts {
        let record = place(decision, draft, end, find(draft, &records)?);
        end = End {
            tail: record.position,
            hash: record.hash,
        };
        records.push(record);
    }
    Ok(records)
}

fn place(decision: &Decision, draft: &Draft, end: End, material: Material) -> Record {
    let Material {
        salt,
        digest,
        body,
        version,
    } = material;
    let mut record = Record {
        position: end.tail + 1,
        thread: draft.thread,
        at: decision.at,
        origin: decision.origin.clone(),
        kind: draft.kind,
        version: version.unwrap_or_else(|| Formats::THIS.version(draft.kind)),
        event: draft.event,
        digest,
        hash: [0; 32],
        salt,
        body,
    };
    record.hash = chain::hash(&end.hash, &header(&record));
    record
}

/// Returns the part of a record that its hash covers.
pub(crate) fn header(record: &Record) -> chain::Header<'_> {
    chain::Header {
        position: record.position,
        thread: record.thread,
        at: record.at,
        origin: &record.origin,
        kind: record.kind,
        event: record.event,
        version: record.version,
        digest: &record.digest,
    }
}
