//! Archive and delete.

use outlast_protocol::Problem;

use crate::{Answer, Decision, Kind, Proposal, Refusal, State, Status, body::Closed, decide::Desk};

use super::{bodies, turn};

/// Ends a session and keeps its log; repeating it changes nothing.
pub(super) fn archive(mut desk: Desk<'_, '_>) -> Result<Decision, Refusal> {
    if desk.state.archived_at.is_some() {
        return Ok(desk.done(Answer::Nothing));
    }
    refuse_running(&desk.state, "archived")?;
    end(&mut desk)?;
    Ok(desk.done(Answer::Appended))
}

/// Ends a session that rests, and keeps its log.
pub(super) fn end(desk: &mut Desk<'_, '_>) -> Result<(), Refusal> {
    if desk.state.status != Status::Terminated {
        terminate(desk)?;
    }
    desk.note(0, Kind::Archived, &Closed {})
}

/// Ends a session and drops its log.
pub(super) fn delete(mut desk: Desk<'_, '_>) -> Result<Decision, Refusal> {
    refuse_running(&desk.state, "deleted")?;
    desk.note(0, Kind::Deleted, &Closed {})?;
    Ok(desk.done(Answer::Appended))
}

/// Answers whatever is proposed to a deleted session.
pub(super) fn gone(desk: Desk<'_, '_>, proposal: &Proposal) -> Result<Decision, Refusal> {
    match proposal {
        Proposal::Create(_) => Err(Refusal::Illegal("the session exists")),
        Proposal::Delete(_)
        | Proposal::Claim { .. }
        | Proposal::ClaimAlone { .. }
        | Proposal::Revive { .. }
        | Proposal::Checkpoint(_)
        | Proposal::Expire => Ok(desk.done(Answer::Nothing)),
        Proposal::Send(_)
        | Proposal::Update(_)
        | Proposal::Mount { .. }
        | Proposal::Unmount { .. }
        | Proposal::Rotate { .. }
        | Proposal::SetDeadlines { .. }
        | Proposal::Erase(_)
        | Proposal::Archive(_)
        | Proposal::Brain { .. }
        | Proposal::Keyed { .. } => {
            Err(Problem::not_found(format_args!("session `{}`", desk.state.id)).into())
        }
    }
}

/// Tells that every thread, and then the session, is over.
pub(super) fn terminate(desk: &mut Desk<'_, '_>) -> Result<(), Refusal> {
    for number in (0_u32..).take(desk.state.threads.len()) {
        turn::close_request(desk, number)?;
        turn::close_calls(desk, number)?;
        let body = bodies::thread(&desk.state, number);
        desk.event(number, Kind::ThreadTerminated, &body)?;
    }
    desk.event(0, Kind::SessionTerminated, &bodies::Empty {})?;
    Ok(())
}

/// Refuses what an archived or terminated session does not take.
pub(super) fn refuse_ended(state: &State) -> Result<(), Refusal> {
    if state.archived_at.is_some() {
        let words = format!(
            "session `{}` is archived and takes no more changes",
            state.id
        );
        return Err(Problem::invalid(words).into());
    }
    if state.status == Status::Terminated {
        let words = format!(
            "session `{}` is terminated and takes no more changes",
            state.id
        );
        return Err(Problem::invalid(words).into());
    }
    Ok(())
}

fn refuse_running(state: &State, what: &str) -> Result<(), Refusal> {
    if state.shown() == Status::Running {
        let words = format!(
            "session `{}` is running and cannot be {what}; send `user.interrupt` and wait for idle",
            state.id
        );
        return Err(Problem::invalid(words).into());
    }
    Ok(())
}
