//! Large bodies go to blobs before their append is decided.

use std::sync::Arc;

use outlast_blobs::Away;
use outlast_protocol::{id::SessionId, seam::Entropy};
use outlast_session::{Body, Json, Proposal, Record, Said, Step};

use crate::{
    AppendError, INLINE, Material, Outcome, bodies::Bodies, metric_definitions as metrics,
    stored::shaped,
};

/// Bodies that lie in blobs already, or why they do not.
pub(crate) type Staged = Result<Vec<(Json, Material)>, Away>;

/// What came of an append; copies of bodies in blobs are still to be loaded.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    /// Positions of records whose body has to be loaded.
    pub(crate) away: Vec<u64>,
}

/// Returns the bodies of a proposal that are stored as they are.
pub(crate) fn bodies(proposal: &Proposal) -> Vec<&Json> {
    match proposal {
        Proposal::Create(new) => new.inputs.iter().map(|input| &input.body).collect(),
        Proposal::Send(send) => send.inputs.iter().map(|input| &input.body).collect(),
        Proposal::Update(change) => vec![&change.event],
        Proposal::Brain { step, .. } => of_step(step),
        Proposal::Keyed { fact, .. } => of_fact(fact),
        Proposal::Mount { .. }
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
        | Proposal::Checkpoint(_) => Vec::new(),
    }
}

fn of_step(step: &Step) -> Vec<&Json> {
    match step {
        Step::Respond(response) => response.events.iter().filter_map(of_said).collect(),
        Step::Fail(failure) => vec![&failure.error],
        Step::Prefix(body) | Step::Note(body) => vec![body],
        Step::TakeIn { .. }
        | Step::EndTurn(_)
        | Step::Interrupt
        | Step::Release
        | Step::Break
        | Step::Pin(_) => Vec::new(),
    }
}

fn of_said(said: &Said) -> Option<&Json> {
    match said {
        Said::Message(_, body) => Some(body),
        Said::Thinking(_) | Said::Call { .. } => None,
    }
}

fn of_fact(fact: &outlast_session::Fact) -> Vec<&Json> {
    use outlast_session::Fact;
    match fact {
        Fact::Settled(_, _, body) | Fact::Cloned(_, Some(body)) => vec![body],
        Fact::Unreachable(all) => all.iter().map(|(.., body)| body).collect(),
        Fact::Cloned(_, None)
        | Fact::RequestStarted
        | Fact::RequestEnded(_)
        | Fact::Intended(_)
        | Fact::HandWanted(_)
        | Fact::HandLost(_) => Vec::new(),
    }
}

/// Tells whether a body goes to a blob.
pub(crate) fn is_large(body: &str) -> bool {
    body.len() > INLINE
}

/// Tells whether a record's body, which should be there, is still to be loaded.
pub(crate) fn is_away(body: &Body, salt: Option<&[u8; 16]>) -> bool {
    body.is_erased() && salt.is_some()
}

/// Returns the bodies of a proposal that have to go to blobs.
pub(crate) fn large(proposal: &Proposal) -> Vec<Json> {
    bodies(proposal)
        .into_iter()
        .filter(|body| is_large(body.get()))
        .cloned()
        .collect()
}

/// Returns the bytes of the bodies that will stand in rows.
pub(crate) fn small(proposal: &Proposal) -> usize {
    let sizes = bodies(proposal).into_iter().map(|body| body.get().len());
    sizes.filter(|size| *size <= crate::INLINE).sum()
}

/// Puts bodies into blobs.
pub(crate) async fn stage(
    session: SessionId,
    large: Vec<Json>,
    blobs: Bodies,
    entropy: Arc<dyn Entropy>,
) -> Staged {
    let mut staged = Vec::with_capacity(large.len());
    for body in large {
        let (source, entropy) = (body.clone(), entropy.clone());
        let digesting =
            tokio::task::spawn_blocking(move || Material::fresh(&source, &*entropy)).await;
        let material = digesting.map_err(Away::other)?;
        let put = blobs.put(session, &material.digest, body.clone()).await;
        put?;
        metrics::blob(body.get().len());
        staged.push((body, material));
    }
    Ok(staged)
}

/// Tells which staged bodies no record came to name.
pub(crate) fn unnamed(staged: &[(Json, Material)], records: &[Record]) -> Vec<[u8; 32]> {
    let named = |digest: &[u8; 32]| records.iter().any(|record| record.digest == *digest);
    let digests = staged.iter().map(|(_, material)| material.digest);
    digests.filter(|digest| !named(digest)).collect()
}

/// Returns the positions of records whose body is to be loaded.
pub(crate) fn away(records: &[Record]) -> Vec<u64> {
    let away = records
        .iter()
        .filter(|record| is_away(&record.body, record.salt.as_ref()));
    away.map(|record| record.position).collect()
}

/// Loads bodies of copies that lie in blobs, which the writer did not want to wait for.
pub(crate) async fn complete(
    session: SessionId,
    done: Done,
    bodies: &Bodies,
) -> Result<Outcome, AppendError> {
    let Done { mut outcome, away } = done;
    if away.is_empty() {
        return Ok(outcome);
    }
    let mut records = outcome.records.to_vec();
    for record in records
        .iter_mut()
        .filter(|record| away.contains(&record.position))
    {
        // The append stands; only its answer is short of a body, which can be read again.
        if let Ok(body) = bodies.get(session, &record.digest).await
            && let Ok(body) = shaped(record.kind, record.version, body)
        {
            record.body = body;
        }
    }
    outcome.records = records.into();
    Ok(outcome)
}
