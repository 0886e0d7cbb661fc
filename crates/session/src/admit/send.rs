//! A client's events: each is judged on the state that those before it leave.

use outlast_protocol::{
    ErrorCode, Problem,
    id::{EventId, ThreadId},
};

use crate::{
    Act, Answer, Decision, Input, Kind, Phase, Refusal, Route, Send, Status, body, decide::Desk,
};

use super::{calls, claim, close, status, turn};

/// Accepts a request's events, all or none.
pub(super) fn send(mut desk: Desk<'_, '_>, send: &Send) -> Result<Decision, Refusal> {
    close::refuse_ended(&desk.state)?;
    let waited = asked(&desk);
    accept(&mut desk, &send.inputs, "events")?;
    go_on(&mut desk, waited)?;
    claim::with(&mut desk, send.claim)?;
    Ok(desk.done(Answer::Appended))
}

/// Accepts events one after another; `list` names the field they came in.
pub(super) fn accept(desk: &mut Desk<'_, '_>, inputs: &[Input], list: &str) -> Result<(), Refusal> {
    let most = desk.context.rules.queue;
    if inputs.len() > most {
        // No retry could ever succeed.
        return Err(Problem::invalid(format!(
            "{list}: has {} events, and at most {most} may wait on this server",
            inputs.len()
        ))
        .into());
    }
    let mut before = None;
    for (index, input) in inputs.iter().enumerate() {
        let at = format!("{list}.{index}");
        match &input.act {
            Act::Message => message(desk, input, &at)?,
            Act::System => system(desk, input, before, &at)?,
            Act::Interrupt { thread } => interrupt(desk, input, *thread, &at)?,
            Act::Confirm { call, deny } => confirm(desk, input, *call, deny.as_ref(), &at)?,
            Act::Result { call } => result(desk, input, *call, &at)?,
        }
        before = Some(&input.act);
    }
    Ok(())
}

/// Counts the calls that an idle primary thread waits for.
fn asked(desk: &Desk<'_, '_>) -> usize {
    let idle = desk
        .state
        .thread(0)
        .filter(|thread| thread.status == Status::Idle);
    idle.map_or(0, |thread| thread.asked().count())
}

/// Tells what the answers of a client changed: fewer calls to wait for, or work again.
fn go_on(desk: &mut Desk<'_, '_>, waited: usize) -> Result<(), Refusal> {
    let Some(thread) = desk.state.thread(0) else {
        return Ok(());
    };
    let left = thread.asked().count();
    if waited == 0 || left == waited || thread.turn.is_none() || thread.status != Status::Idle {
        return Ok(());
    }
    if left == 0 {
        status::running(desk, 0)
    } else {
        status::session_idle(desk, None)
    }
}

fn message(desk: &mut Desk<'_, '_>, input: &Input, at: &str) -> Result<(), Refusal> {
    if asked(desk) > 0 {
        return Err(Problem::invalid(format!(
            "{at}: the session waits for answers to calls and takes no `user.message`; answer them \
             with `user.tool_confirmation` or `user.custom_tool_result`, or send `user.interrupt`"
        ))
        .into());
    }
    queue(desk, Kind::ArrivedMessage, input)
}

fn queue(desk: &mut Desk<'_, '_>, kind: Kind, input: &Input) -> Result<(), Refusal> {
    let waiting = desk.state.thread(0).map_or(0, |thread| thread.queue.len());
    full(desk, waiting)?;
    let id = desk.context.ids.event();
    desk.put(0, kind, Some(id), input.body.clone())
}

/// Refuses one more where as many wait as may.
fn full(desk: &Desk<'_, '_>, waiting: usize) -> Result<(), Refusal> {
    if waiting < desk.context.rules.queue {
        return Ok(());
    }
    let words = format!("{waiting} events wait already; send more when the session took them");
    Err(Problem::new(ErrorCode::RateLimited, words).into())
}

/// Queues an operator's turn behind its message, or places it behind its result.
fn system(
    desk: &mut Desk<'_, '_>,
    input: &Input,
    before: Option<&Act>,
    at: &str,
) -> Result<(), Refusal> {
    let model = desk
        .state
        .config
        .as_ref()
        .map(|config| config.agent.model.id.clone());
    let model = model.unwrap_or_default();
    if !(desk.context.takes_system)(&model) {
        return Err(Problem::new(
            ErrorCode::ModelDoesNotSupportMidConversationSystem,
            format!(
                "{at}: model `{model}` takes no `system.message` in a conversation \
                 (model_does_not_support_mid_conversation_system)"
            ),
        )
        .into());
    }
    match before {
        Some(Act::Message) => queue(desk, Kind::ArrivedSystem, input),
        Some(Act::Result { .. }) => {
            let id = desk.context.ids.event();
            desk.put(0, Kind::SystemMessage, Some(id), input.body.clone())
        }
        Some(Act::System | Act::Interrupt { .. } | Act::Confirm { .. }) | None => {
            Err(Problem::invalid(format!(
                "{at}: `system.message` must directly follow a `user.message` or \
                 `user.custom_tool_result` of the same request"
            ))
            .into())
        }
    }
}

/// Stops what runs: through its brain where there is one, here where there is none.
fn interrupt(
    desk: &mut Desk<'_, '_>,
    input: &Input,
    thread: Option<ThreadId>,
    at: &str,
) -> Result<(), Refusal> {
    let number = match thread {
        None => 0,
        Some(id) => desk
            .state
            .find(id)
            .map(|(number, _)| number)
            .ok_or_else(|| {
                Problem::invalid(format!(
                    "{at}.session_thread_id: no thread `{id}` in this session"
                ))
            })?,
    };
    let waiting = desk
        .state
        .thread(number)
        .map_or(0, |thread| thread.interrupts.len());
    full(desk, waiting)?;
    let id = desk.context.ids.event();
    desk.put(number, Kind::ArrivedInterrupt, Some(id), input.body.clone())?;
    match desk.state.thread(number) {
        Some(thread) if thread.lease.is_none() => turn::interrupt(desk, number),
        _ => Ok(()),
    }
}

fn confirm(
    desk: &mut Desk<'_, '_>,
    input: &Input,
    call: EventId,
    deny: Option<&Option<String>>,
    at: &str,
) -> Result<(), Refusal> {
    let field = format!("{at}.tool_use_id");
    let name = pending(desk, call, Route::Hand, &field)?;
    let id = desk.context.ids.event();
    desk.put(0, Kind::UserToolConfirmation, Some(id), input.body.clone())?;
    match deny {
        None => Ok(()),
        Some(message) => {
            let result = body::denied(&name, message.as_deref());
            calls::settle_with(desk, 0, call, &result)
        }
    }
}

fn result(desk: &mut Desk<'_, '_>, input: &Input, call: EventId, at: &str) -> Result<(), Refusal> {
    pending(
        desk,
        call,
        Route::Client,
        &format!("{at}.custom_tool_use_id"),
    )?;
    let id = desk.context.ids.event();
    desk.put(0, Kind::UserCustomToolResult, Some(id), input.body.clone())
}

/// Returns the tool of a call that waits for this kind of answer.
fn pending(desk: &Desk<'_, '_>, id: EventId, route: Route, field: &str) -> Result<String, Refusal> {
    let call = desk.state.thread(0).and_then(|thread| thread.call(id));
    let words = match call {
        Some(call) if call.route != route => match route {
            Route::Hand => {
                format!("{field}: `{id}` is a custom tool call and takes no confirmation")
            }
            Route::Client => format!("{field}: `{id}` is no custom tool call"),
        },
        Some(call) => match call.phase {
            Phase::Asked => return Ok(call.name.clone()),
            Phase::Allowed | Phase::Intended(_) if route == Route::Hand => {
                format!("{field}: `{id}` does not wait for a confirmation")
            }
            Phase::Allowed | Phase::Intended(_) | Phase::Settled(_) => {
                format!("{field}: `{id}` is answered already")
            }
        },
        None => format!("{field}: no call `{id}` waits for an answer"),
    };
    Err(Problem::invalid(words).into())
}
