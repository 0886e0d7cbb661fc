//! Repositories: what is tried of them, and how often that is told.

use std::sync::Arc;

use outlast_protocol::id::ResourceId;
use outlast_session::{
    Answer, Fact, Proposal, Refusal, Update,
    body::{Cloned, Config, Repository},
};
use outlast_testkit::random::Constant;
use serde_json::json;

use crate::{parts, turns::working, world::World};

fn resource(number: u8) -> ResourceId {
    ResourceId::mint(parts::moment(1), &Constant(number))
}

/// A session at work with one repository.
fn with_repository() -> World {
    with_repositories(&["https://git.example/o/r"])
}

/// A session at work with repositories, numbered from 1.
fn with_repositories(urls: &[&str]) -> World {
    let mut world = working();
    let repository = |(number, url): (u8, &&str)| -> Repository {
        let body = json!({"id": resource(number), "url": url, "path": format!("/workspace/{number}"),
            "at": parts::moment(1)});
        serde_json::from_value(body).unwrap()
    };
    let from = world.state().config.clone().unwrap();
    let config = Config {
        repositories: (1..).zip(urls).map(repository).collect(),
        ..(*from).clone()
    };
    let update = Update {
        from,
        config: Arc::new(config),
        event: parts::raw(&json!({})),
        agent: false,
        by: parts::client(),
    };
    world.propose(&Proposal::Update(update)).unwrap();
    world.skip();
    world
}

fn tried(hand: u64, epoch: u64, there: bool) -> Cloned {
    Cloned {
        resource: resource(1),
        hand: parts::hand(hand),
        epoch,
        there,
    }
}

#[test]
fn what_could_not_be_cloned_is_told_once_for_each_hand_and_brain() {
    let mut world = with_repository();
    let words = || {
        Some(parts::raw(
            &json!({"error": {"type": "repository_clone_error"}}),
        ))
    };
    let mut tell = |cloned, error| {
        let key = world.named("error");
        let answer = world.try_fact(1, key, Fact::Cloned(cloned, error)).unwrap();
        (answer, world.news())
    };
    let failed = ["x.cloned".to_owned(), "session.error".to_owned()];
    assert_eq!(
        tell(tried(1, 1, false), words()),
        (Answer::Appended, failed.to_vec())
    );
    assert_eq!(
        tell(tried(1, 1, false), words()),
        (Answer::AlreadySettled, vec![])
    );
    assert_eq!(tell(tried(2, 1, false), words()).0, Answer::Appended);
    let there = vec!["x.cloned".to_owned()];
    assert_eq!(tell(tried(2, 2, true), None), (Answer::Appended, there));
    assert_eq!(
        world.state().cloned,
        [tried(2, 2, true)],
        "the newest counts"
    );
}

#[test]
fn another_token_is_a_record_of_a_repository_that_is_there() {
    let mut world = with_repository();
    let by = parts::client();
    let mut rotate = |number| {
        let resource = resource(number);
        world.propose(&Proposal::Rotate { resource, by })
    };
    assert!(matches!(rotate(2), Err(Refusal::Client(_))));
    assert_eq!(rotate(1), Ok(Answer::Appended));
    world.appended(&["x.resource_updated"]);
    let config = world.state().config.clone().unwrap();
    assert!(config.repositories[0].updated.is_some());
}

#[test]
fn another_token_is_that_of_all_resources_of_its_repository() {
    let mut world = with_repositories(&[
        "https://git.example/o/r",
        "https://git.example/o/other",
        "https://git.example:443/o/r.git",
    ]);
    let (resource, by) = (resource(3), parts::client());
    world.propose(&Proposal::Rotate { resource, by }).unwrap();
    world.appended(&["x.resource_updated", "x.resource_updated"]);
    let config = world.state().config.clone().unwrap();
    let updated = config.repositories.iter().map(|known| known.updated);
    let updated: Vec<_> = updated.map(|at| at.is_some()).collect();
    assert_eq!(updated, [true, false, true]);
}

#[test]
fn a_repository_stays_as_long_as_its_session() {
    let mut world = with_repository();
    let remove = Proposal::Unmount {
        resource: resource(1),
        by: parts::client(),
    };
    let Err(Refusal::Client(problem)) = world.propose(&remove) else {
        panic!("it was taken away");
    };
    assert!(
        problem.message.contains("as long as its session"),
        "{}",
        problem.message
    );
    assert_eq!(problem.code.status(), 400);
}
