//! Clients, brains, kernel and gateway doing anything in any order, legal or not.

mod ops;
mod says;

use std::{collections::HashMap, time::Duration};

use outlast_protocol::{deadlines::UpdateDeadlines, read::Patch};
use outlast_session::{Answer, Fence, Origin, Proposal, RECENT, Refusal, Route};

use crate::{
    brain::{self, Reply},
    parts,
    world::World,
};

pub(crate) use ops::op;
use ops::{Op, Place, Say};
use says::{input, kernel_says, step, update};

/// A session in the hands of all of them.
pub(crate) struct Chaos {
    pub(crate) world: World,
    model: Vec<Reply>,
    /// The newest fence of every brain there was; dead ones go on speaking.
    fences: Vec<Fence>,
    /// What the appends of brains became: first and last position.
    outcomes: HashMap<(u64, u64), (u64, u64)>,
}

impl Chaos {
    pub(crate) fn new(model: Vec<Reply>) -> Self {
        let mut world = World::new();
        world.rules.rounds = 2;
        world.rules.cut = 1;
        world.rules.queue = 6;
        world.rules.attempts = 2;
        Self {
            world,
            model,
            fences: Vec::new(),
            outcomes: HashMap::new(),
        }
    }

    /// Does it; whatever is refused must have changed nothing.
    pub(crate) fn act(&mut self, op: &Op) {
        let length = self.world.log.len();
        let done = self.perform(op);
        if let Err(refusal) = &done {
            assert_eq!(
                self.world.log.len(),
                length,
                "refused, and appended: {refusal}"
            );
        }
        self.remember(length);
    }

    /// Keeps what brains appended, and who they are.
    fn remember(&mut self, from: usize) {
        for kept in &self.world.log[from..] {
            if let Origin::Brain { epoch, seq } = kept.origin {
                let (first, last) = (kept.position, kept.position);
                let outcome = self.outcomes.entry((epoch, seq)).or_insert((first, last));
                outcome.1 = last;
            }
        }
        let fence = self.world.fence;
        match self.fences.last_mut() {
            Some(last) if last.epoch == fence.epoch => *last = fence,
            Some(_) | None => self.fences.push(fence),
        }
    }

    fn perform(&mut self, op: &Op) -> Result<Answer, Refusal> {
        let world = &mut self.world;
        match op {
            Op::Work(manner) => match brain::step(world, &self.model, *manner) {
                Some(answer) => Ok(answer),
                None => world.try_send(vec![parts::message("words")], true),
            },
            Op::Send(words, claim) => {
                let inputs = words.iter().map(|word| input(world, word)).collect();
                world.try_send(inputs, *claim)
            }
            Op::Answer(word) => {
                let first = world.thread().asked().next();
                match first.map(|call| (call.id, call.route)) {
                    Some((id, Route::Client)) => world.try_send(vec![parts::result(id)], true),
                    Some((_, Route::Hand)) => world.try_send(vec![input(world, word)], true),
                    None => Ok(Answer::Nothing),
                }
            }
            Op::Brain(back, place, say) => self.brain(*back, *place, say),
            Op::Kernel(stale, fact) => kernel_says(world, *stale, fact),
            Op::Claim(by, dead) => {
                let holder = world.thread().lease.as_ref().map(|lease| lease.process);
                let dead = (1..4).find(|number| *dead && holder == Some(parts::process(*number)));
                world.try_claim(*by, dead)
            }
            Op::Alone(dead) => {
                let holder = world.thread().lease.as_ref().map(|lease| lease.process);
                let dead = (1..4).find(|number| *dead && holder == Some(parts::process(*number)));
                if holder.is_some() && dead.is_none() {
                    return Ok(Answer::Nothing);
                }
                Ok(world.claim_alone(dead))
            }
            Op::Revive => Ok(world.revive()),
            Op::Wait(seconds) => {
                world.now = world.now.after(Duration::from_secs(*seconds));
                Ok(Answer::Nothing)
            }
            Op::Update(agent) => update(world, *agent),
            Op::Checkpoint(hand, at) => {
                world.propose(&Proposal::Checkpoint(parts::checkpoint(*hand, *at)))
            }
            Op::Deadlines(idle, answer, total) => {
                // None where the number is 0.
                let patch = |seconds: u32| match seconds {
                    0 => Patch::Clear,
                    seconds => Patch::Set(seconds),
                };
                let change = UpdateDeadlines {
                    idle: patch(*idle),
                    answer: patch(*answer),
                    total: patch(*total),
                };
                let by = parts::client();
                world.propose(&Proposal::SetDeadlines { change, by })
            }
            Op::Expire => world.propose(&Proposal::Expire),
            Op::Archive => world.propose(&Proposal::Archive(parts::client())),
            Op::Delete => world.propose(&Proposal::Delete(parts::client())),
        }
    }

    /// Lets the brain `back` leases ago speak.
    fn brain(&mut self, back: usize, place: Place, say: &Say) -> Result<Answer, Refusal> {
        let newest = self.world.fence;
        let who = self
            .fences
            .iter()
            .rev()
            .nth(back)
            .copied()
            .unwrap_or(newest);
        let seq = match place {
            Place::Next => who.seq + 1,
            Place::Again => who.seq,
            Place::Gap => who.seq + 2,
            Place::Long => who.seq.saturating_sub(RECENT as u64),
        };
        let (epoch, acked) = (who.epoch, who.seq);
        self.world.fence = Fence { epoch, seq, acked };
        let step = step(&mut self.world, say);
        let done = self.world.say(step);
        if matches!(place, Place::Again | Place::Long) {
            self.check_repeat(&done);
        }
        if let Ok(Answer::Repeated { first, last }) = done {
            let known = self.outcomes.get(&(epoch, seq));
            assert_eq!(
                known,
                Some(&(first, last)),
                "another outcome than the first"
            );
        }
        // For the brain that goes on, nothing else happened.
        if epoch != newest.epoch || done.is_err() || !matches!(place, Place::Next) {
            self.world.fence = newest;
        }
        done
    }

    /// The newest append of the newest lease can always be repeated, also after the lease.
    fn check_repeat(&self, done: &Result<Answer, Refusal>) {
        let Fence { epoch, seq, .. } = self.world.fence;
        let appended = self.outcomes.get(&(epoch, seq));
        let newest = self
            .outcomes
            .keys()
            .filter(|(of, _)| *of == epoch)
            .all(|(_, other)| *other <= seq);
        let gone = self.world.state().deleted;
        if appended.is_some() && newest && !gone && epoch == self.world.thread().epoch {
            assert!(matches!(done, Ok(Answer::Repeated { .. })), "{done:?}");
        }
    }

    /// Ends everything that is open: brains work, the client answers.
    pub(crate) fn finish(&mut self) {
        for _ in 0..50 {
            brain::run(&mut self.world, &self.model);
            let asked = self.world.thread().asked().next().cloned();
            match asked.filter(|_| !self.world.ledger.ended && !self.world.ledger.deleted) {
                Some(call) if call.route == Route::Client => {
                    self.world.send(vec![parts::result(call.id)]);
                }
                Some(call) => {
                    self.world.send(vec![parts::allow(call.id)]);
                }
                None => return,
            }
        }
        panic!("the client answers without end");
    }
}
