//! The body of a send, and the events at a session's creation.

use super::client::{
    ClientEvent, Confirmation, SystemMessage, UserCustomToolResult, UserInterrupt, UserMessage,
    UserToolConfirmation,
};
use crate::content::{Block, Source};
use crate::id::{EventId, ThreadId};
use crate::read::{At, Object, Slot};
use crate::words::words;
use crate::{ErrorCode, Problem, content, limits};
use serde_json::Value;

words! {
    /// The types that clients send.
    enum Sent {
        Message = "user.message",
        Interrupt = "user.interrupt",
        Confirmation = "user.tool_confirmation",
        CustomToolResult = "user.custom_tool_result",
        ToolResult = "user.tool_result",
        DefineOutcome = "user.define_outcome",
        System = "system.message",
    }
}

const INITIAL: &[(&str, Sent)] = &[
    ("user.message", Sent::Message),
    ("user.define_outcome", Sent::DefineOutcome),
];

/// Reads the body of `POST /v1/sessions/{id}/events`.
///
/// All events or none: the first that is wrong refuses the request. Rules that need the session's
/// state are not checked here.
pub fn parse_send(body: &Value) -> Result<Vec<ClientEvent>, Problem> {
    let mut object = At::root(body).object()?;
    let events = object.field("events").required()?;
    object.finish()?;
    let items = events.items(1..=limits::EVENTS)?;
    let events = items
        .iter()
        .map(|at| one(at, Sent::TABLE))
        .collect::<Result<Vec<_>, _>>()?;
    check_system_message(&items, &events)?;
    check_documents("events", &events)?;
    Ok(events)
}

/// Reads `initial_events` of a session's creation; absent, null and empty are none.
pub fn parse_initial(slot: Slot<'_>) -> Result<Vec<ClientEvent>, Problem> {
    let Some(events) = slot.optional() else {
        return Ok(Vec::new());
    };
    let events: Vec<_> = events
        .items(0..=limits::INITIAL_EVENTS)?
        .iter()
        .map(|at| one(at, INITIAL))
        .collect::<Result<_, _>>()?;
    check_documents("initial_events", &events)?;
    Ok(events)
}

/// Bounds the documents of one request that name files.
fn check_documents(list: &str, events: &[ClientEvent]) -> Result<(), Problem> {
    let named = |block: &&Block| match block {
        Block::Document { source, .. } => matches!(source, Source::File { .. }),
        Block::Text { .. } | Block::Image { .. } | Block::SearchResult { .. } => false,
    };
    let blocks = events.iter().flat_map(ClientEvent::blocks);
    let count = blocks.filter(named).count();
    if count <= limits::FILE_DOCUMENTS {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "{list}: must have at most {} documents whose source is a file, not {count}",
        limits::FILE_DOCUMENTS
    )))
}

fn one(at: &At<'_>, allowed: &[(&str, Sent)]) -> Result<ClientEvent, Problem> {
    let mut object = at.object()?;
    let kind = object.field("type").required()?;
    let event = match kind.word(allowed)? {
        Sent::Message => ClientEvent::UserMessage(UserMessage {
            content: content::message(&object.field("content").required()?)?,
        }),
        Sent::Interrupt => ClientEvent::UserInterrupt(UserInterrupt {
            session_thread_id: object.field("session_thread_id").read(thread)?,
        }),
        Sent::Confirmation => confirmation(&mut object)?,
        Sent::CustomToolResult => custom_tool_result(&mut object)?,
        Sent::System => ClientEvent::SystemMessage(SystemMessage {
            content: content::system(&object.field("content").required()?)?,
        }),
        Sent::ToolResult | Sent::DefineOutcome => {
            return Err(kind.problem(
                ErrorCode::NotSupported,
                "not_supported: this server does not take this type of event yet",
            ));
        }
    };
    object.finish()?;
    Ok(event)
}

fn thread(at: &At<'_>) -> Result<ThreadId, Problem> {
    at.any_text()?
        .parse()
        .map_err(|_| at.refuse("no thread of this id in the session"))
}

/// Reads the id of a call; another form of id names no call, so it is refused as an unknown one.
fn call(at: &At<'_>) -> Result<EventId, Problem> {
    at.any_text()?
        .parse()
        .map_err(|_| at.refuse("no call of this id waits for an answer"))
}

fn confirmation(object: &mut Object<'_>) -> Result<ClientEvent, Problem> {
    let tool_use_id = call(&object.field("tool_use_id").required()?)?;
    let result = object
        .field("result")
        .required()?
        .word(Confirmation::TABLE)?;
    let deny_message = object.field("deny_message").optional();
    if let (Some(at), Confirmation::Allow) = (&deny_message, result) {
        return Err(at.refuse("is only allowed when `result` is `deny`"));
    }
    Ok(ClientEvent::UserToolConfirmation(UserToolConfirmation {
        tool_use_id,
        result,
        deny_message: deny_message
            .map(|at| at.string(0..=limits::TOOL_OUTPUT))
            .transpose()?,
    }))
}

fn custom_tool_result(object: &mut Object<'_>) -> Result<ClientEvent, Problem> {
    let custom_tool_use_id = call(&object.field("custom_tool_use_id").required()?)?;
    Ok(ClientEvent::UserCustomToolResult(UserCustomToolResult {
        custom_tool_use_id,
        content: object.field("content").read(content::result)?,
        is_error: object.field("is_error").read(At::boolean)?,
    }))
}

/// A `system.message` is the last of its request, directly behind the event it goes with.
fn check_system_message(items: &[At<'_>], events: &[ClientEvent]) -> Result<(), Problem> {
    let is_system = |event: &ClientEvent| matches!(event, ClientEvent::SystemMessage(_));
    let Some(at) = events.iter().position(is_system) else {
        return Ok(());
    };
    let refuse = |what: &str| match items.get(at) {
        Some(item) => Err(item.refuse(what)),
        None => Err(Problem::invalid(what)),
    };
    if events.iter().skip(at + 1).any(is_system) {
        return refuse("at most one `system.message` per request");
    }
    if at + 1 != events.len() {
        return refuse("a `system.message` must be the last event of the request");
    }
    match at.checked_sub(1).and_then(|before| events.get(before)) {
        Some(ClientEvent::UserMessage(_) | ClientEvent::UserCustomToolResult(_)) => Ok(()),
        Some(
            ClientEvent::UserInterrupt(_)
            | ClientEvent::UserToolConfirmation(_)
            | ClientEvent::SystemMessage(_),
        )
        | None => refuse(
            "a `system.message` must directly follow the `user.message`, `user.tool_result` or `user.custom_tool_result` it goes with",
        ),
    }
}

#[cfg(test)]
mod tests;
