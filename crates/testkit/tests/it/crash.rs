//! Crash points: a scenario is run once undisturbed, then once for every append that a process
//! makes, killed before it and killed after it. The log must come out the same.

use outlast_protocol::id::{EventId, SessionId};
use outlast_session::{Kind, Phase, Record, State};
use outlast_store::verify;
use serde_json::{Value, json};

use crate::lives::{Death, Life, World, told};

/// What a client does next, each time the session rests.
const STEPS: usize = 6;

/// What becomes of hands when their process dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hands {
    /// They live on, and the next process finds them.
    Stay,
    /// They die too; only their journals stay.
    Die,
}

/// Makes a message that carries a script.
fn script(steps: &Value) -> Value {
    message(&json!({ "script": steps }).to_string())
}

fn message(text: &str) -> Value {
    json!([{"type": "user.message", "content": [{"type": "text", "text": text}]}])
}

/// Does one step of the scenario; false if there is nothing to do in it.
async fn client(step: usize, life: &Life, session: SessionId) {
    let state = life.kernel.state(session).await.unwrap();
    let asked = asked(&state);
    let events = match step {
        0 => script(&json!([
            {"thinking": "hm", "text": "Three at once.", "calls": [
                {"name": "read", "input": {"file_path": "a", "wait_ms": 20}},
                {"name": "grep", "input": {"pattern": "b", "wait_ms": 5}},
                {"name": "bash", "input": {"command": "c"}},
            ]},
            {"calls": [{"name": "bash", "input": {"command": "{{results.1}}", "wait_ms": 10}}]},
            {"text": "First: {{results}}"},
        ])),
        1 => script(&json!([
            {"calls": [
                {"name": "write", "input": {"file_path": "x", "content": "y"}},
                {"name": "ask_client", "input": {"question": "?"}},
                {"name": "read", "input": {"file_path": "z"}},
                {"name": "no_such_tool", "input": {}},
            ]},
            {"text": "Second: {{results}}"},
        ])),
        2 => {
            json!([{"type": "user.tool_confirmation", "tool_use_id": asked[0], "result": "allow"}])
        }
        3 => json!([{"type": "user.custom_tool_result", "custom_tool_use_id": asked[0],
            "content": [{"type": "text", "text": "client says"}]}]),
        4 => {
            let mut both = script(&json!([{"stop": "pause_turn", "text": "wait"}, {"text": "on"}]));
            both.as_array_mut()
                .unwrap()
                .extend(message("and more").as_array().unwrap().clone());
            both
        }
        _ => script(&json!([{"refusal": {"category": "cyber", "explanation": "no"}}])),
    };
    life.send(session, &events).await;
}

/// Returns the calls that wait for a client.
pub(crate) fn asked(state: &State) -> Vec<EventId> {
    let calls = state.threads[0].calls.iter();
    calls
        .filter(|call| call.phase == Phase::Asked)
        .map(|call| call.id)
        .collect()
}

/// Runs the scenario; the first life ends as told, and the next one goes on.
async fn run(death: Option<Death>, hands: Hands) -> (World, SessionId, u64) {
    let world = World::new(7).await;
    let mut life = world.start(death).await;
    let session = world.session(&life).await;
    for step in 0..STEPS {
        client(step, &life, session).await;
        if !life.rests(session).await {
            if hands == Hands::Die {
                world.bury();
            }
            life = world.start(None).await;
            assert!(life.rests(session).await);
        }
    }
    let appends = life.appends();
    (world, session, appends)
}

/// Checks what must hold of every log, whatever happened.
async fn check(world: &World, session: SessionId, death: Option<Death>) -> Vec<Record> {
    let records = world.log(session).await;
    inherited(world, death);
    verify(session, &records).unwrap_or_else(|broken| panic!("{death:?}: {broken:?}"));
    for record in records
        .iter()
        .filter(|record| record.kind == Kind::AgentToolUse)
    {
        let call = record.event.unwrap();
        let runs = world.hands.executions(call);
        assert!(runs <= 1, "{death:?}: call {call} ran {runs} times");
        let results = records.iter().filter(|result| {
            result.kind == Kind::AgentToolResult && result.body.text().contains(&call.to_string())
        });
        assert_eq!(results.count(), 1, "{death:?}: results of {call}");
    }
    let count = |kind| records.iter().filter(|record| record.kind == kind).count();
    assert_eq!(
        count(Kind::RequestStart),
        count(Kind::RequestEnd),
        "{death:?}"
    );
    records
}

/// Every hand that was made takes over from the one that was made before it: a life that was only
/// recorded has no files, and whoever takes over from it starts with an empty workspace.
fn inherited(world: &World, death: Option<Death>) {
    let mut before = None;
    for recipe in world.hands.provisioned() {
        assert_eq!(recipe.predecessor, before, "{death:?}: files are lost");
        before = Some(recipe.incarnation);
    }
}

/// Kills a process at every append, before it and behind it, and looks at what is left.
async fn at_every_append(hands: Hands, look: impl Fn(&[String], &[String], Death)) {
    let (world, session, appends) = run(None, hands).await;
    let undisturbed = told(&check(&world, session, None).await);
    assert!(
        undisturbed.iter().any(|line| line.contains("Second: ")),
        "{undisturbed:#?}"
    );
    assert!(appends > 30, "the scenario has only {appends} appends");
    for at in 1..=appends {
        for committed in [false, true] {
            let death = Death { at, committed };
            let (world, session, _) = run(Some(death), hands).await;
            look(
                &undisturbed,
                &told(&check(&world, session, Some(death)).await),
                death,
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_killed_at_any_append_changes_nothing() {
    at_every_append(Hands::Stay, |before, after, death| {
        assert_eq!(before, after, "{death:?}");
    })
    .await;
}

/// A call that ran when its hand died may have run, and says so; all else is the same.
#[tokio::test(start_paused = true)]
async fn hands_that_die_too_cost_no_more_than_the_calls_they_ran() {
    let kinds = |lines: &[String]| -> Vec<String> {
        lines
            .iter()
            .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
            .collect()
    };
    let lost = |lines: &[String]| {
        lines
            .iter()
            .filter(|line| line.contains("the call may have run"))
            .count()
    };
    at_every_append(Hands::Die, |before, after, death| {
        assert_eq!(kinds(before), kinds(after), "{death:?}");
        // Two calls run side by side at most; what was told of a lost one is told on.
        assert!(lost(after) <= 3, "{death:?}: {after:#?}");
    })
    .await;
}

/// Has the model run one command.
async fn command(life: &Life, session: SessionId) {
    let script = script(&json!([
        {"calls": [{"name": "bash", "input": {"command": "c"}}]}, {"text": "{{results}}"}
    ]));
    life.send(session, &script).await;
    assert!(life.rests(session).await);
}

#[tokio::test(start_paused = true)]
async fn hands_that_cannot_be_made_cost_no_files() {
    let world = World::new(7).await;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    command(&life, session).await;
    world.bury();
    world.hands.refuse(Some("the disk is full"));
    command(&life, session).await;
    command(&life, session).await;
    world.hands.refuse(None);
    command(&life, session).await;
    assert_eq!(world.hands.provisioned().len(), 2);
    check(&world, session, None).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_leaves_nothing_of_any_hand() {
    use outlast_hands::Provisioner as _;
    let world = World::new(7).await;
    let life = world.start(None).await;
    let session = world.session(&life).await;
    for _ in 0..5 {
        command(&life, session).await;
        world.bury();
    }
    let left = world.hands.list().await.len();
    assert!(left <= 2, "{left} lives have left something");
    life.delete(session).await;
    assert_eq!(world.hands.list().await, []);
}
