//! A brain that says what a test tells it.

use outlast_kernel::{Asker, Lease, Preview};
use outlast_protocol::{
    content::TextBlock,
    event::{AgentMessage, Body as _, ErrorKind, Previewed, RetryStatus, SessionError},
    id::EventId,
};
use outlast_session::{
    After, Failure, Kind, Respond, Said, Step, Stop, Then,
    body::{RequestEnded, Tokens},
};
use outlast_store::Slice;
use serde_json::value::RawValue;

/// A lease in the hands of a test.
pub(crate) struct Brain {
    pub(crate) lease: Lease,
}

impl Brain {
    pub(crate) fn new(lease: Lease) -> Self {
        Self { lease }
    }

    fn asker(&self) -> Asker {
        let (session, thread) = (self.lease.session(), self.lease.thread_number());
        Asker {
            session,
            thread,
            epoch: self.lease.epoch(),
        }
    }

    /// Takes in everything that waits.
    pub(crate) async fn take_in(&self) {
        self.propose(Step::TakeIn { last: u64::MAX }).await;
    }

    /// Starts a request; returns its id and the position of its start.
    pub(crate) async fn begin(&self) -> (EventId, u64) {
        let request = self.lease.event_id();
        self.lease
            .kernel()
            .request_started(self.asker(), request)
            .await
            .unwrap();
        let records = self.lease.read(Slice::after(0, 100_000)).await.unwrap();
        let start = records
            .iter()
            .rfind(|record| record.kind == Kind::RequestStart)
            .unwrap();
        (request, start.position)
    }

    /// Shows the beginning of a message.
    pub(crate) fn start(&self, after: u64) -> EventId {
        let id = self.lease.event_id();
        self.lease.preview(Preview::Start {
            after,
            event: Previewed::Message { id },
        });
        id
    }

    /// Shows the beginning of a thought.
    pub(crate) fn think(&self, after: u64) -> EventId {
        let id = self.lease.event_id();
        self.lease.preview(Preview::Start {
            after,
            event: Previewed::Thinking { id },
        });
        id
    }

    /// Shows more of a message.
    pub(crate) fn delta(&self, event: EventId, index: u32, text: &str) {
        self.lease.preview(Preview::Delta {
            event,
            index,
            text: text.to_owned(),
        });
    }

    /// Stores a response of these events.
    pub(crate) async fn respond(&self, request: EventId, events: Vec<Said>) {
        let respond = Respond {
            request,
            blocks: Vec::new(),
            stop: "end_turn".to_owned(),
            details: None,
            after: After::Answer,
            events,
        };
        self.propose(Step::Respond(Box::new(respond))).await;
    }

    /// Ends a request.
    pub(crate) async fn finish(&self, request: EventId) {
        let tokens = Tokens {
            input: 10,
            output: 5,
            ..Tokens::default()
        };
        let ended = RequestEnded {
            request,
            tokens,
            cost: Some(1_000_000),
            failed: false,
            speed: None,
        };
        self.lease
            .kernel()
            .request_ended(self.asker(), ended)
            .await
            .unwrap();
    }

    /// Ends the turn; tells whether it is over.
    pub(crate) async fn end(&self) {
        self.propose(Step::EndTurn(Stop::EndTurn)).await;
    }

    /// Takes in what waits, answers with a text, and ends the turn.
    pub(crate) async fn answer(&self, text: &str) {
        self.take_in().await;
        let (request, _) = self.begin().await;
        let id = self.lease.event_id();
        self.respond(request, vec![said(id, &[text])]).await;
        self.finish(request).await;
        self.end().await;
    }

    /// Answers with calls and waits for the client, or for what ran.
    pub(crate) async fn call(&self, calls: &[(&str, &str)]) -> Vec<EventId> {
        self.take_in().await;
        let (request, _) = self.begin().await;
        let made: Vec<_> = calls.iter().map(|_| self.lease.event_id()).collect();
        let events = calls
            .iter()
            .zip(&made)
            .map(|((name, input), id)| Said::Call {
                id: *id,
                tool_use: format!("toolu_{name}"),
                name: (*name).to_owned(),
                input: RawValue::from_string((*input).to_owned()).unwrap(),
                cut: false,
            });
        self.respond(request, events.collect()).await;
        self.finish(request).await;
        made
    }

    /// Gives the turn up.
    pub(crate) async fn fail(&self, then: Then) {
        let status = match then {
            Then::Retry(_) => RetryStatus::Retrying,
            Then::Exhausted => RetryStatus::Exhausted,
            Then::Terminal => RetryStatus::Terminal,
        };
        let error = SessionError::new(ErrorKind::ModelOverloaded, "the model is busy", status);
        let failure = Failure {
            error: error.to_raw().into(),
            then,
        };
        self.propose(Step::Fail(failure)).await;
    }

    pub(crate) async fn propose(&self, step: Step) -> outlast_session::Answer {
        self.lease.propose(step).await.unwrap().answer
    }
}

/// A message of the model.
pub(crate) fn said(id: EventId, texts: &[&str]) -> Said {
    let content = texts.iter().map(|text| TextBlock::new(*text)).collect();
    Said::Message(id, AgentMessage { content }.to_raw().into())
}
