//! Wakes threads that have work and no brain, and tidies what lies around.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use outlast_protocol::id::{IncarnationId, SessionId};
use outlast_session::{Answer, Claim, Proposal, State, Thread};
use outlast_store::{Outcome, ReadError, Ready};
use tokio::time::sleep;

use crate::{
    checkpoint, files, hand::Rest, kernel::Inner, metric_definitions as metrics, past, repositories,
};

/// How often the store is asked even if nobody said that there is work.
const POLL: Duration = Duration::from_secs(1);

/// How long to wait after a failure of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// Threads that one look at the store brings, and that are claimed together.
const BATCH: usize = 64;

/// How often hands and deleted sessions are looked through.
const TIDY: Duration = Duration::from_secs(5);

/// How many of those looks pass between two at everything that is on this node.
const SURVEY: u32 = 12;

/// How many of them pass between two at all tokens of repositories.
const TOKENS: u32 = 720;

/// How long receipts are kept: as long as an `Idempotency-Key` answers.
const RECEIPTS: Duration = past::LONGEST;

/// Rows of deleted sessions that go at once.
const CHUNK: usize = 500;

/// Claims threads that are ready, as far as slots are free, until the kernel closes.
pub(crate) async fn wake(inner: Arc<Inner>) {
    while !inner.closing.is_cancelled() {
        // Register before looking: work that appears in between is not missed.
        let told = inner.wake.notified();
        let found = round(&inner).await;
        let wait = async {
            if !found {
                let delay = delay(&inner).await;
                tokio::select! {
                    biased;
                    () = told => {}
                    () = sleep(delay) => {}
                }
            }
        };
        tokio::select! {
            biased;
            () = wait => {}
            () = inner.closing.cancelled() => {}
        }
    }
}

/// Looks once; tells whether there may be more.
async fn round(inner: &Arc<Inner>) -> bool {
    let free = inner.slots.available_permits().min(BATCH);
    let seen = inner.crowd.look();
    if free == 0 {
        // A slot that comes free is followed by an append, which wakes this task.
        return false;
    }
    // Suspects that wait for their turn stand in nobody's way.
    let most = free + inner.quarantine.waiting();
    let ready = match inner.store.ready(inner.clock.now(), most).await {
        Ok(ready) => ready,
        Err(fault) => {
            tracing::error!(%fault, "cannot look for sessions with work: {fault}");
            sleep(PAUSE).await;
            return false;
        }
    };
    let full = ready.len() == most;
    inner.quarantine.seen(&ready);
    let may = |thread: &Ready| !inner.quarantine.must_wait(thread);
    let claims = ready.into_iter().filter(may);
    // Together: one after another, the last would wait for as many syncs, behind the turns of the first.
    let won = join_all(claims.map(|thread| claim(inner, thread))).await;
    if !full {
        inner.crowd.served(seen);
    }
    full && won.contains(&true)
}

/// How a thread is claimed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// Beside others.
    Usual,
    /// As the only suspect of this process.
    Alone,
    /// To go on with what was given up.
    Revive,
}

/// Claims one thread; tells whether that put a brain on it.
pub(crate) async fn claim(inner: &Arc<Inner>, ready: Ready) -> bool {
    let answer = match append(inner, ready, Manner::Usual).await {
        Some(outcome) => outcome.answer,
        None => return false,
    };
    match answer {
        Answer::Appended => true,
        Answer::Suspect => claim_alone(inner, ready).await,
        Answer::Repeated { .. }
        | Answer::InputArrived
        | Answer::Interrupted
        | Answer::AlreadySettled
        | Answer::LimitReached
        | Answer::Changed
        | Answer::Parked
        | Answer::Nothing => false,
    }
}

/// Claims a suspect, unless this process works on another one.
async fn claim_alone(inner: &Arc<Inner>, ready: Ready) -> bool {
    let Some(alone) = inner.quarantine.enter(&ready) else {
        return false;
    };
    let Some(outcome) = append(inner, ready, Manner::Alone).await else {
        return false;
    };
    let claimed = outcome.answer == Answer::Appended;
    if claimed {
        tracing::warn!(
            session.id = %ready.session,
            "`{}` comes to nothing again and again: it is worked on alone", ready.session
        );
        alone.hold(inner, &outcome.state, ready.thread);
    }
    claimed
}

/// Has a parked thread go on; tells whether that put a brain on it.
pub(crate) async fn revive(inner: &Arc<Inner>, session: SessionId, thread: u32) -> bool {
    let dead = None;
    let ready = Ready {
        session,
        thread,
        dead,
    };
    let outcome = append(inner, ready, Manner::Revive).await;
    outcome.is_some_and(|outcome| outcome.answer == Answer::Appended)
}

/// Proposes a claim, if a slot is free.
async fn append(inner: &Arc<Inner>, ready: Ready, manner: Manner) -> Option<Outcome> {
    let (permit, claim) = inner.reserve()?;
    let Ready {
        session,
        thread,
        dead,
    } = ready;
    let claim = Claim { dead, ..claim };
    let proposal = match manner {
        Manner::Usual => Proposal::Claim { thread, claim },
        Manner::Alone => Proposal::ClaimAlone { thread, claim },
        Manner::Revive => Proposal::Revive { thread, claim },
    };
    let handle = inner.append(session, proposal, None, Some(permit));
    match handle.await {
        Ok(Ok(outcome)) => {
            if outcome.answer == Answer::Parked {
                ::metrics::counter!(metrics::PARKED).increment(1);
                tracing::error!(session.id = %session, "no brain gets on with `{session}`: it is parked");
            }
            Some(outcome)
        }
        Ok(Err(fault)) => {
            tracing::warn!(session.id = %session, "cannot claim `{session}`: {fault}");
            sleep(PAUSE).await;
            None
        }
        Err(fault) => {
            tracing::error!("a claim died: {fault}");
            None
        }
    }
}

/// Takes up a thread that this process may have claimed without hearing of it.
///
/// An append that failed may have reached the log all the same. A lease of a process that lives
/// is nobody else's to take, so without this the thread would wait for ever.
pub(crate) async fn recover(inner: Arc<Inner>, session: SessionId) {
    while !inner.closing.is_cancelled() {
        sleep(PAUSE).await;
        let state = match inner.store.head(session).await {
            Ok(state) => state,
            Err(ReadError::NotFound(_)) => return,
            Err(ReadError::Unreadable(_) | ReadError::Overloaded | ReadError::Unavailable(_)) => {
                continue;
            }
        };
        let Some(thread) = orphan(&inner, &state) else {
            return;
        };
        let ready = Ready {
            session,
            thread,
            dead: Some(inner.life.process()),
        };
        if claim(&inner, ready).await {
            return;
        }
    }
}

/// Returns a thread that stands as held by this process while no brain of it knows.
fn orphan(inner: &Inner, state: &State) -> Option<u32> {
    let process = inner.life.process();
    let lost = |(number, thread): &(u32, &Thread)| {
        let ours = thread
            .lease
            .as_ref()
            .is_some_and(|lease| lease.process == process);
        ours && !inner.leases.has(state.id, *number, thread.epoch)
    };
    (0_u32..)
        .zip(&state.threads)
        .find(lost)
        .map(|(number, _)| number)
}

/// Returns how long nothing is expected to become ready.
async fn delay(inner: &Arc<Inner>) -> Duration {
    if inner.slots.available_permits() == 0 {
        // Nothing can be claimed then either; the store is spared the question.
        return POLL;
    }
    let now = inner.clock.now();
    match inner.store.next_ready(now).await {
        Ok(Some(at)) => at.since(now).clamp(Duration::from_millis(1), POLL),
        Ok(None) | Err(_) => POLL,
    }
}

/// Drops receipts that answer nobody any more.
async fn sweep(inner: &Inner) {
    let before = inner.ago(RECEIPTS);
    if let Err(fault) = inner.store.sweep_receipts(before).await {
        tracing::warn!(%fault, "cannot drop old receipts: {fault}");
    }
}

/// Looks through what is on this node: hands that live are noted, and what no session names goes.
///
/// Listed first: whatever is there was named before. Returns what is named, and by whom; nothing if
/// there is no answer.
async fn survey(inner: &Arc<Inner>) -> Option<BTreeMap<IncarnationId, SessionId>> {
    let looked = inner.hands.heard(async {
        let listed = inner.hands.list().await;
        inner.hands.notice(&listed, inner.clock.now()).await;
        listed
    });
    let mut listed = looked.await.ok()?;
    let named = match inner.store.named(&listed).await {
        Ok(named) => {
            let named: BTreeMap<_, _> = named.into_iter().collect();
            listed.retain(|incarnation| !named.contains_key(incarnation));
            inner.hands.bury(listed).await;
            inner.adopt(&named);
            named
        }
        Err(fault) => {
            tracing::warn!(%fault, "cannot look for hands that nobody names: {fault}");
            BTreeMap::new()
        }
    };
    Some(named)
}

/// Lets unused hands go, drops old receipts and rows of deleted sessions, until the kernel closes.
pub(crate) async fn tidy(inner: Arc<Inner>) {
    let mut noticed = false;
    for round in 0_u32.. {
        if round % SURVEY == 0 {
            let named = tokio::select! {
                biased;
                named = survey(&inner) => named,
                () = inner.closing.cancelled() => return,
            };
            // What the processes before this one left; this one knows what it did itself.
            if let Some(named) = named.filter(|_| !noticed) {
                noticed = true;
                inner.tasks.spawn(checkpoint::notice(inner.clone(), named));
            }
        }
        tokio::select! {
            biased;
            () = sleep(TIDY) => {}
            () = inner.closing.cancelled() => return,
        }
        let schedule = inner.options.checkpoints;
        let may = |incarnation| inner.checkpoints.may_rest(incarnation, schedule);
        let rest = Rest {
            idle: inner.options.hand_idle,
            age: inner.options.hand_age,
            most: inner.options.hands,
        };
        inner.hands.rest(rest, may).await;
        sweep(&inner).await;
        files::tidy(&inner).await;
        if round % TOKENS == 0 {
            repositories::tidy(&inner).await;
        }
        while matches!(inner.store.purge(CHUNK).await, Ok(gone) if gone > 0) {
            if inner.closing.is_cancelled() {
                return;
            }
        }
    }
}
