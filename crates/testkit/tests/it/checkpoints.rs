//! Checkpoints as the kernel takes them, with time that is simulated: when, of what, and what comes
//! back when a machine is lost.

use std::time::Duration;

use outlast_blobs::{Blobs as _, Key};
use outlast_kernel::Schedule;
use outlast_protocol::{Micros, id::SessionId};
use outlast_session::{
    Kind, State,
    body::{Checkpointed, Loss},
};
use serde_json::{Value, json};

use crate::lives::{Life, World};

/// At rest after ten seconds, in a turn after a minute.
pub(crate) const USUAL: Schedule = Schedule {
    at_rest: Some(Duration::from_secs(10)),
    within_turns: Some(Duration::from_secs(60)),
};

pub(crate) async fn world(schedule: Schedule) -> (World, Life, SessionId) {
    let mut world = World::new(3).await;
    world.schedule = schedule;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    (world, life, session)
}

pub(crate) fn script(steps: &Value) -> Value {
    let text = json!({ "script": steps }).to_string();
    json!([{"type": "user.message", "content": [{"type": "text", "text": text}]}])
}

/// One call of so long, then an answer.
pub(crate) fn one_call(ms: u64) -> Value {
    let call = json!({"name": "bash", "input": {"command": "c", "wait_ms": ms}});
    script(&json!([{"calls": [call]}, {"text": "{{results}}"}]))
}

/// Has the agent make one call, and waits for the end of the turn.
pub(crate) async fn turn(life: &Life, session: SessionId) {
    let call = json!({"name": "bash", "input": {"command": "c"}});
    let steps = json!([{"calls": [call]}, {"text": "{{results}}"}]);
    life.send(session, &script(&steps)).await;
    assert!(life.rests(session).await);
}

/// Lets time pass.
pub(crate) async fn pass(seconds: u64) {
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

pub(crate) async fn state(life: &Life, session: SessionId) -> std::sync::Arc<State> {
    life.kernel.state(session).await.unwrap()
}

/// The results that the model got, in order.
pub(crate) async fn results(world: &World, session: SessionId) -> Vec<String> {
    let log = world.log(session).await;
    let results = log.iter().filter(|r| r.kind == Kind::AgentToolResult);
    results.map(|r| r.body.text().to_owned()).collect()
}

pub(crate) async fn recorded(world: &World, session: SessionId) -> usize {
    let log = world.log(session).await;
    log.iter().filter(|r| r.kind == Kind::Checkpointed).count()
}

pub(crate) fn keys(world: &World) -> Vec<String> {
    world.blobs.keys().iter().map(Key::to_string).collect()
}

/// Returns the blobs that a log names, in the order of [`keys`].
pub(crate) async fn named(life: &Life, session: SessionId) -> Vec<String> {
    let state = state(life, session).await;
    let named = state.checkpoints.iter();
    let mut named: Vec<_> = named.map(|known| known.taken.blob.clone()).collect();
    named.sort();
    named
}

#[tokio::test(start_paused = true)]
async fn one_is_taken_once_a_session_rests_and_the_newest_two_stay() {
    let (world, life, session) = world(USUAL).await;
    pass(20).await;
    assert_eq!(recorded(&world, session).await, 0, "no hand, no checkpoint");
    turn(&life, session).await;
    pass(5).await;
    assert_eq!(recorded(&world, session).await, 0, "not yet quiet for long");
    pass(10).await;
    let seen = state(&life, session).await;
    let (first, hand) = (seen.checkpoint().cloned().unwrap(), seen.hand.unwrap());
    assert_eq!(first.incarnation, hand.incarnation);
    assert_eq!(keys(&world), [first.blob.as_str()]);
    let bytes = world
        .blobs
        .get(&Key::new(first.blob.as_str()).unwrap())
        .await;
    let workspace = world.hands.workspace(hand.incarnation).unwrap();
    assert_eq!(bytes.unwrap(), workspace.as_bytes());
    pass(400).await;
    assert_eq!(recorded(&world, session).await, 1, "nothing was done since");
    turn(&life, session).await;
    pass(15).await;
    assert_eq!(recorded(&world, session).await, 2);
    let second = state(&life, session).await.checkpoint().cloned().unwrap();
    assert!(second.at > first.at && second.sum.entries == 2);
    assert_eq!(keys(&world).len(), 2);
    assert_eq!(keys(&world), named(&life, session).await);
    turn(&life, session).await;
    pass(15).await;
    assert_eq!(recorded(&world, session).await, 3);
    assert_eq!(keys(&world), named(&life, session).await);
    let third = state(&life, session).await.checkpoint().cloned().unwrap();
    let mut newest = [second.blob, third.blob];
    newest.sort();
    assert_eq!(keys(&world), newest, "the oldest went");
}

#[tokio::test(start_paused = true)]
async fn a_lost_machine_costs_what_came_after_and_the_model_is_told_once() {
    let (world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    pass(15).await;
    let known = state(&life, session).await.checkpoint().cloned().unwrap();
    turn(&life, session).await;
    world.hands.vanish();
    turn(&life, session).await;
    turn(&life, session).await;
    let results = results(&world, session).await;
    let told: Vec<_> = results
        .iter()
        .map(|text| text.contains("is gone"))
        .collect();
    assert_eq!(told, [false, false, true, false], "{results:?}");
    assert!(results[2].contains(&known.at.to_string()), "{}", results[2]);
    let hand = state(&life, session).await.hand.unwrap();
    assert_eq!(hand.loss, None);
    let workspace = world.hands.workspace(hand.incarnation).unwrap();
    assert_eq!(workspace.lines().count(), 3, "the second call is lost");
    pass(15).await;
    let newer = state(&life, session).await.checkpoint().cloned().unwrap();
    assert_eq!(
        (newer.incarnation, newer.sum.entries),
        (hand.incarnation, 3)
    );
    assert_eq!(keys(&world), named(&life, session).await);
}

#[tokio::test(start_paused = true)]
async fn without_a_checkpoint_everything_is_lost_and_that_is_said() {
    let (world, life, session) = world(Schedule::NEVER).await;
    turn(&life, session).await;
    pass(1000).await;
    assert_eq!(recorded(&world, session).await, 0);
    world.hands.vanish();
    turn(&life, session).await;
    let results = results(&world, session).await;
    assert!(results[1].contains("begins with none"), "{results:?}");
    assert!(!results[1].contains("is_error\":true"), "{results:?}");
}

/// Takes so many checkpoints, each after one call; returns them, the newest first.
async fn taken(life: &Life, session: SessionId, count: usize) -> Vec<Checkpointed> {
    for _ in 0..count {
        turn(life, session).await;
        pass(15).await;
    }
    let state = state(life, session).await;
    let known = state.checkpoints.iter();
    known.map(|known| known.taken.clone()).collect()
}

/// What may become of a blob.
#[derive(Clone, Copy, Debug)]
enum Spoilt {
    Gone,
    Other,
    CutOff,
}

async fn spoil(world: &World, checkpoint: &Checkpointed, how: Spoilt) {
    let key = Key::new(checkpoint.blob.as_str()).unwrap();
    let whole = world.blobs.get(&key).await.unwrap();
    let done = match how {
        Spoilt::Gone => world.blobs.delete(&key).await,
        Spoilt::Other => world.blobs.put(&key, "other bytes".into()).await,
        Spoilt::CutOff => world.blobs.put(&key, whole.slice(..whole.len() - 1)).await,
    };
    done.unwrap();
}

/// What the diagnosis says: of which checkpoint, and which one is of no use.
async fn diagnosed(life: &Life, session: SessionId) -> (Option<Micros>, Option<Micros>) {
    let found = life.kernel.diagnose(session).await.unwrap();
    let hand = found.hand.unwrap();
    (hand.checkpoint_at, hand.unreadable_at)
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_gives_way_to_the_one_before() {
    for how in [Spoilt::Gone, Spoilt::Other, Spoilt::CutOff] {
        let (world, life, session) = world(USUAL).await;
        let known = taken(&life, session, 3).await;
        let [newest, before] = known.as_slice() else {
            panic!("not two: {known:?}");
        };
        spoil(&world, newest, how).await;
        world.hands.vanish();
        turn(&life, session).await;
        turn(&life, session).await;
        let results = results(&world, session).await;
        let unread = format!("the checkpoint of {} could not be read", newest.at);
        let told: Vec<_> = results.iter().map(|text| text.contains(&unread)).collect();
        assert_eq!(
            told,
            [false, false, false, true, false],
            "{how:?} {results:?}"
        );
        let since = format!("its files are as they were at {}", before.at);
        assert!(results[3].contains(&since), "{results:?}");
        let seen = diagnosed(&life, session).await;
        assert_eq!(seen, (Some(before.at), Some(newest.at)));
        let found = life.kernel.diagnose(session).await.unwrap();
        let kinds: Vec<_> = found.troubles.iter().map(|one| one.kind.as_str()).collect();
        assert!(kinds.contains(&"checkpoint_unreadable"), "{kinds:?}");
        let hand = state(&life, session).await.hand.unwrap();
        let workspace = world.hands.workspace(hand.incarnation).unwrap();
        assert_eq!(workspace.lines().count(), 4, "two were saved, two came");
        // The next one takes its place, and the one that held stays.
        pass(15).await;
        let after = state(&life, session).await.checkpoint().cloned().unwrap();
        assert_eq!(diagnosed(&life, session).await, (Some(after.at), None));
        let mut stay = [before.blob.clone(), after.blob];
        stay.sort();
        assert_eq!(keys(&world), stay);
    }
}

#[tokio::test(start_paused = true)]
async fn where_none_can_be_read_the_session_goes_on_and_that_is_said() {
    for count in [1, 2] {
        let (world, life, session) = world(USUAL).await;
        let known = taken(&life, session, count).await;
        assert_eq!(known.len(), count);
        for checkpoint in &known {
            spoil(&world, checkpoint, Spoilt::Gone).await;
        }
        world.hands.vanish();
        turn(&life, session).await;
        turn(&life, session).await;
        let results = results(&world, session).await;
        let unread = format!(
            "the checkpoint of {} could not be read, and there is none that can; its files are lost",
            known[0].at
        );
        assert!(results[count].contains(&unread), "{results:?}");
        assert!(results[count].contains("begins with none"), "{results:?}");
        assert!(!results[count + 1].contains("could not be read"));
        assert_eq!(diagnosed(&life, session).await, (None, Some(known[0].at)));
        let hand = state(&life, session).await.hand.unwrap();
        let workspace = world.hands.workspace(hand.incarnation).unwrap();
        assert_eq!(workspace.lines().count(), 2);
        pass(15).await;
        assert_eq!(keys(&world), named(&life, session).await);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_read_is_known_as_such_across_a_restart() {
    let (world, life, session) = world(USUAL).await;
    let known = taken(&life, session, 2).await;
    spoil(&world, &known[0], Spoilt::Other).await;
    world.hands.vanish();
    // The life that has the one before cannot begin yet.
    let before = Key::new(known[1].blob.as_str()).unwrap();
    let whole = world.blobs.get(&before).await.unwrap();
    world.hands.refuse(Some("told to"));
    turn(&life, session).await;
    drop(life);
    world.hands.refuse(None);
    world.hands.vanish();
    let life = world.start(None).await;
    assert_eq!(
        diagnosed(&life, session).await,
        (Some(known[1].at), Some(known[0].at))
    );
    turn(&life, session).await;
    let told = results(&world, session).await;
    let unread = format!("the checkpoint of {} could not be read", known[0].at);
    assert!(told[3].contains(&unread), "{told:?}");
    assert!(told[3].contains(&format!("as they were at {}", known[1].at)));
    assert_eq!(world.blobs.get(&before).await.unwrap(), whole);
}

#[tokio::test(start_paused = true)]
async fn blobs_that_cannot_be_reached_are_told_as_such_and_tried_again() {
    let (world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    pass(15).await;
    world.hands.vanish();
    world.blobs.fail(true);
    turn(&life, session).await;
    let results = results(&world, session).await;
    assert!(
        results[1].contains("no sandbox could be started"),
        "{results:?}"
    );
    let waiting = state(&life, session).await.hand.unwrap();
    assert!(matches!(waiting.loss, Some(Loss::Since(_))));
    world.blobs.fail(false);
    turn(&life, session).await;
    let hand = state(&life, session).await.hand.unwrap();
    assert_eq!(hand.incarnation, waiting.incarnation, "the same life");
    let workspace = world.hands.workspace(hand.incarnation).unwrap();
    assert_eq!(workspace.lines().count(), 2);
    let results = self::results(&world, session).await;
    assert!(results[2].contains("what was written after"), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_and_fail_no_turn() {
    let (world, life, session) = world(USUAL).await;
    world.blobs.fail(true);
    turn(&life, session).await;
    pass(25).await;
    turn(&life, session).await;
    assert_eq!(recorded(&world, session).await, 0);
    world.blobs.fail(false);
    pass(300).await;
    assert_eq!(recorded(&world, session).await, 1);
    let known = state(&life, session).await.checkpoint().cloned().unwrap();
    assert_eq!(known.sum.entries, 2);
}

#[tokio::test(start_paused = true)]
async fn a_long_turn_is_saved_between_its_calls_and_never_in_one() {
    let (world, life, session) = world(USUAL).await;
    let call =
        |ms: u64| json!({"calls": [{"name": "bash", "input": {"command": "c", "wait_ms": ms}}]});
    let steps =
        json!([call(1), call(300_000), call(50_000), call(50_000), call(1), {"text": "end"}]);
    life.send(session, &script(&steps)).await;
    assert!(life.rests(session).await);
    let log = world.log(session).await;
    let taken: Vec<_> = log
        .iter()
        .filter(|r| r.kind == Kind::Checkpointed)
        .collect();
    assert_eq!(taken.len(), 2);
    let entries = |at: usize| {
        let body: Value = serde_json::from_str(taken[at].body.text()).unwrap();
        body["sum"]["entries"].as_u64().unwrap()
    };
    assert_eq!(
        (entries(0), entries(1)),
        (2, 4),
        "after the calls, not in them"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_left_without_a_record_goes_without_looking_for_it() {
    let (world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    pass(15).await;
    let named = keys(&world);
    // A body of the log.
    let body = Key::new(format!("sessions/{session}/00ff")).unwrap();
    world.blobs.put(&body, "{}".into()).await.unwrap();
    // The process dies between blob and record.
    let _never = world.blobs.hold();
    turn(&life, session).await;
    pass(15).await;
    assert_eq!(keys(&world).len(), 3);
    pass(30).await;
    assert_eq!(keys(&world).len(), 3, "whoever stores it lives");
    drop(life);
    world.blobs.hold_no_more();
    let listed = world.blobs.listed();
    let life = world.start(None).await;
    pass(6).await;
    let mut left = named;
    left.push(body.to_string());
    left.sort();
    assert_eq!(keys(&world), left);
    assert_eq!(world.blobs.listed(), listed, "nothing is listed for it");
    life.archive(session).await;
    pass(1).await;
    assert_eq!(keys(&world), [body.to_string()]);
    life.delete(session).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_server_left_unsaved_is_saved_without_being_used() {
    let (world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    pass(15).await;
    let clean = world.session(&life).await;
    turn(&life, clean).await;
    pass(15).await;
    let (saved, before) = (
        recorded(&world, clean).await,
        recorded(&world, session).await,
    );
    turn(&life, session).await;
    drop(life);
    let life = world.start(None).await;
    pass(20).await;
    assert_eq!(recorded(&world, session).await, before + 1);
    let known = state(&life, session).await.checkpoint().cloned().unwrap();
    assert_eq!(known.sum.entries, 2);
    assert_eq!(
        recorded(&world, clean).await,
        saved,
        "nothing was done since"
    );
    pass(100).await;
    drop(life);
    let _life = world.start(None).await;
    pass(20).await;
    assert_eq!(
        recorded(&world, session).await,
        before + 1,
        "nothing was done since"
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stored_for_nothing_goes() {
    let (world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    // The session ends while its pack is on the way to the blobs.
    let gate = world.blobs.hold();
    pass(15).await;
    assert_eq!(keys(&world).len(), 1);
    life.archive(session).await;
    gate.close();
    pass(15).await;
    assert_eq!(recorded(&world, session).await, 0);
    assert_eq!(keys(&world), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_larger_than_a_hand_may_be_stays_and_chat_goes_on() {
    let (mut world, life, session) = world(USUAL).await;
    turn(&life, session).await;
    pass(15).await;
    let known = state(&life, session).await.checkpoint().cloned().unwrap();
    world.hands.vanish();
    drop(life);
    world.limits.disk_bytes = 1;
    let life = world.start(None).await;
    for _ in 0..2 {
        turn(&life, session).await;
    }
    let told = results(&world, session).await;
    for told in &told[1..] {
        assert!(
            told.contains("no sandbox could be started") && told.contains("`hands.disk_mib`"),
            "{told}"
        );
    }
    assert_eq!(state(&life, session).await.checkpoint(), Some(&known));
    assert_eq!(keys(&world), [known.blob.as_str()]);
    drop(life);
    // The operator raises the bound: the same life begins with the files.
    world.limits.disk_bytes = 1 << 20;
    let life = world.start(None).await;
    turn(&life, session).await;
    let told = results(&world, session).await;
    assert!(told[3].contains(&known.at.to_string()), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unused_hand_is_saved_before_it_is_let_go() {
    let (mut world, _, _) = world(Schedule::NEVER).await;
    world.schedule = Schedule {
        at_rest: Some(Duration::from_secs(200_000)),
        within_turns: None,
    };
    let life = world.start(None).await;
    let session = world.session(&life).await;
    turn(&life, session).await;
    pass(100).await;
    assert_eq!(recorded(&world, session).await, 0);
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    pass(20).await;
    assert_eq!(recorded(&world, session).await, 1);
    let hand = state(&life, session).await.hand.unwrap();
    assert!(world.hands.workspace(hand.incarnation).is_some());
    turn(&life, session).await;
    let results = results(&world, session).await;
    assert!(!results[1].contains("is gone"), "{results:?}");
}
