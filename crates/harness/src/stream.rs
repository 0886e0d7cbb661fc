//! One request to the model: previews on the way, the response at its end.

use std::sync::Arc;

use futures::StreamExt as _;
use outlast_kernel::{Lease, Preview};
use outlast_model::{
    Accumulator, BrainToken, Call, Error, Event, Events, Model, Response, StopReason,
    event::{Kind, Start},
};
use outlast_protocol::{
    content::TextBlock,
    event::{AgentMessage, Body as _, Previewed},
    id::EventId,
};
use outlast_session::{After, Respond, Said};
use serde_json::value::RawValue;

/// A request that is under way, with the ids its events will have.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    lease: &'a Lease,
    id: EventId,
    message: EventId,
    spoke: bool,
    thoughts: Vec<EventId>,
    text: outlast_model::Preview,
}

impl<'a> Request<'a> {
    /// Prepares a request under new ids.
    pub(crate) fn new(lease: &'a Lease) -> Self {
        Self {
            lease,
            id: lease.event_id(),
            message: lease.event_id(),
            spoke: false,
            thoughts: Vec::new(),
            text: outlast_model::Preview::new(),
        }
    }

    /// Sends the body and reads the answer to its end.
    pub(crate) async fn run(
        mut self,
        model: &dyn Model,
        id: &str,
        body: Arc<RawValue>,
    ) -> Result<Respond, Error> {
        let lease = self.lease;
        let brain = BrainToken {
            session: lease.session(),
            thread: lease.thread_number(),
            epoch: lease.epoch(),
        };
        let call = Call {
            brain,
            request: self.id,
            model: id.to_owned(),
            body,
        };
        let events = model.stream(call).await?;
        let response = self.read(events).await?;
        Ok(self.respond(response))
    }

    async fn read(&mut self, mut events: Events) -> Result<Response, Error> {
        let mut answer = Accumulator::new();
        while let Some(event) = events.next().await {
            let event = event?;
            answer.push(&event)?;
            self.show(&event);
        }
        answer.finish()
    }

    /// Previews an event for whoever watches the thread.
    fn show(&mut self, event: &Event) {
        if let Kind::BlockStart {
            block: Start::Thinking | Start::RedactedThinking,
            ..
        } = &event.kind
        {
            let id = self.lease.event_id();
            self.thoughts.push(id);
            self.begin(Previewed::Thinking { id });
        }
        let Some((index, text)) = self.text.push(event) else {
            return;
        };
        if !self.spoke {
            self.spoke = true;
            self.begin(Previewed::Message { id: self.message });
        }
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.lease.preview(Preview::Delta {
            event: self.message,
            index,
            text,
        });
    }

    fn begin(&self, event: Previewed) {
        // The request's start is durable before its first event comes: the tail covers it.
        let after = self.lease.state().tail;
        self.lease.preview(Preview::Start { after, event });
    }

    /// Turns the answer into what the log keeps of it.
    fn respond(self, response: Response) -> Respond {
        let refused = response.stop_reason == StopReason::Refusal;
        let mut events: Vec<_> = self.thoughts.iter().copied().map(Said::Thinking).collect();
        if !response.texts.is_empty() {
            let texts = response
                .texts
                .iter()
                .map(|text| TextBlock::new(text.text.clone()));
            let message = AgentMessage {
                content: texts.collect(),
            };
            events.push(Said::Message(self.message, message.to_raw().into()));
        }
        let calls = response.calls.iter().filter(|_| !refused);
        events.extend(calls.map(|call| Said::Call {
            id: self.lease.event_id(),
            tool_use: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            cut: call.cut,
        }));
        Respond {
            request: self.id,
            blocks: kept(&response, refused),
            stop: response.stop_reason.as_str().to_owned(),
            details: response.stop_details.clone(),
            after: after(&response.stop_reason),
            events,
        }
    }
}

/// Returns the blocks that later requests send back: calls of a refused answer never run.
fn kept(response: &Response, refused: bool) -> Vec<Box<RawValue>> {
    let call = |index: usize| refused && response.calls.iter().any(|call| call.index == index);
    let blocks = response.blocks.iter().enumerate();
    blocks
        .filter(|(index, _)| !call(*index))
        .map(|(_, block)| block.clone())
        .collect()
}

/// Returns what the turn stands at after an answer without calls.
fn after(stop: &StopReason) -> After {
    match stop {
        StopReason::PauseTurn | StopReason::Compaction => After::Pause,
        StopReason::Refusal => After::Refusal,
        StopReason::ContextWindowExceeded => After::Overflow,
        StopReason::EndTurn
        | StopReason::MaxTokens
        | StopReason::StopSequence
        | StopReason::ToolUse
        | StopReason::Other(_) => After::Answer,
    }
}
