//! Changes of the configuration.

use std::sync::Arc;

use outlast_session::{Answer, Proposal, Refusal, Update, body::Config};
use serde_json::json;

use crate::{calls::blocked, parts, turns::working, world::World};

fn update(
    world: &mut World,
    from: &Arc<Config>,
    title: &str,
    agent: bool,
) -> Result<Answer, Refusal> {
    let mut config = Config::clone(from);
    config.title = Some(title.to_owned());
    let event = parts::raw(&json!({"title": title}));
    world.propose(&Proposal::Update(Update {
        from: from.clone(),
        config: Arc::new(config),
        event,
        agent,
        by: parts::client(),
    }))
}

fn config(world: &World) -> Arc<Config> {
    world.state().config.clone().unwrap()
}

#[test]
fn a_change_is_a_record_and_an_event() {
    let mut world = working();
    let from = config(&world);
    assert_eq!(
        update(&mut world, &from, "new", false),
        Ok(Answer::Appended)
    );
    world.appended(&["x.updated", "session.updated"]);
    assert_eq!(config(&world).title.as_deref(), Some("new"));
}

#[test]
fn a_change_made_from_an_older_configuration_is_looked_at_again() {
    let mut world = World::new();
    let from = config(&world);
    update(&mut world, &from, "first", false).unwrap();
    world.skip();
    assert_eq!(
        update(&mut world, &from, "second", false),
        Ok(Answer::Changed)
    );
    world.appended(&[]);
    let from = config(&world);
    assert_eq!(
        update(&mut world, &from, "second", false),
        Ok(Answer::Appended)
    );
}

#[test]
fn a_change_that_changes_nothing_is_no_event() {
    let mut world = World::new();
    let from = config(&world);
    update(&mut world, &from, "same", false).unwrap();
    world.skip();
    let from = config(&world);
    assert_eq!(
        update(&mut world, &from, "same", false),
        Ok(Answer::Nothing)
    );
    world.appended(&[]);
}

#[test]
fn the_agent_changes_only_while_the_session_is_idle() {
    let mut world = World::new();
    world.send(vec![parts::message("hi")]);
    let from = config(&world);
    let accepted = update(&mut world, &from, "new", true);
    assert!(
        matches!(accepted, Err(Refusal::Client(_))),
        "accepted work counts as running"
    );
    let mut world = blocked(&[("q", "ask", false)]);
    assert_eq!(update(&mut world, &from, "new", true), Ok(Answer::Appended));
}

#[test]
fn an_ended_session_does_not_change() {
    let mut world = World::new();
    let from = config(&world);
    world.propose(&Proposal::Archive(parts::client())).unwrap();
    assert!(matches!(
        update(&mut world, &from, "new", false),
        Err(Refusal::Client(_))
    ));
}
