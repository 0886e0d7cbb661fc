//! The smallest brain that does its work: one pure step from what the log says.

use outlast_session::{After, Answer, Fact, Phase, Refusal, Step, Stop, Then, Waker};

use crate::world::World;

/// What the model comes up with, one after another; responses and failures count.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A response without calls.
    Words(After),
    /// A response with these calls: tool, and whether the input is cut.
    Calls(Vec<(&'static str, bool)>),
    /// A failure that is retried.
    Busy,
    /// A failure that is not.
    Gone,
}

/// How a brain and its gateway go about it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// The end of a request is told before its response; an input that waits ends the turn.
    Usual,
    /// The response comes first, and the brain tries to end its turn without a look at the queue.
    Hasty,
}

/// What a brain does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Stop,
    TakeIn,
    EndTurn,
    Start,
    End,
    Respond,
    Intend(usize),
    Settle(usize),
    Leave,
}

/// Does the next step, claiming first; `None` if nothing is to be done but by a client.
pub(crate) fn step(world: &mut World, model: &[Reply], manner: Manner) -> Option<Answer> {
    match world.thread().waker() {
        Waker::Ended | Waker::Input | Waker::Parked | Waker::Answers(_) => return None,
        Waker::Timer(at) => world.now = world.now.max(at),
        Waker::Brain | Waker::Lease(_) => {}
    }
    let answer = if world.thread().lease.is_none() {
        claim(world)
    } else {
        perform(world, model, manner)
    };
    Some(answer.unwrap())
}

/// Claims as a kernel does: a suspect once more, alone.
fn claim(world: &mut World) -> Result<Answer, Refusal> {
    let answer = world.try_claim(1, None)?;
    if answer == Answer::Suspect {
        return Ok(world.claim_alone(None));
    }
    Ok(answer)
}

fn next(world: &World, manner: Manner) -> Next {
    let thread = world.thread();
    let phase =
        |wanted: fn(&Phase) -> bool| thread.calls.iter().position(|call| wanted(&call.phase));
    if !thread.interrupts.is_empty() {
        return Next::Stop;
    }
    if let Some(open) = thread.request {
        match (manner, open.answered, open.ended) {
            (Manner::Hasty, false, _) | (Manner::Usual, false, Some(_)) => return Next::Respond,
            (Manner::Usual, _, None) => return Next::End,
            (Manner::Hasty, true, _) | (Manner::Usual, true, Some(_)) => {}
        }
    }
    let Some(turn) = thread.turn else {
        return if thread.queue.is_empty() {
            Next::Leave
        } else {
            Next::TakeIn
        };
    };
    match turn.after {
        After::Answer | After::Refusal | After::Overflow
            if thread.queue.is_empty() || manner == Manner::Hasty =>
        {
            Next::EndTurn
        }
        After::Answer | After::Refusal | After::Overflow => Next::TakeIn,
        After::Input | After::Pause => Next::Start,
        After::Calls => phase(|phase| matches!(phase, Phase::Intended(_)))
            .map(Next::Settle)
            .or_else(|| phase(|phase| *phase == Phase::Allowed).map(Next::Intend))
            .or_else(|| phase(|phase| *phase == Phase::Asked).map(|_| Next::EndTurn))
            .unwrap_or(Next::Start),
    }
}

fn perform(world: &mut World, model: &[Reply], manner: Manner) -> Result<Answer, Refusal> {
    match next(world, manner) {
        Next::Stop => world.try_step(Step::Interrupt),
        Next::TakeIn => {
            let last = match (manner, world.thread().queue.front()) {
                (Manner::Hasty, Some(first)) => first.position,
                (Manner::Hasty, None) | (Manner::Usual, _) => world.state().tail,
            };
            world.try_step(Step::TakeIn { last })
        }
        Next::EndTurn => world.try_step(Step::EndTurn(Stop::EndTurn)),
        Next::Start => Ok(world.start("request")),
        Next::End => {
            let open = world.thread().request.unwrap().id;
            let epoch = world.fence.epoch;
            world.try_fact(epoch, open, Fact::RequestEnded(crate::acts::ended(open)))
        }
        Next::Respond => respond(world, model),
        Next::Intend(index) => {
            let call = world.thread().calls[index].id;
            world.try_fact(
                world.fence.epoch,
                call,
                Fact::Intended(crate::parts::hand(1)),
            )
        }
        Next::Settle(index) => {
            let call = world.thread().calls[index].id;
            let settled = world.settled(call);
            world.try_fact(world.fence.epoch, call, settled)
        }
        Next::Leave => world.try_step(Step::Release),
    }
}

fn respond(world: &mut World, model: &[Reply]) -> Result<Answer, Refusal> {
    let request = world.thread().request.unwrap().id;
    let said = world.ledger.responses.len() + world.ledger.errors;
    match &model[said % model.len()] {
        Reply::Words(after) => world.try_respond(request, *after, &[]),
        Reply::Calls(calls) => {
            let name = |index: usize| format!("call-{said}-{index}");
            let names: Vec<_> = (0..calls.len()).map(name).collect();
            let wanted: Vec<_> = names
                .iter()
                .zip(calls)
                .map(|(name, (tool, cut))| (name.as_str(), *tool, *cut))
                .collect();
            world.try_respond(request, After::Calls, &wanted)
        }
        Reply::Busy => Ok(world.retry()),
        Reply::Gone => Ok(world.fail(Then::Exhausted)),
    }
}

/// Works until only a client can go on; whoever works that long works in circles.
pub(crate) fn run(world: &mut World, model: &[Reply]) {
    for _ in 0..2_000 {
        if step(world, model, Manner::Usual).is_none() {
            return;
        }
    }
    panic!("no end in sight: {:?}", world.thread());
}
