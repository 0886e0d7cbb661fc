//! What comes next, as a pure function of what a thread stands at.

use outlast_protocol::id::EventId;
use outlast_session::{After, Call, Phase, Thread};

#[cfg(test)]
mod tests;

/// What a brain does next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Effect {
    /// Stop for the interrupt that waits.
    Interrupt,
    /// Take in what waits, up to this arrival, and ask the model.
    TakeIn {
        /// The position of the last arrival that waits now.
        last: u64,
    },
    /// Ask the model.
    CallModel,
    /// Run these calls side by side.
    Execute(Vec<EventId>),
    /// The turn is over, or a client has to answer.
    EndTurn,
    /// The turn is over because the model refused.
    Refuse,
    /// The conversation does not fit the model any more.
    Overflow,
    /// Nothing is left to do under this lease.
    Rest,
}

/// Decides the next effect.
///
/// The same thread always gives the same effect, so a brain that replaces a dead one does what
/// the dead one would have done.
pub fn step(thread: &Thread) -> Effect {
    if !thread.interrupts.is_empty() {
        return Effect::Interrupt;
    }
    let Some(turn) = thread.turn else {
        return begin(thread);
    };
    let calls = next_calls(&thread.calls);
    if !calls.is_empty() {
        return Effect::Execute(calls);
    }
    if thread.asked().next().is_some() {
        return Effect::EndTurn;
    }
    match turn.after {
        After::Input | After::Pause | After::Calls => Effect::CallModel,
        After::Answer => take_in(thread).unwrap_or(Effect::EndTurn),
        After::Refusal => Effect::Refuse,
        After::Overflow => Effect::Overflow,
    }
}

/// Begins a turn, if an input waits.
fn begin(thread: &Thread) -> Effect {
    take_in(thread).unwrap_or(Effect::Rest)
}

fn take_in(thread: &Thread) -> Option<Effect> {
    thread.queue.back().map(|queued| Effect::TakeIn {
        last: queued.position,
    })
}

/// Calls that run side by side at most, however many a response has.
const TOGETHER: usize = 16;

/// Returns the calls that run next: read-only neighbours together, others one by one.
fn next_calls(calls: &[Call]) -> Vec<EventId> {
    let mut open = calls.iter().filter(|call| may_run(call)).peekable();
    let Some(first) = open.next() else {
        return Vec::new();
    };
    let mut group = vec![first.id];
    if only_reads(first) {
        while group.len() < TOGETHER
            && let Some(next) = open.next_if(|call| only_reads(call))
        {
            group.push(next.id);
        }
    }
    group
}

fn may_run(call: &Call) -> bool {
    matches!(call.phase, Phase::Allowed | Phase::Intended(_))
}

/// Tells whether a tool changes nothing, so that its order among its like does not matter.
fn only_reads(call: &Call) -> bool {
    matches!(call.name.as_str(), "read" | "glob" | "grep")
}
