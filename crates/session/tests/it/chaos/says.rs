//! What is proposed when somebody does something.

use std::{sync::Arc, time::Duration};

use outlast_protocol::id::EventId;
use outlast_session::{
    After, Answer, Fact, Input, Proposal, Refusal, Step, Stop, Then, Update,
    body::{Config, HandLost, HandWanted},
};

use super::ops::{Kernel, Say, Word};
use crate::{
    acts::{ended, failed},
    parts,
    world::World,
};

pub(super) fn update(world: &mut World, agent: bool) -> Result<Answer, Refusal> {
    let from = world.state().config.clone().unwrap();
    let mut config = Config::clone(&from);
    config.title = Some(format!("{}", world.log.len()));
    let config = Arc::new(config);
    let event = parts::raw(&serde_json::json!({}));
    let by = parts::client();
    world.propose(&Proposal::Update(Update {
        from,
        config,
        event,
        agent,
        by,
    }))
}

/// Picks a call: the open ones first, then those of long ago.
fn call(world: &World, pick: usize) -> EventId {
    let open = world.thread().calls.iter().map(|call| call.id);
    let old = world.ledger.calls.iter().rev().map(|(id, _)| *id);
    let unknown = EventId::parse("sevt_010000000000000000000000").unwrap();
    open.chain(old).nth(pick).unwrap_or(unknown)
}

/// Picks a call that waits for the client, or any.
fn asked(world: &World, pick: usize) -> EventId {
    let asked: Vec<_> = world.ledger.asked().collect();
    asked
        .get(pick)
        .copied()
        .unwrap_or_else(|| call(world, pick))
}

pub(super) fn input(world: &World, word: &Word) -> Input {
    match word {
        Word::Message => parts::message("words"),
        Word::System => parts::system("words"),
        Word::Interrupt => parts::interrupt(),
        Word::Allow(pick) => parts::allow(asked(world, *pick)),
        Word::Deny(pick) => parts::deny(asked(world, *pick), Some("no")),
        Word::Result(pick) => parts::result(asked(world, *pick)),
    }
}

pub(super) fn step(world: &mut World, say: &Say) -> Step {
    let details = || parts::raw(&serde_json::json!({"type": "refusal"}));
    match say {
        Say::TakeIn(back) => Step::TakeIn {
            last: world.state().tail.saturating_sub(*back),
        },
        Say::Respond => response(world),
        Say::EndTurn => Step::EndTurn(Stop::EndTurn),
        Say::Refuse => Step::EndTurn(Stop::Refusal(details())),
        Say::Retry => failed(Then::Retry(world.now.after(Duration::from_secs(1)))),
        Say::Exhaust => failed(Then::Exhausted),
        Say::Terminal => failed(Then::Terminal),
        Say::Stop => Step::Interrupt,
        Say::Release => Step::Release,
        Say::Break => Step::Break,
        Say::Note => Step::Note(details()),
    }
}

/// A response to whatever request there is.
fn response(world: &mut World) -> Step {
    let unknown = EventId::parse("sevt_010000000000000000000000").unwrap();
    let open = world.thread().request.map(|open| open.id);
    let id = world.named("spoken");
    Step::Respond(Box::new(outlast_session::Respond {
        request: open.unwrap_or(unknown),
        blocks: Vec::new(),
        stop: "end_turn".to_owned(),
        details: None,
        after: After::Answer,
        events: vec![outlast_session::Said::Thinking(id)],
    }))
}

pub(super) fn kernel_says(
    world: &mut World,
    stale: bool,
    kernel: &Kernel,
) -> Result<Answer, Refusal> {
    let epoch = world.thread().epoch.saturating_sub(u64::from(stale));
    let length = world.log.len();
    let name = "default".to_owned();
    let (key, fact) = match kernel {
        Kernel::Start => (world.named("request"), Fact::RequestStarted),
        Kernel::Restart => (request(world, 0), Fact::RequestStarted),
        Kernel::End(back) => {
            let id = request(world, *back);
            (id, Fact::RequestEnded(ended(id)))
        }
        Kernel::Intend(pick, hand) => (call(world, *pick), Fact::Intended(parts::hand(*hand))),
        Kernel::Settle(pick) => {
            let id = call(world, *pick);
            (id, world.settled(id))
        }
        Kernel::Want(number) => {
            let incarnation = parts::hand(*number);
            let wanted = HandWanted {
                name,
                incarnation,
                predecessor: None,
                forgotten: Vec::new(),
                loss: None,
                networking: None,
            };
            (world.named("key"), Fact::HandWanted(wanted))
        }
        Kernel::Lose(number) => {
            let lost = HandLost::of(parts::hand(*number), "gone");
            (world.named("key"), Fact::HandLost(lost))
        }
    };
    let counts = matches!(fact, Fact::RequestEnded(_));
    let done = world.try_fact(epoch, key, fact);
    let heard = world.log.len() > length;
    assert!(!stale || counts || !heard, "a stale epoch was heard");
    done
}

/// Picks a request, the newest first.
fn request(world: &World, back: usize) -> EventId {
    let unknown = EventId::parse("sevt_010000000000000000000000").unwrap();
    let mut started: Vec<_> = world.ledger.spans.keys().copied().collect();
    started.sort_unstable();
    started.into_iter().rev().nth(back).unwrap_or(unknown)
}
