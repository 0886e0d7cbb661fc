//! Processes on nodes of their own: one that does not beat is declared dead and others go on; one that
//! does not know whether it lives begins nothing.

use std::time::Duration;

use outlast_hands::fake::Fakes;
use outlast_kernel::{Beater, Beats};
use outlast_protocol::id::{ProcessId, SessionId};
use outlast_session::{Kind, Record, body};
use outlast_store::{Resources as _, verify};
use outlast_testkit::faulty::Fault;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::lives::{Node, World, told};

/// How long a beat may stand still.
const T: Duration = Duration::from_secs(12);

/// How long it may take from there until another has noticed.
const NOTICE: Duration = Duration::from_secs(6);

const BEATS: Beats = Beats {
    bound: T,
    by: Beater::Task,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Makes a message that is nothing but a script.
fn script(steps: &Value) -> Value {
    let text = json!({ "script": steps }).to_string();
    json!([{"type": "user.message", "content": [{"type": "text", "text": text}]}])
}

/// A turn that asks the model, which takes its time, and then is over.
fn slow(ms: u64) -> Value {
    script(&json!([{"content": [{"text": "a"}, {"pause_ms": ms}, {"text": "z"}]}]))
}

/// A turn with a call that takes its time.
fn call(ms: u64) -> Value {
    script(&json!([
        {"calls": [{"name": "bash", "input": {"command": "c", "wait_ms": ms}}]},
        {"text": "{{results}}"},
    ]))
}

impl Node {
    /// Ends it as SIGKILL would: it says nothing more, and its hands are on a node of their own.
    fn kill(&self) {
        self.store.silence(true);
        self.store.hook(|_, _, _| Fault::Dead);
    }

    /// Cuts it off from the store, or lets it through again.
    fn cut(&self, off: bool) {
        self.store.silence(off);
        let fault = if off { Fault::Before } else { Fault::None };
        self.store.hook(move |_, _, _| fault);
    }

    /// Returns the id that its process has now.
    async fn process(&self) -> ProcessId {
        let known = self.life.kernel.diagnose_server().await.unwrap();
        known.process_id
    }

    async fn begin(&self, world: &World, events: &Value) -> SessionId {
        let session = world.session(&self.life).await;
        self.life.send(session, events).await;
        sleep(seconds(1)).await;
        session
    }
}

/// Returns who claimed, in order.
fn claims(records: &[Record]) -> Vec<ProcessId> {
    let claims = records.iter().filter(|one| one.kind == Kind::Claimed);
    let read = |one: &Record| serde_json::from_str::<body::Claimed>(one.body.text()).unwrap();
    claims.map(|one| read(one).process).collect()
}

fn count(records: &[Record], kind: Kind) -> usize {
    records.iter().filter(|one| one.kind == kind).count()
}

/// Reads a log and checks what must hold of it, however many worked on it.
async fn checked(world: &World, session: SessionId, hands: &[&Fakes]) -> Vec<Record> {
    let records = world.log(session).await;
    verify(session, &records).unwrap();
    for call in records.iter().filter(|one| one.kind == Kind::AgentToolUse) {
        let call = call.event.unwrap();
        let runs: usize = hands.iter().map(|hands| hands.executions(call)).sum();
        assert!(runs <= 1, "call {call} ran {runs} times");
    }
    let (started, ended) = (Kind::RequestStart, Kind::RequestEnd);
    assert_eq!(count(&records, started), count(&records, ended));
    assert_eq!(
        count(&records, Kind::AgentToolUse),
        count(&records, Kind::AgentToolResult)
    );
    assert_eq!(
        count(&records, Kind::SessionError),
        0,
        "{:#?}",
        told(&records)
    );
    records
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_beat_is_declared_dead_and_another_goes_on() {
    let world = World::new(7).await;
    let (first, second) = (
        world.start_beside("a", BEATS).await,
        world.start_beside("b", BEATS).await,
    );
    let session = first.begin(&world, &call(3_600_000)).await;
    let killed = Instant::now();
    let (dead, alive) = (first.process().await, second.process().await);
    first.kill();
    assert!(second.life.rests(session).await);
    let took = killed.elapsed();
    assert!(
        took >= T - seconds(2) && took < T + NOTICE,
        "after {took:?}"
    );
    let records = checked(&world, session, &[&first.hands, &second.hands]).await;
    assert_eq!(claims(&records), [dead, alive]);
    let lines = told(&records);
    assert!(
        lines
            .iter()
            .any(|line| line.contains("the call may have run")),
        "{lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn processes_that_beat_are_left_alone() {
    let world = World::new(7).await;
    let (first, second) = (
        world.start_beside("a", BEATS).await,
        world.start_beside("b", BEATS).await,
    );
    let session = first.begin(&world, &slow(300_000)).await;
    // Starts on a node of its own are no business of others.
    let third = world.start_beside("c", BEATS).await;
    assert!(second.life.rests(session).await);
    let records = checked(&world, session, &[]).await;
    assert_eq!(claims(&records), [first.process().await]);
    let known = world.memory.processes().await.unwrap();
    assert!(
        known.len() == 3 && known.iter().all(|one| !one.dead),
        "{known:?}"
    );
    drop(third);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_cut_off_stops_and_comes_back_as_another() {
    let world = World::new(7).await;
    let (first, second) = (
        world.start_beside("a", BEATS).await,
        world.start_beside("b", BEATS).await,
    );
    let session = first.begin(&world, &slow(40_000)).await;
    assert_eq!(world.model.seen(), (1, 1));
    let (was, other) = (first.process().await, second.process().await);
    first.cut(true);
    sleep(T / 2 + seconds(2)).await;
    assert_eq!(
        world.model.seen(),
        (1, 0),
        "its request is dropped before others take over"
    );
    assert!(second.life.rests(session).await);
    assert_eq!(world.model.seen(), (2, 0));
    first.cut(false);
    sleep(seconds(5)).await;
    let is = first.process().await;
    assert_ne!(is, was, "who was declared dead stays dead");
    let records = checked(&world, session, &[]).await;
    assert_eq!(claims(&records), [was, other]);
    // It works again.
    let session = first.begin(&world, &slow(1)).await;
    assert!(first.life.rests(session).await);
    assert_eq!(claims(&checked(&world, session, &[]).await), [is]);
}

#[tokio::test(start_paused = true)]
async fn a_short_silence_costs_a_request_and_no_lease() {
    let world = World::new(7).await;
    let (first, second) = (
        world.start_beside("a", BEATS).await,
        world.start_beside("b", BEATS).await,
    );
    let session = first.begin(&world, &slow(20_000)).await;
    let other = first.begin(&world, &call(20_000)).await;
    first.cut(true);
    sleep(T / 2 + seconds(2)).await;
    assert_eq!(world.model.seen(), (2, 0));
    first.cut(false);
    for session in [session, other] {
        assert!(second.life.rests(session).await);
        let records = checked(&world, session, &[&first.hands, &second.hands]).await;
        assert_eq!(claims(&records), [first.process().await]);
    }
    // Asked again, and the call's own answer was neither lost nor doubled.
    assert_eq!(world.model.seen(), (4, 0));
    let lines = told(&world.log(other).await);
    assert!(
        lines
            .iter()
            .any(|line| line.contains("agent.tool_result") && line.contains("bash {"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_unsure_process_begins_nothing_and_accepts_for_others() {
    let world = World::new(7).await;
    let (first, second) = (
        world.start_beside("a", BEATS).await,
        world.start_beside("b", BEATS).await,
    );
    first.store.silence(true);
    sleep(T / 2 + seconds(1)).await;
    let session = first.begin(&world, &slow(1)).await;
    assert!(second.life.rests(session).await);
    let records = checked(&world, session, &[]).await;
    assert_eq!(claims(&records), [second.process().await]);
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_on_under_the_next_life_of_its_process() {
    let world = World::new(7).await;
    let node = world.start_beside("a", BEATS).await;
    let session = node.begin(&world, &call(60_000)).await;
    let was = node.process().await;
    world.memory.declare_dead(was).await.unwrap();
    assert!(node.life.rests(session).await);
    let records = checked(&world, session, &[&node.hands]).await;
    assert_eq!(claims(&records), [was, node.process().await]);
    let lines = told(&records);
    assert!(
        lines
            .iter()
            .any(|line| line.contains("agent.tool_result") && line.contains("bash {"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_is_stopped_once_another_node_goes_on_without_it() {
    let world = World::new(7).await;
    let (first, second) = (
        world.start_beside("a", BEATS).await,
        world.start_beside("b", BEATS).await,
    );
    let session = first.begin(&world, &call(3_600_000)).await;
    let used = |records: &[Record]| {
        let used = records.iter().find(|one| one.kind == Kind::AgentToolUse);
        used.unwrap().event.unwrap()
    };
    let call = used(&world.log(session).await);
    assert!(!first.hands.is_settled(call));
    first.store.silence(true);
    assert!(second.life.rests(session).await);
    assert!(!first.hands.is_settled(call), "it cannot know yet");
    first.store.silence(false);
    sleep(seconds(6)).await;
    assert!(first.hands.is_settled(call));
    checked(&world, session, &[&first.hands, &second.hands]).await;
}

/// A claim that was on its way when its process was declared dead is no loss to the client.
#[tokio::test(start_paused = true)]
async fn what_is_sent_to_a_process_that_was_just_declared_dead_is_accepted() {
    let world = World::new(7).await;
    let node = world.start_beside("a", BEATS).await;
    let session = world.session(&node.life).await;
    let was = node.process().await;
    world.memory.declare_dead(was).await.unwrap();
    node.life.send(session, &slow(1)).await;
    assert!(node.life.rests(session).await);
    let claims = claims(&checked(&world, session, &[]).await);
    assert_eq!(claims, [node.process().await]);
    assert_ne!(claims, [was]);
}
