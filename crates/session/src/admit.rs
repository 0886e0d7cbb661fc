//! The one judge of what may be appended.

mod bodies;
mod brain;
mod calls;
mod claim;
mod close;
mod deadlines;
mod erase;
mod keyed;
mod mount;
mod park;
mod respond;
mod send;
mod status;
mod turn;

use outlast_protocol::deadlines::Deadlines;

use crate::{
    Answer, Context, Create, Decision, Origin, Proposal, Refusal, State, Update, body, decide::Desk,
};

/// Decides a proposal on the state at the head of the log.
///
/// Pure but for the ids it draws. `state` is absent only for [`Proposal::Create`]. Nothing is
/// promised about a decision that is not appended as a whole at the head it was made on.
///
/// # Errors
///
/// A [`Refusal`]: nothing may be appended.
pub fn admit(
    state: Option<&State>,
    proposal: &Proposal,
    context: &mut Context<'_>,
) -> Result<Decision, Refusal> {
    let Some(state) = state else {
        return match proposal {
            Proposal::Create(new) => create(new, context),
            Proposal::Send(_)
            | Proposal::Update(_)
            | Proposal::Mount { .. }
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
            | Proposal::Keyed { .. }
            | Proposal::Checkpoint(_) => Err(Refusal::Illegal("the session does not exist")),
        };
    };
    let desk = Desk::new(state.clone(), origin(proposal), context);
    if state.deleted {
        return close::gone(desk, proposal);
    }
    match proposal {
        Proposal::Create(_) => Err(Refusal::Illegal("the session exists")),
        Proposal::Send(send) => send::send(desk, send),
        Proposal::Update(change) => update(desk, change),
        Proposal::Mount { resource, .. } => mount::add(desk, resource),
        Proposal::Unmount { resource, .. } => mount::remove(desk, *resource),
        Proposal::Rotate { resource, .. } => mount::rotate(desk, *resource),
        Proposal::SetDeadlines { change, .. } => deadlines::set(desk, *change),
        Proposal::Expire => deadlines::expire(desk),
        Proposal::Erase(wish) => erase::propose(desk, wish),
        Proposal::Archive(_) => close::archive(desk),
        Proposal::Delete(_) => close::delete(desk),
        Proposal::Claim { thread, claim } => claim::propose(desk, *thread, *claim, false),
        Proposal::ClaimAlone { thread, claim } => claim::propose(desk, *thread, *claim, true),
        Proposal::Revive { thread, claim } => park::revive(desk, *thread, *claim),
        Proposal::Brain {
            thread,
            fence,
            step,
        } => brain::propose(desk, *thread, *fence, step),
        Proposal::Keyed {
            thread,
            epoch,
            key,
            fact,
        } => keyed::propose(desk, *thread, *epoch, *key, fact),
        Proposal::Checkpoint(new) => checkpoint(desk, new),
    }
}

/// Returns who writes what a proposal leads to.
fn origin(proposal: &Proposal) -> Origin {
    match proposal {
        Proposal::Create(new) => Origin::Client(new.by),
        Proposal::Send(send) => Origin::Client(send.by),
        Proposal::Update(change) => Origin::Client(change.by),
        Proposal::Mount { by, .. }
        | Proposal::Unmount { by, .. }
        | Proposal::Rotate { by, .. }
        | Proposal::SetDeadlines { by, .. }
        | Proposal::Archive(by)
        | Proposal::Delete(by) => Origin::Client(*by),
        Proposal::Erase(wish) => wish.by.map_or(Origin::Server, Origin::Client),
        Proposal::Claim { .. }
        | Proposal::ClaimAlone { .. }
        | Proposal::Revive { .. }
        | Proposal::Checkpoint(_)
        | Proposal::Expire => Origin::Server,
        Proposal::Brain { fence, .. } => Origin::Brain {
            epoch: fence.epoch,
            seq: fence.seq,
        },
        Proposal::Keyed { key, .. } => Origin::Keyed(*key),
    }
}

/// Makes a session, with its first inputs.
fn create(new: &Create, context: &mut Context<'_>) -> Result<Decision, Refusal> {
    let mut desk = Desk::new(State::blank(new.id), Origin::Client(new.by), context);
    mount::check(&new.config.resources)?;
    let created = body::Created {
        config: new.config.clone(),
        thread: new.thread,
    };
    desk.note(0, crate::Kind::Created, &created)?;
    if new.deadlines != Deadlines::default() {
        desk.note(0, crate::Kind::Deadlines, &new.deadlines)?;
    }
    send::accept(&mut desk, &new.inputs, "initial_events")?;
    claim::with(&mut desk, new.claim)?;
    Ok(desk.done(Answer::Appended))
}

/// Names a checkpoint, if it is of the newest life and newer than the one that is known.
fn checkpoint(mut desk: Desk<'_, '_>, new: &body::Checkpointed) -> Result<Decision, Refusal> {
    let state = &desk.state;
    let hand = state.hand;
    let current = hand.is_some_and(|hand| hand.incarnation == new.incarnation);
    let known = state.checkpoints.first();
    let newer = known.is_none_or(|known| known.taken.at < new.at);
    if !current || !newer || close::refuse_ended(state).is_err() {
        return Ok(desk.done(Answer::Nothing));
    }
    // The clock may have been set back since: what comes after it is dated after it all the same.
    desk.not_before(new.at);
    desk.note(0, crate::Kind::Checkpointed, new)?;
    Ok(desk.done(Answer::Appended))
}

/// Replaces the configuration.
fn update(mut desk: Desk<'_, '_>, change: &Update) -> Result<Decision, Refusal> {
    close::refuse_ended(&desk.state)?;
    if desk.state.config.as_ref() != Some(&change.from) {
        return Ok(desk.done(Answer::Changed));
    }
    if change.config == change.from {
        return Ok(desk.done(Answer::Nothing));
    }
    if change.agent && desk.state.shown() != crate::Status::Idle {
        return Err(outlast_protocol::Problem::invalid(
            "agent: can only be updated while the session is idle; interrupt it and wait",
        )
        .into());
    }
    desk.note(
        0,
        crate::Kind::Updated,
        &body::Updated {
            config: change.config.clone(),
        },
    )?;
    let id = desk.context.ids.event();
    desk.put(
        0,
        crate::Kind::SessionUpdated,
        Some(id),
        change.event.clone(),
    )?;
    Ok(desk.done(Answer::Appended))
}
