//! Previews on one connection.
//!
//! What a client may rely on: a start comes first and once; pieces come in order, blocks open in
//! order; the pieces are a prefix of the final text; nothing for an event comes after the event
//! itself or after the end of its request. A connection gets nothing for an event whose start it
//! did not get.

use std::collections::{HashSet, VecDeque};

use outlast_kernel::{Heard, Preview, Previews};
use outlast_protocol::{
    event::{Delta, Previewed, Start},
    id::EventId,
};
use outlast_session::{Kind, Record};

use super::frame;

/// Previews that wait for the log to catch up; of an event that has more, the tail is dropped.
const HELD: usize = 1_024;

/// What a connection asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Wanted {
    messages: bool,
    thinking: bool,
}

impl Wanted {
    /// The values of `event_deltas[]`.
    pub(super) const TABLE: &[(&str, Self)] = &[
        (
            "agent.message",
            Self {
                messages: true,
                thinking: false,
            },
        ),
        (
            "agent.thinking",
            Self {
                messages: false,
                thinking: true,
            },
        ),
    ];

    /// Puts the values together; `None` if there are none.
    pub(super) fn any(values: &[Self]) -> Option<Self> {
        let both = |a: Self, b: &Self| Self {
            messages: a.messages || b.messages,
            thinking: a.thinking || b.thinking,
        };
        (!values.is_empty()).then(|| values.iter().fold(Self::default(), both))
    }
}

/// The previews of one thread, in step with its log.
#[derive(Debug)]
pub(super) struct Watch {
    receiver: Previews,
    wanted: Wanted,
    held: VecDeque<Heard>,
    open: Option<Open>,
    /// Where the last request ended: what began before it is over.
    floor: u64,
    /// Events of the present request that were shown whole.
    whole: HashSet<EventId>,
}

/// The message that is being previewed.
#[derive(Debug)]
struct Open {
    event: EventId,
    /// Blocks that were opened.
    blocks: u32,
}

impl Watch {
    pub(super) fn new(receiver: Previews, wanted: Wanted) -> Self {
        let (held, whole) = (VecDeque::new(), HashSet::new());
        Self {
            receiver,
            wanted,
            held,
            open: None,
            floor: 0,
            whole,
        }
    }

    /// Waits for more. Dropping the future loses nothing.
    pub(super) async fn more(&mut self) {
        let heard = self.receiver.next().await;
        self.hold(heard);
        self.drain();
    }

    /// Takes in what is there: all that was said before the records that are about to be shown.
    pub(super) fn drain(&mut self) {
        // Bounded, because a brain that talks without a pause must not keep the log away.
        for _ in 0..HELD {
            match self.receiver.take() {
                Some(heard) => self.hold(heard),
                None => return,
            }
        }
    }

    fn hold(&mut self, heard: Heard) {
        if self.held.len() < HELD {
            self.held.push_back(heard);
        } else if let Some(last) = self.held.back_mut() {
            *last = Heard::Gap;
        }
    }

    /// Shows what may be shown once the log was shown up to `position`.
    pub(super) fn show(&mut self, out: &mut String, position: u64) {
        let early = |heard: &Heard| match heard {
            Heard::Preview(preview) => {
                matches!(&**preview, Preview::Start { after, .. } if *after > position)
            }
            Heard::Gap => false,
        };
        while let Some(heard) = self.held.pop_front_if(|heard| !early(heard)) {
            let Heard::Preview(preview) = heard else {
                self.open = None;
                continue;
            };
            match &*preview {
                Preview::Start { after, event } => self.start(out, *after, *event),
                Preview::Delta { event, index, text } => self.delta(out, *event, *index, text),
            }
        }
        if self.held.is_empty() {
            // A stream that was busy once must not keep the room for it.
            self.held = VecDeque::new();
        }
    }

    fn start(&mut self, out: &mut String, after: u64, event: Previewed) {
        if after < self.floor || self.whole.contains(&event.id()) {
            return;
        }
        let wanted = match event {
            Previewed::Message { id } => {
                self.open = self.wanted.messages.then_some(Open {
                    event: id,
                    blocks: 0,
                });
                self.wanted.messages
            }
            Previewed::Thinking { .. } => self.wanted.thinking,
        };
        if wanted {
            frame::start(out, &Start { event });
        }
    }

    fn delta(&mut self, out: &mut String, event: EventId, index: u32, text: &str) {
        let Some(open) = self.open.as_mut().filter(|open| open.event == event) else {
            return;
        };
        if index > open.blocks {
            // A piece between is missing: the rest would not be a prefix.
            self.open = None;
            return;
        }
        open.blocks = open.blocks.max(index.saturating_add(1));
        frame::delta(out, &Delta::new(event, index, text));
    }

    /// Notes that a record of the thread was shown.
    pub(super) fn passed(&mut self, record: &Record) {
        match (record.kind, record.event) {
            (Kind::AgentMessage | Kind::AgentThinking, Some(event)) => {
                self.whole.insert(event);
                if self.open.as_ref().is_some_and(|open| open.event == event) {
                    self.open = None;
                }
            }
            (Kind::RequestEnd, _) => {
                self.floor = record.position;
                self.open = None;
                self.whole.clear();
            }
            _ => {}
        }
    }
}
