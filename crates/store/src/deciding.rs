//! What every implementation does with a proposal before it writes: who is asked, what has to be
//! there, how drafts get their bodies.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use outlast_protocol::{
    Micros,
    id::{EventId, SessionId},
    seam::{Clock, Entropy},
};
use outlast_session::{
    Context, Decision, Draft, DraftBody, Json, Kind, Proposal, Record, Refusal, Rules, State,
    admit,
    body::{Checkpointed, Config, Mounted},
};

use crate::{
    AppendError, Blob, End, Material, Minter, Receipt, Reply, ResourceKind, seal,
    staging::is_large, stored::Stored,
};

/// What decides beside the state: time, chance, bounds.
#[derive(Clone)]
pub(crate) struct Seams {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) rules: Rules,
    pub(crate) takes_system: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl fmt::Debug for Seams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seams").finish_non_exhaustive()
    }
}

impl Seams {
    /// Asks the one judge; a fault of its own hits this proposal alone.
    pub(crate) fn admit(
        &self,
        state: Option<&State>,
        proposal: &Proposal,
        now: Micros,
        minter: &mut Minter<'_>,
    ) -> Result<Decision, AppendError> {
        let takes_system = |model: &str| (self.takes_system)(model);
        let mut context = Context {
            now,
            ids: minter,
            rules: &self.rules,
            takes_system: &takes_system,
        };
        let judged = catch_unwind(AssertUnwindSafe(|| admit(state, proposal, &mut context)));
        match judged {
            Ok(decision) => Ok(decision?),
            Err(_) => Err(AppendError::Failed(
                "deciding on the proposal failed".to_owned(),
            )),
        }
    }
}

/// What has to be there for a proposal, which its judge cannot see.
#[derive(Debug, Default)]
pub(crate) struct Needs<'a> {
    /// Objects with the revision that they have reached.
    pub(crate) objects: Vec<(ResourceKind, String, u32)>,
    /// Files to copy.
    pub(crate) sources: &'a [Mounted],
    /// A blob that was begun, and that nothing names.
    pub(crate) begun: Option<Blob>,
}

/// Returns what a proposal needs; the session itself has to be there for all but a creation.
pub(crate) fn needs<'a>(
    session: SessionId,
    proposal: &'a Proposal,
    state: Option<&State>,
) -> Result<Needs<'a>, AppendError> {
    match proposal {
        Proposal::Create(new) if new.id != session => {
            Err(Refusal::Illegal("the proposal is for another session").into())
        }
        Proposal::Create(new) => Ok(Needs {
            objects: named(&new.config, None),
            sources: &new.config.resources,
            begun: None,
        }),
        Proposal::Mount { resource, .. } => alive(session, state).map(|()| Needs {
            objects: Vec::new(),
            sources: std::slice::from_ref(resource),
            begun: None,
        }),
        Proposal::Update(change) => alive(session, state).map(|()| Needs {
            objects: named(&change.config, Some(&change.from)),
            sources: &[],
            begun: None,
        }),
        Proposal::Checkpoint(new) => alive(session, state).and_then(|()| checkpoint(new)),
        Proposal::Send(_)
        | Proposal::Unmount { .. }
        | Proposal::Rotate { .. }
        | Proposal::SetDeadlines { .. }
        | Proposal::Expire
        | Proposal::Erase(_)
        | Proposal::Archive(_)
        | Proposal::Delete(_)
        | Proposal::Claim { .. }
        | Proposal::ClaimAlone { .. }
        | Proposal::Revive { .. }
        | Proposal::Brain { .. }
        | Proposal::Keyed { .. } => alive(session, state).map(|()| Needs::default()),
    }
}

/// A checkpoint is named as long as it is not given up.
fn checkpoint(new: &Checkpointed) -> Result<Needs<'static>, AppendError> {
    let blob = Blob::of_session(&new.blob);
    let blob = blob.ok_or(Refusal::Illegal("the blob has no key of a checkpoint"))?;
    Ok(Needs {
        begun: Some(blob),
        ..Needs::default()
    })
}

fn alive(session: SessionId, state: Option<&State>) -> Result<(), AppendError> {
    match state {
        Some(state) if !state.deleted => Ok(()),
        Some(_) | None => Err(AppendError::NotFound(session)),
    }
}

/// Returns what a configuration names that the one before did not.
fn named(config: &Config, before: Option<&Arc<Config>>) -> Vec<(ResourceKind, String, u32)> {
    let mut objects = Vec::new();
    let environment = config.environment_id;
    if before.is_none_or(|before| before.environment_id != environment) {
        objects.push((ResourceKind::Environment, environment.to_string(), 1));
    }
    let agent = &config.agent;
    if before.is_none_or(|before| before.agent.id != agent.id) {
        objects.push((ResourceKind::Agent, agent.id.to_string(), agent.version));
    }
    objects
}

/// Tells whether records of a kind have an event id.
pub(crate) fn has_event(kind: Kind) -> bool {
    kind.is_public() || kind.announces().is_some()
}

/// Checks that events have ids, and that those which a writer brought along are new; `stands` tells
/// whether an id is taken: by its own place for a copy, by anything for a new body.
pub(crate) fn unused<E: From<AppendError>>(
    drafts: &[Draft],
    drew: impl Fn(EventId) -> bool,
    mut stands: impl FnMut(&Draft, EventId) -> Result<bool, E>,
) -> Result<(), E> {
    let mut seen = Vec::new();
    for draft in drafts {
        let Some(event) = draft.event else {
            if has_event(draft.kind) {
                return Err(AppendError::from(Refusal::Illegal("an event has no id")).into());
            }
            continue;
        };
        let key = (event, draft.kind.is_public());
        let twice = seen.contains(&key);
        seen.push(key);
        if twice || (!drew(event) && stands(draft, event)?) {
            return Err(AppendError::from(Refusal::Illegal("an event id is used twice")).into());
        }
    }
    Ok(())
}

/// Gives the drafts of a decision their places behind `end`.
///
/// `original` reads the record that a copy shares its body with; `put` puts a large body into a
/// blob that was not there before the decision.
pub(crate) fn place<E>(
    decision: &Decision,
    end: End,
    staged: &[(Json, Material)],
    entropy: &dyn Entropy,
    mut original: impl FnMut(u64) -> Result<Stored, E>,
    mut put: impl FnMut(&Json) -> Result<Material, E>,
) -> Result<Vec<Stored>, E> {
    let mut blobs: Vec<Option<u64>> = Vec::with_capacity(decision.drafts.len());
    let mut material = |draft: &Draft, sealed: &[Record]| {
        let (material, blob) = match &draft.body {
            DraftBody::Copy(position) => {
                let same = sealed
                    .iter()
                    .position(|record| record.position == *position);
                match same.and_then(|at| sealed.get(at)) {
                    Some(record) => {
                        let blob = same.and_then(|at| blobs.get(at).copied()).flatten();
                        (record.into(), blob)
                    }
                    None => {
                        let original = original(*position)?;
                        ((&original.record).into(), original.blob)
                    }
                }
            }
            DraftBody::Json(body) if is_large(body.get()) => {
                let size = u64::try_from(body.get().len()).unwrap_or(u64::MAX);
                let known = staged.iter().find(|(known, _)| Arc::ptr_eq(known, body));
                let material = match known {
                    Some((_, material)) => material.clone(),
                    None => put(body)?,
                };
                (material, Some(size))
            }
            DraftBody::Json(body) => (Material::fresh(body, entropy), None),
        };
        blobs.push(blob);
        Ok(material)
    };
    let records = seal::seal(decision, end, &mut material)?;
    Ok(records
        .into_iter()
        .zip(blobs)
        .map(|(record, blob)| Stored { record, blob })
        .collect())
}

/// Returns the receipt of an accepted request with the positions filled in.
pub(crate) fn receipt(receipt: &Receipt, state: &State, first: u64) -> Receipt {
    let mut receipt = receipt.clone();
    if let Reply::Records { .. } = receipt.reply {
        receipt.reply = Reply::Records {
            session: state.id,
            first,
            last: state.tail,
        };
    }
    receipt
}
