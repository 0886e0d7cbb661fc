//! Any prefix, then continue, equals not having stopped, apart from what recovery records.

use outlast_session::{After, Answer, Input, Kind, Refusal, Step};

use crate::{
    brain::{self, Manner, Reply},
    label, parts,
    world::World,
};

/// When a client acts: at its n-th sight of such an event.
type Cue = (Kind, usize);

/// What it does then.
type Act = fn(&World) -> Vec<Input>;

struct Scene {
    model: Vec<Reply>,
    client: Vec<(Cue, Act)>,
}

fn asked(world: &World, index: usize) -> outlast_protocol::id::EventId {
    world.ledger.asked().nth(index).unwrap()
}

/// Calls of every kind, answers in part, a message in the middle, an interrupt, failures.
fn scene() -> Scene {
    use Reply::{Busy, Calls, Gone, Words};
    let model = vec![
        Calls(vec![
            ("bash", false),
            ("write", false),
            ("read", false),
            ("ask", false),
        ]),
        Words(After::Pause),
        Busy,
        Calls(vec![("glob", false), ("bash", true), ("write", false)]),
        Words(After::Answer),
        Calls(vec![("bash", false), ("glob", false)]),
        Words(After::Answer),
        Gone,
        Words(After::Answer),
    ];
    let client: Vec<(Cue, Act)> = vec![
        ((Kind::SessionIdle, 1), |world| {
            vec![parts::deny(asked(world, 0), None)]
        }),
        ((Kind::SessionIdle, 2), |world| {
            vec![parts::result(asked(world, 0))]
        }),
        ((Kind::AgentToolUse, 5), |_| {
            vec![parts::message("meanwhile"), parts::system("so")]
        }),
        ((Kind::SessionIdle, 3), |world| {
            vec![parts::allow(asked(world, 0))]
        }),
        ((Kind::AgentToolUse, 8), |_| {
            vec![parts::interrupt(), parts::message("instead")]
        }),
        ((Kind::SessionIdle, 5), |_| vec![parts::message("again")]),
        ((Kind::SessionIdle, 6), |_| {
            vec![parts::message("and again")]
        }),
    ];
    Scene { model, client }
}

fn seen(world: &World, (kind, count): Cue) -> bool {
    world.log.iter().filter(|kept| kept.kind == kind).count() >= count
}

/// Plays the scene; `disturb` is called between any two appends, with their number.
fn play(scene: &Scene, mut disturb: impl FnMut(&mut World, usize)) -> World {
    let mut world = World::new();
    world.send_claimed(vec![parts::message("hi")]);
    let mut client = scene.client.iter().peekable();
    for turn in 0.. {
        assert!(turn < 2_000, "no end in sight");
        disturb(&mut world, turn);
        if let Some((_, act)) = client.next_if(|(cue, _)| seen(&world, *cue)) {
            let inputs = act(&world);
            world.send_claimed(inputs);
        } else if brain::step(&mut world, &scene.model, Manner::Usual).is_none() {
            break;
        }
    }
    assert_eq!(client.count(), 0, "the scene was not played to its end");
    world
}

/// The public events, without the spans of requests that failed.
fn events(world: &World) -> Vec<String> {
    let failed: Vec<_> = world
        .log
        .iter()
        .filter(|kept| kept.kind == Kind::RequestEnd)
        .map(crate::world::Kept::json)
        .filter(|body| body["is_error"] == true)
        .map(|body| body["model_request_start_id"].as_str().unwrap().to_owned())
        .collect();
    let of_failed = |kept: &&crate::world::Kept| {
        let body = kept.json();
        let end = body["model_request_start_id"].as_str().unwrap_or_default();
        let own = kept.event.unwrap().to_string();
        !failed.contains(&own) && !failed.iter().any(|id| id == end)
    };
    let public = world.log.iter().filter(|kept| kept.kind.is_public());
    public
        .filter(of_failed)
        .map(|kept| label::line(world, kept))
        .collect()
}

/// Kills the brain: another process takes over while the dead one still speaks.
fn kill(world: &mut World) {
    if world.thread().lease.is_none() {
        return;
    }
    let dead = world.fence;
    assert_eq!(world.try_claim(2, Some(1)), Ok(Answer::Appended));
    let alive = world.fence;
    world.fence = dead;
    let stale = world.try_step(Step::Release);
    assert!(matches!(stale, Err(Refusal::Stale { .. })), "{stale:?}");
    world.fence = alive;
    // The next victim is the same process again.
    assert_eq!(world.try_claim(1, Some(2)), Ok(Answer::Appended));
}

#[test]
fn the_scene_has_everything_in_it() {
    let world = play(&scene(), |_, _| ());
    for kind in [
        Kind::UserInterrupt,
        Kind::SystemMessage,
        Kind::ArrivedToolResult,
        Kind::SessionRescheduled,
        Kind::UserToolConfirmation,
        Kind::UserCustomToolResult,
    ] {
        assert!(seen(&world, (kind, 1)), "{kind} is missing");
    }
    let words = events(&world).join("\n");
    for words in [
        "requires_action",
        "end_turn",
        "retries_exhausted",
        "session.error retrying",
    ] {
        assert!(self::events(&world).join("\n").contains(words), "{words}");
    }
    assert!(words.ends_with("session.status_idle end_turn"), "{words}");
}

#[test]
fn a_brain_that_dies_anywhere_changes_nothing() {
    let scene = scene();
    let mut length = 0;
    let undisturbed = events(&play(&scene, |_, turn| length = turn));
    for at in 0..=length {
        let disturbed = play(&scene, |world, turn| {
            if turn == at {
                kill(world);
            }
        });
        assert_eq!(events(&disturbed), undisturbed, "killed at {at}");
    }
}

#[test]
fn a_brain_that_leaves_anywhere_changes_nothing() {
    let scene = scene();
    let mut length = 0;
    let undisturbed = events(&play(&scene, |_, turn| length = turn));
    for at in 0..=length {
        let disturbed = play(&scene, |world, turn| {
            if turn == at && world.thread().lease.is_some() {
                world.step(Step::Release);
            }
        });
        assert_eq!(events(&disturbed), undisturbed, "left at {at}");
    }
}

#[test]
fn brains_that_die_again_and_again_change_nothing() {
    let scene = scene();
    let undisturbed = events(&play(&scene, |_, _| ()));
    for every in [4, 5, 7] {
        let disturbed = play(&scene, |world, turn| {
            if turn % every == 0 {
                kill(world);
            }
        });
        assert_eq!(
            events(&disturbed),
            undisturbed,
            "killed at every {every}th append"
        );
    }
}

#[test]
fn a_state_that_was_stored_goes_on_like_the_one_that_was_not() {
    let scene = scene();
    let undisturbed = events(&play(&scene, |_, _| ()));
    let stored = play(&scene, |world, _| {
        let text = serde_json::to_string(world.state()).unwrap();
        let mut back: outlast_session::State = serde_json::from_str(&text).unwrap();
        back.config.clone_from(&world.state().config);
        world.state = Some(back);
    });
    assert_eq!(events(&stored), undisturbed);
}

#[test]
fn every_prefix_folds_to_the_state_of_its_time() {
    let mut states = Vec::new();
    let world = play(&scene(), |world, _| states.push(world.state().clone()));
    let mut replayed = outlast_session::State::blank(world.state().id);
    let mut states = states.into_iter().peekable();
    for kept in &world.log {
        outlast_session::fold(&mut replayed, &kept.entry()).unwrap();
        while let Some(state) = states.next_if(|state| state.tail == replayed.tail) {
            assert_eq!(state, replayed);
        }
    }
    assert_eq!(states.count(), 0, "some states were never reached");
    assert_eq!(&replayed, world.state());
}
