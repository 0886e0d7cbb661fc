//! What one log tells: gathered in one walk, small enough to keep for every session.

use std::collections::HashMap;

use outlast_protocol::{
    Outcome,
    id::{EventId, IncarnationId},
};
use outlast_session::{
    Kind, Origin, Record,
    body::{HandWanted, Intended, Settled},
};

use super::role::{name_of_call, name_of_message};

/// What a log tells.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Events of clients in the order they came: id, and the name of a message.
    pub(super) inputs: Vec<(EventId, Option<String>)>,
    /// How often each event of a client has its place.
    pub(super) placed: HashMap<EventId, u32>,
    /// Events in their place that readers are to see: position and id.
    pub(super) shown: Vec<(u64, EventId)>,
    /// Calls of tools that run commands.
    pub(super) calls: HashMap<EventId, Call>,
    /// Hands that were ever wanted.
    pub(super) hands: Vec<IncarnationId>,
    /// When each record was written, in microseconds.
    pub(super) times: Vec<i64>,
    /// When a brain had the lease: from, until.
    pub(super) held: Vec<(i64, i64)>,
    /// When a call was with a hand: from, until, and which.
    pub(super) running: Vec<(i64, i64, IncarnationId)>,
    /// Since when a brain has the lease now.
    pub(super) open_lease: Option<i64>,
    /// Calls that are with a hand now.
    pub(super) open_calls: HashMap<EventId, (i64, IncarnationId)>,
}

/// A call as its log tells it.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// The name that it appends to the ledger.
    pub(super) name: Option<String>,
    /// How it ended; each settlement there is.
    pub(super) outcomes: Vec<Outcome>,
    /// Results that the model was told.
    pub(super) results: u32,
}

impl Told {
    /// Takes in the next record.
    pub(super) fn take(&mut self, record: &Record) {
        let at = record.at.0;
        self.times.push(at);
        self.input(record);
        if let (0, true, Some(event)) = (record.thread, record.kind.is_public(), record.event) {
            self.shown.push((record.position, event));
        }
        match (record.kind, record.event) {
            (Kind::Claimed, _) => {
                self.release(at);
                self.open_lease = Some(at);
            }
            (Kind::Released, _) => self.release(at),
            (Kind::HandWanted, _) => {
                let wanted: Option<HandWanted> = read(record);
                self.hands.extend(wanted.map(|wanted| wanted.incarnation));
            }
            (Kind::AgentToolUse, Some(id)) => {
                let name = name_of_call(record.body.text()).map(str::to_owned);
                self.calls.entry(id).or_default().name = name;
            }
            (Kind::Intended, _) => {
                if let Some(intended) = read::<Intended>(record) {
                    self.open_calls.insert(intended.call, (at, intended.hand));
                }
            }
            (Kind::Settled, _) => {
                if let Some(settled) = read::<Settled>(record) {
                    self.settled(&settled, at);
                }
            }
            (Kind::AgentToolResult, _) => self.result(record),
            _ => {}
        }
    }

    /// Notes where the log ends: what is open then is open for ever.
    pub(super) fn end(&mut self) {
        self.release(i64::MAX);
        for (from, hand) in std::mem::take(&mut self.open_calls).into_values() {
            self.running.push((from, i64::MAX, hand));
        }
    }

    fn input(&mut self, record: &Record) {
        let (Some(event), Origin::Client(_)) = (record.event, &record.origin) else {
            return self.place(record);
        };
        let once = matches!(
            record.kind,
            Kind::UserToolConfirmation | Kind::UserCustomToolResult
        );
        if once || matches!(record.kind, Kind::ArrivedMessage | Kind::ArrivedInterrupt) {
            let name = name_of_message(record.body.text()).map(str::to_owned);
            self.inputs.push((event, name));
        }
        self.place(record);
    }

    fn place(&mut self, record: &Record) {
        let user = record.kind.text().starts_with("user.");
        if let (true, Some(event)) = (user, record.event) {
            *self.placed.entry(event).or_default() += 1;
        }
    }

    fn settled(&mut self, settled: &Settled, at: i64) {
        let call = self.calls.entry(settled.call).or_default();
        call.outcomes.push(settled.outcome);
        if let Some((from, hand)) = self.open_calls.remove(&settled.call) {
            self.running.push((from, at, hand));
        }
    }

    fn result(&mut self, record: &Record) {
        if let Some(result) = read::<ToolResult>(record) {
            self.calls.entry(result.tool_use_id).or_default().results += 1;
        }
    }

    fn release(&mut self, at: i64) {
        if let Some(from) = self.open_lease.take() {
            self.held.push((from, at));
        }
    }
}

/// What of a result names its call.
#[derive(serde::Deserialize)]
struct ToolResult {
    tool_use_id: EventId,
}

fn read<T: serde::de::DeserializeOwned>(record: &Record) -> Option<T> {
    serde_json::from_str(record.body.text()).ok()
}
