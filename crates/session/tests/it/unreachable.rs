//! Credentials for hosts that the environment does not allow: each told once, until it is of use.

use outlast_protocol::id::CredentialId;
use outlast_session::{Answer, Fact};
use outlast_testkit::random::Constant;
use serde_json::json;

use crate::{parts, turns::working, world::World};

/// Says that these are all there are; returns the answer, and what was appended.
fn say(world: &mut World, numbers: &[u8]) -> (Answer, Vec<String>) {
    let mint = |number: u8| CredentialId::mint(parts::moment(1), &Constant(number));
    let all = numbers.iter().map(|number| {
        let event = world.named(&format!("error {number}"));
        let body = json!({"error": {"type": "credential_host_unreachable_error"}});
        (mint(*number), event, parts::raw(&body))
    });
    let fact = Fact::Unreachable(all.collect());
    let key = world.named("key");
    let answer = world.try_fact(1, key, fact).unwrap();
    (answer, world.news())
}

#[test]
fn each_is_told_once_and_again_after_it_was_of_use() {
    let mut world = working();
    world.skip();
    let lines =
        |kinds: &[&str]| -> Vec<String> { kinds.iter().map(|kind| (*kind).to_owned()).collect() };
    let (told, noted) = ("session.error", "x.unreachable");
    for (all, expected) in [
        (&[1_u8, 2] as &[u8], &[noted, told, told] as &[&str]),
        (&[1, 2], &[]),
        (&[1, 2, 3], &[noted, told]),
        (&[2], &[noted]),
        (&[2], &[]),
        (&[1, 2], &[noted, told]),
        (&[], &[noted]),
        (&[], &[]),
    ] {
        let answer = match expected.is_empty() {
            true => Answer::AlreadySettled,
            false => Answer::Appended,
        };
        assert_eq!(say(&mut world, all), (answer, lines(expected)), "{all:?}");
    }
}
