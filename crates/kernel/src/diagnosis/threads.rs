//! Threads, from the state and the newest records.

use std::sync::Arc;

use outlast_protocol::{
    Micros,
    diagnosis::{CallDiagnosis, CallStands, RecordOutline, ThreadDiagnosis, WaitsFor},
};
use outlast_session::{Call, Kind, Phase, Record, Route, State, Thread};

use super::Living;
use crate::kernel::Inner;

/// Returns all threads of a session.
pub(super) fn all(
    inner: &Arc<Inner>,
    state: &State,
    newest: &[Record],
    living: &Living,
) -> Vec<ThreadDiagnosis> {
    let threads = (0_u32..).zip(&state.threads);
    let shown = threads.map(|(number, thread)| {
        let waits_for = inner.waits_for(state, number, living);
        let since = since(&waits_for, number, newest);
        one(thread, waits_for, since)
    });
    shown.collect()
}

fn one(thread: &Thread, waits_for: WaitsFor, since: Option<Micros>) -> ThreadDiagnosis {
    ThreadDiagnosis {
        thread_id: thread.id,
        status: thread.status,
        waits_for,
        since,
        epoch: thread.epoch,
        attempts: thread.attempts,
        retries: thread.turn.map_or(0, |turn| turn.retries),
        queued: thread.queue.len(),
        interrupts: thread.interrupts.len(),
        open_request: thread.request.map(|request| request.id),
        calls: thread.calls.iter().map(call).collect(),
    }
}

fn call(call: &Call) -> CallDiagnosis {
    let stands = match call.phase {
        Phase::Asked => CallStands::Asked,
        Phase::Allowed => CallStands::Allowed,
        Phase::Intended(hand) => CallStands::Intended { hand },
        Phase::Settled(outcome) => CallStands::Settled { outcome },
    };
    let route = match call.route {
        Route::Hand => "hand",
        Route::Client => "client",
    };
    CallDiagnosis {
        event_id: call.id,
        stands,
        route: route.to_owned(),
    }
}

/// Returns a record without its body.
pub(super) fn outline(record: &Record) -> RecordOutline {
    RecordOutline {
        position: record.position,
        at: record.at,
        thread: record.thread,
        kind: record.kind.text().to_owned(),
        event_id: record.event,
        bytes: record.body.text().len(),
    }
}

/// Returns since when a thread waits so, if the newest records say it.
fn since(waits_for: &WaitsFor, thread: u32, newest: &[Record]) -> Option<Micros> {
    let begins: &[Kind] = match waits_for {
        WaitsFor::Nothing => &[Kind::ThreadTerminated, Kind::SessionTerminated],
        WaitsFor::Operator { parked_at, .. } => return Some(*parked_at),
        WaitsFor::Input | WaitsFor::Answers { .. } => &[Kind::ThreadIdle, Kind::Created],
        WaitsFor::Brain { .. } => &[Kind::Claimed],
        WaitsFor::Timer { .. } => &[Kind::Released],
        WaitsFor::AnyBrain => &[
            Kind::Released,
            Kind::ArrivedMessage,
            Kind::ArrivedInterrupt,
            Kind::UserToolConfirmation,
            Kind::UserCustomToolResult,
        ],
    };
    let begins = |record: &&Record| record.thread == thread && begins.contains(&record.kind);
    newest.iter().find(begins).map(|record| record.at)
}
