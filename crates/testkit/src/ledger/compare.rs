//! What must hold after every append, of the state and of the log beside it.

use outlast_session::{Kind, State, Status, Thread, Waker};

use super::Ledger;

/// Compares a state with the ledger of the same log.
///
/// # Panics
///
/// If they differ, or if nobody goes on with what is unfinished.
pub fn compare(ledger: &Ledger, state: &State) {
    reads_back(state);
    if ledger.deleted {
        assert_eq!(state.ready_at(0), None, "a deleted session wants a brain");
        return;
    }
    let thread = state.thread(0).unwrap();
    statuses(ledger, state, thread);
    waker(ledger, thread);
    inputs(ledger, state);
    calls(ledger, thread);
    deadline(ledger, state, thread);
    assert_eq!(state.usage.tokens.input, ledger.input);
    assert_eq!(thread.usage.tokens.input, ledger.input);
}

/// Nothing runs out of what is over, and an idle session's rest is that of its last record of it.
fn deadline(ledger: &Ledger, state: &State, thread: &Thread) {
    if ledger.ended {
        assert_eq!(state.next_deadline(), None);
    }
    assert_eq!(state.idle_since.is_some(), state.status == Status::Idle);
    if thread.asked_since.is_some() {
        assert_eq!(thread.status, Status::Idle);
    }
    if thread.is_blocked() {
        assert!(
            thread.asked_since.is_some(),
            "nobody knows since when a client is asked"
        );
    }
}

/// The state can be stored and taken up again; the configuration is stored apart.
fn reads_back(state: &State) {
    let text = serde_json::to_string(state).unwrap();
    let mut back: State = serde_json::from_str(&text).unwrap();
    back.config.clone_from(&state.config);
    assert_eq!(&back, state);
}

fn statuses(ledger: &Ledger, state: &State, thread: &Thread) {
    assert_eq!(state.status, ledger.session.unwrap_or(Status::Idle));
    assert_eq!(thread.status, ledger.thread.unwrap_or(Status::Idle));
    if thread.has_work() {
        assert!(matches!(
            state.shown(),
            Status::Running | Status::Rescheduling
        ));
    } else {
        assert_ne!(state.shown(), Status::Running, "runs without work");
        assert_ne!(state.shown(), Status::Rescheduling, "waits without work");
    }
}

/// Invariant 6: whatever is unfinished has somebody who goes on with it.
fn waker(ledger: &Ledger, thread: &Thread) {
    assert_eq!(thread.lease.is_some(), ledger.leased);
    assert!(!ledger.leased || thread.has_work(), "a lease without work");
    assert_eq!(
        ledger.orphan, None,
        "a new brain keeps the request of a dead one open"
    );
    let asked: Vec<_> = ledger.asked().collect();
    match thread.waker() {
        Waker::Ended => assert!(ledger.ended),
        Waker::Input => {
            assert!(ledger.waiting.is_empty(), "an input waits for nobody");
            assert!(asked.is_empty() && ledger.span.is_none());
            assert_eq!(thread.status, Status::Idle);
            ledger.all_told();
        }
        Waker::Parked => {
            assert!(ledger.waiting.is_empty() && asked.is_empty() && ledger.span.is_none());
            assert_eq!((thread.status, thread.turn), (Status::Idle, None));
            ledger.all_told();
        }
        Waker::Answers(ids) => {
            assert_eq!(ids, asked);
            assert_eq!(ids, ledger.named, "clients were told of other calls");
            assert!(!ids.is_empty());
            assert_eq!(
                thread.status,
                Status::Idle,
                "nobody was told what is waited for"
            );
        }
        Waker::Lease(_) => assert!(ledger.leased),
        Waker::Timer(_) => assert_eq!(thread.status, Status::Rescheduling),
        Waker::Brain => assert!(thread.has_work()),
    }
}

fn inputs(ledger: &Ledger, state: &State) {
    let stops = ledger
        .waiting
        .iter()
        .any(|(_, kind)| *kind == Kind::UserInterrupt);
    assert!(
        !stops || ledger.leased || ledger.ended,
        "an interrupt waits for nobody"
    );
    assert!(
        !ledger.stranded,
        "a turn ended, and an input that waits began none"
    );
    let rests = state.shown() == Status::Idle && ledger.asked().next().is_none();
    assert!(
        !rests || ledger.waiting.is_empty(),
        "idle with an input that could be taken in"
    );
}

fn calls(ledger: &Ledger, thread: &Thread) {
    let asked: Vec<_> = thread.asked().map(|call| call.id).collect();
    let told: Vec<_> = ledger.asked().collect();
    assert_eq!(asked, told);
    assert!(!ledger.resting, "a session at rest tells results");
    if thread.turn.is_none() {
        ledger.all_told();
        assert_eq!(ledger.span, None, "a span without an end");
    }
}
