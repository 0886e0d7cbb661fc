//! The verdict in one sentence, made of ids and counts alone.

use outlast_protocol::diagnosis::{
    CallStands, Holder, Silent, StoreFailure, ThreadDiagnosis, WaitsFor,
};
use outlast_session::State;

/// What turns may wait for that is no part of their session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lacks<'a> {
    /// What has the hands and does not answer.
    pub(super) silent: Option<&'a Silent>,
    /// How the store failed last.
    pub(super) store: Option<&'a StoreFailure>,
}

/// Says who has to do what next.
pub(super) fn verdict(
    state: &State,
    threads: &[ThreadDiagnosis],
    stuck: bool,
    free: usize,
    lacks: Lacks<'_>,
) -> String {
    let words: Vec<String> = threads
        .iter()
        .map(|thread| {
            let words = thread_words(thread, free);
            match threads.len() {
                1 => words,
                _ => format!("thread `{}` {words}", thread.thread_id),
            }
        })
        .collect();
    let mut words = words.join("; ");
    if let Some(Silent { who, since }) = lacks.silent {
        words.push_str(&format!(
            "; {who} has not answered since {since}, and calls cannot run until it does"
        ));
    }
    words.extend(lacks.store.and_then(stored));
    if state.archived_at.is_some() {
        return "archived: nothing follows".to_owned();
    }
    if stuck {
        return format!("STUCK, nobody will wake it by itself: {words}");
    }
    words
}

/// Says that nothing can be appended at the moment.
fn stored(failure: &StoreFailure) -> Option<String> {
    let since = failure.since?;
    Some(if failure.is_full() {
        format!(
            "; the server's disk is full since {since}: nothing is recorded until there is room"
        )
    } else {
        format!("; the store cannot be written since {since}, and turns wait for it")
    })
}

fn thread_words(thread: &ThreadDiagnosis, free: usize) -> String {
    match &thread.waits_for {
        WaitsFor::Nothing => "is over: nothing follows".to_owned(),
        WaitsFor::Input => "is at rest: a client's next input wakes it".to_owned(),
        WaitsFor::Answers { event_ids } => {
            let ids: Vec<_> = event_ids.iter().map(|id| format!("`{id}`")).collect();
            format!("waits for a client to answer {}", ids.join(", "))
        }
        WaitsFor::Operator { attempts, .. } => format!(
            "is parked: {attempts} brains in a row came to nothing on it; a client's next input is tried \
             once, and `wake` has it go on with what was given up"
        ),
        WaitsFor::AnyBrain if free == 0 => {
            "waits for a brain: all of this process's are at work".to_owned()
        }
        WaitsFor::AnyBrain => "waits for a brain, and one is free: it starts at once".to_owned(),
        WaitsFor::Timer { at } => format!("tries again at {at}"),
        WaitsFor::Brain { process_id, holder } => held(thread, *holder, &process_id.to_string()),
    }
}

fn held(thread: &ThreadDiagnosis, holder: Holder, process: &str) -> String {
    match holder {
        Holder::Forgotten => {
            "is held by this process, but by none of its brains: it is taken up again".to_owned()
        }
        Holder::Dead => format!("was held by process `{process}`, which is dead: it is taken over"),
        Holder::Elsewhere => format!("is worked on by process `{process}`: {}", does(thread)),
        Holder::Here => format!("is worked on here: {}", does(thread)),
    }
}

/// Says what a brain is about.
fn does(thread: &ThreadDiagnosis) -> String {
    if let Some(request) = thread.open_request {
        return format!("the model answers request `{request}`");
    }
    let running = thread.calls.iter().find_map(|call| match call.stands {
        CallStands::Intended { hand } => {
            Some(format!("call `{}` runs in hand `{hand}`", call.event_id))
        }
        CallStands::Asked | CallStands::Allowed | CallStands::Settled { .. } => None,
    });
    running.unwrap_or_else(|| "it is between two steps".to_owned())
}
