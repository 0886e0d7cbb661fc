//! Every boundary of a turn: a process dies exactly there, the next one goes on, and the log comes out as
//! if nothing had happened.

use std::time::Duration;

use outlast_protocol::id::SessionId;
use outlast_session::{Fact, Kind, Proposal, Record, State, Step, body};
use outlast_store::verify;
use outlast_testkit::faulty::Fault;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    crash::asked,
    lives::{Life, World, told},
};

/// How long a row may take, by a clock that costs nothing.
const PATIENCE: Duration = Duration::from_secs(600);

/// One boundary.
struct Row {
    name: &'static str,
    acts: &'static [Act],
    dies: Dies,
}

/// What a client does, and when.
#[derive(Clone, Copy)]
struct Act {
    when: When,
    does: fn(&State) -> Value,
}

/// When a client acts.
#[derive(Clone, Copy)]
enum When {
    /// Once the session waits for it.
    Idle,
    /// Once a record of this kind stands in the log.
    Seen(Kind),
}

/// Where the first process ends.
#[derive(Clone, Copy)]
enum Dies {
    /// Before its n-th append of this kind, from 1.
    Before(fn(&Proposal) -> bool, u32),
    /// Behind it, without hearing of it.
    Behind(fn(&Proposal) -> bool, u32),
    /// So many milliseconds after the first record of this kind.
    Later(Kind, u64),
}

fn message(text: &str) -> Value {
    json!([{"type": "user.message", "content": [{"type": "text", "text": text}]}])
}

fn script(steps: &Value) -> Value {
    message(&json!({ "script": steps }).to_string())
}

/// A call, and a response that is streamed.
fn works(_: &State) -> Value {
    script(&json!([
        {"thinking": "hm", "text": "I look.",
            "calls": [{"name": "bash", "input": {"command": "c", "wait_ms": 40}}]},
        {"content": [{"text": "It says "}, {"pause_ms": 400}, {"text": "{{results}}"}]},
    ]))
}

/// A call that a client has to allow.
fn asks_leave(_: &State) -> Value {
    script(
        &json!([{"calls": [{"name": "write", "input": {"file_path": "x", "content": "y"}}]},
        {"text": "{{results}}"}]),
    )
}

/// A call that a client has to answer.
fn asks_client(_: &State) -> Value {
    script(
        &json!([{"calls": [{"name": "ask_client", "input": {"question": "?"}}]},
        {"text": "{{results}}"}]),
    )
}

/// One of each.
fn asks_both(_: &State) -> Value {
    script(&json!([{"calls": [
        {"name": "write", "input": {"file_path": "x", "content": "y"}},
        {"name": "ask_client", "input": {"question": "?"}},
    ]}, {"text": "{{results}}"}]))
}

/// A request that fails once.
fn fails(_: &State) -> Value {
    script(&json!([{"text": "At last.", "error": {"status": 529, "times": 1}}]))
}

fn allow(state: &State) -> Value {
    json!([{"type": "user.tool_confirmation", "tool_use_id": asked(state)[0], "result": "allow"}])
}

fn deny(state: &State) -> Value {
    json!([{"type": "user.tool_confirmation", "tool_use_id": asked(state)[0], "result": "deny",
        "deny_message": "no"}])
}

fn answer(state: &State) -> Value {
    json!([{"type": "user.custom_tool_result", "custom_tool_use_id": asked(state)[0],
        "content": [{"type": "text", "text": "so it is"}]}])
}

fn interrupt(_: &State) -> Value {
    json!([{"type": "user.interrupt"}])
}

fn more(_: &State) -> Value {
    message("and more")
}

const fn idle(does: fn(&State) -> Value) -> Act {
    let when = When::Idle;
    Act { when, does }
}

const fn seen(kind: Kind, does: fn(&State) -> Value) -> Act {
    let when = When::Seen(kind);
    Act { when, does }
}

/// Makes a test of a brain's step or a kernel's fact.
macro_rules! the {
    ($step:pat) => {
        |proposal| matches!(proposal, Proposal::Brain { step: $step, .. })
    };
    (fact $fact:pat) => {
        |proposal| matches!(proposal, Proposal::Keyed { fact: $fact, .. })
    };
}

/// Every boundary; a new kind of step or wait gets a row.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { name: "input queued", acts: &[idle(works)],
        dies: Dies::Before(the!(Step::TakeIn { .. }), 1) },
    Row { name: "input taken in", acts: &[idle(works)],
        dies: Dies::Behind(the!(Step::TakeIn { .. }), 1) },
    Row { name: "request about to be recorded", acts: &[idle(works)],
        dies: Dies::Before(the!(fact Fact::RequestStarted), 1) },
    Row { name: "request open", acts: &[idle(works)],
        dies: Dies::Behind(the!(fact Fact::RequestStarted), 1) },
    Row { name: "response half streamed", acts: &[idle(works)],
        dies: Dies::Later(Kind::AgentToolResult, 200) },
    Row { name: "end of the request told", acts: &[idle(works)],
        dies: Dies::Behind(the!(fact Fact::RequestEnded(_)), 1) },
    Row { name: "response about to be stored", acts: &[idle(works)],
        dies: Dies::Before(the!(Step::Respond(_)), 1) },
    Row { name: "response with a call stored", acts: &[idle(works)],
        dies: Dies::Behind(the!(Step::Respond(_)), 1) },
    Row { name: "hand wanted", acts: &[idle(works)],
        dies: Dies::Behind(the!(fact Fact::HandWanted(_)), 1) },
    Row { name: "call about to be intended", acts: &[idle(works)],
        dies: Dies::Before(the!(fact Fact::Intended(_)), 1) },
    Row { name: "call intended", acts: &[idle(works)],
        dies: Dies::Behind(the!(fact Fact::Intended(_)), 1) },
    Row { name: "call running", acts: &[idle(works)],
        dies: Dies::Later(Kind::Intended, 20) },
    Row { name: "call over, not settled", acts: &[idle(works)],
        dies: Dies::Before(the!(fact Fact::Settled(..)), 1) },
    Row { name: "call settled", acts: &[idle(works)],
        dies: Dies::Behind(the!(fact Fact::Settled(..)), 1) },
    Row { name: "last response stored", acts: &[idle(works)],
        dies: Dies::Behind(the!(Step::Respond(_)), 2) },
    Row { name: "turn about to end", acts: &[idle(works)],
        dies: Dies::Before(the!(Step::EndTurn(_)), 1) },
    Row { name: "status events of the end told", acts: &[idle(works), idle(more)],
        dies: Dies::Behind(the!(Step::EndTurn(_)), 1) },
    Row { name: "confirmation about to be asked for", acts: &[idle(asks_leave), idle(allow)],
        dies: Dies::Before(the!(Step::EndTurn(_)), 1) },
    Row { name: "confirmation pending", acts: &[idle(asks_leave), idle(allow)],
        dies: Dies::Behind(the!(Step::EndTurn(_)), 1) },
    Row { name: "confirmation given", acts: &[idle(asks_leave), idle(allow)],
        dies: Dies::Before(the!(fact Fact::Intended(_)), 1) },
    Row { name: "denial given", acts: &[idle(asks_leave), idle(deny)],
        dies: Dies::Before(the!(fact Fact::RequestStarted), 2) },
    Row { name: "custom result pending", acts: &[idle(asks_client), idle(answer)],
        dies: Dies::Behind(the!(Step::EndTurn(_)), 1) },
    Row { name: "custom result given", acts: &[idle(asks_client), idle(answer)],
        dies: Dies::Before(the!(fact Fact::RequestStarted), 2) },
    Row { name: "partial answer: the call of two that is left", acts: &[idle(asks_both), idle(allow), idle(answer)],
        dies: Dies::Later(Kind::UserToolConfirmation, 1) },
    Row { name: "both answered", acts: &[idle(asks_both), idle(allow), idle(answer)],
        dies: Dies::Before(the!(fact Fact::Intended(_)), 1) },
    Row { name: "interrupt pending in a response", acts: &[idle(works), seen(Kind::AgentToolResult, interrupt), idle(more)],
        dies: Dies::Before(the!(Step::Interrupt), 1) },
    Row { name: "interrupt pending in a call", acts: &[idle(works), seen(Kind::Intended, interrupt), idle(more)],
        dies: Dies::Before(the!(Step::Interrupt), 1) },
    Row { name: "interrupt taken in", acts: &[idle(works), seen(Kind::AgentToolResult, interrupt), idle(more)],
        dies: Dies::Behind(the!(Step::Interrupt), 1) },
    Row { name: "retry timer set", acts: &[idle(fails)],
        dies: Dies::Behind(the!(Step::Fail(_)), 1) },
    Row { name: "retry timer running", acts: &[idle(fails)],
        dies: Dies::Later(Kind::SessionRescheduled, 300) },
    Row { name: "message queued in a turn", acts: &[idle(works), seen(Kind::Intended, more)],
        dies: Dies::Before(the!(Step::TakeIn { .. }), 2) },
];

/// One run of a row's acts, with processes as they come.
struct Run<'a> {
    world: &'a World,
    life: Life,
    session: SessionId,
    /// Where the first process ends, if by time.
    later: Option<(Kind, u64)>,
    lives: u32,
}

impl Run<'_> {
    /// Waits until a condition holds, starting a process where one has died.
    async fn until(&mut self, holds: impl Fn(&State, &[Record]) -> bool) -> State {
        let waiting = async {
            loop {
                let records = self.world.log(self.session).await;
                self.die(&records).await;
                let state = self.life.kernel.state(self.session).await.unwrap();
                if !self.life.is_dead() && holds(&state, &records) {
                    return State::clone(&state);
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("it comes")
    }

    /// Ends the first process where its time has come, and starts the next one.
    async fn die(&mut self, records: &[Record]) {
        if let Some((kind, wait)) = self.later
            && records.iter().any(|record| record.kind == kind)
        {
            self.later = None;
            sleep(Duration::from_millis(wait)).await;
            self.life.kill();
        }
        if self.life.is_dead() {
            self.life = self.world.start(None).await;
            self.lives += 1;
        }
    }

    async fn act(&mut self, act: Act) {
        let state = match act.when {
            When::Idle => self.until(|state, _| rests(state)).await,
            When::Seen(kind) => {
                let has = move |_: &State, log: &[Record]| log.iter().any(|one| one.kind == kind);
                self.until(has).await
            }
        };
        self.life.send(self.session, &(act.does)(&state)).await;
    }
}

/// Tells whether a session waits for its client.
fn rests(state: &State) -> bool {
    let idle = state.shown() == outlast_session::Status::Idle;
    idle && state.threads[0].lease.is_none()
}

/// Runs the acts of a row; returns the log, and how many processes it took.
async fn run(row: &Row, dies: Option<Dies>) -> (Vec<Record>, u32) {
    let world = World::new(7).await;
    let (mut left, later) = match dies {
        Some(Dies::Before(which, nth)) => (Some((which, nth, Fault::Dead)), None),
        Some(Dies::Behind(which, nth)) => (Some((which, nth, Fault::Unheard)), None),
        Some(Dies::Later(kind, wait)) => (None, Some((kind, wait))),
        None => (None, None),
    };
    let life = world
        .start_cursed(move |_, proposal| {
            let (which, left, fault) = left.as_mut()?;
            *left -= u32::from(which(proposal));
            (*left == 0).then_some(*fault)
        })
        .await;
    let session = world.session(&life).await;
    let mut run = Run {
        world: &world,
        life,
        session,
        later,
        lives: 1,
    };
    for act in row.acts {
        run.act(*act).await;
    }
    run.until(|state, _| rests(state)).await;
    let lives = run.lives;
    let log = world.log(session).await;
    check(row.name, &world, session, &log);
    (log, lives)
}

/// What must be the same: all that clients see but ids and times, and what was done, once.
fn essence(records: &[Record]) -> Vec<String> {
    // Claims, spans and usage are those of whoever came.
    let own = [Kind::Claimed, Kind::Released, Kind::RequestEnded];
    let private = records.iter().filter(|one| !one.kind.is_public());
    let done = private.filter(|one| !own.contains(&one.kind)).map(|one| {
        let outcome = match serde_json::from_str::<body::Settled>(one.body.text()) {
            Ok(settled) => format!(" {:?}", settled.outcome),
            Err(_) => String::new(),
        };
        format!("{}{outcome}", one.kind)
    });
    told(records).into_iter().chain(done).collect()
}

/// Checks what must hold of every log.
fn check(name: &str, world: &World, session: SessionId, records: &[Record]) {
    verify(session, records).unwrap_or_else(|broken| panic!("{name}: {broken:?}"));
    let count = |kind| records.iter().filter(|record| record.kind == kind).count();
    assert_eq!(count(Kind::RequestStart), count(Kind::RequestEnd), "{name}");
    for call in records.iter().filter(|one| one.kind == Kind::AgentToolUse) {
        let runs = world.hands.executions(call.event.unwrap());
        assert!(runs <= 1, "{name}: a call ran {runs} times");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_at_any_boundary_leaves_no_trace_in_what_was_done() {
    for row in ROWS {
        let name = row.name;
        let (undisturbed, lives) = run(row, None).await;
        assert_eq!(lives, 1, "{name}: nothing was to die");
        let (disturbed, lives) = run(row, Some(row.dies)).await;
        assert_eq!(lives, 2, "{name}: the process did not die there");
        assert_eq!(essence(&undisturbed), essence(&disturbed), "{name}");
    }
}
