//! Inputs: they arrive, they wait, they take their place.

use crate::{After, Entry, FoldError, Kind, Queued, State, Turn};

/// Queues an input.
pub(super) fn arrived(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let kind = entry
        .kind
        .announces()
        .ok_or_else(|| entry.fault("it announces no event"))?;
    let queued = Queued {
        position: entry.position,
        event: entry.id()?,
        kind,
    };
    let thread = entry.thread(state)?;
    let interrupt = kind == Kind::UserInterrupt;
    let queue = if interrupt {
        &mut thread.interrupts
    } else {
        &mut thread.queue
    };
    queue.push_back(queued);
    Ok(())
}

/// Takes an input from the queue into its place.
pub(super) fn placed(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let event = entry.id()?;
    let thread = entry.thread(state)?;
    let queue = if entry.kind == Kind::UserInterrupt {
        &mut thread.interrupts
    } else {
        &mut thread.queue
    };
    // An operator's turn behind a result never waited.
    if queue.front().is_some_and(|first| first.event == event) {
        queue.pop_front();
    }
    // What parked it once may do so again: only an answer shows that it does not.
    if thread.parked.is_none() {
        thread.attempts = 0;
    }
    // An operator's turn goes with the input or results before it and begins none of its own.
    if entry.kind == Kind::UserMessage {
        // Inputs that are taken in together begin one turn.
        let together = thread.turn.filter(|turn| turn.after == After::Input);
        let since = together.map_or(entry.position, |turn| turn.since);
        thread.turn = Some(Turn::new(since));
    }
    Ok(())
}

impl Turn {
    /// A turn whose input was just taken in.
    pub(crate) fn new(since: u64) -> Self {
        Self {
            since,
            rounds: 0,
            cut: 0,
            retries: 0,
            after: After::Input,
            retry_at: None,
        }
    }
}
