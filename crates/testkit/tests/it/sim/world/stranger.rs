//! Harnesses that are not ours.

use outlast_harness::{Effect, step};
use outlast_kernel::{Asker, Claims, Lease, LeaseError};
use outlast_session::{
    After, Respond, Said, Step, Stop, Thread,
    body::{RequestEnded, Tokens},
    json,
};
use serde_json::{json, value::RawValue};

/// A harness that is not ours.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stranger {
    /// Calls a tool so many times in a turn, says one thing, and keeps notes.
    Speaks(u32),
    /// Comes to nothing.
    Breaks,
}

impl Stranger {
    /// Takes leases until the kernel is gone.
    pub(super) async fn run(self, mut claims: Claims) {
        while let Some(lease) = claims.recv().await {
            // A lease that cannot go on is given back by its end.
            match self {
                Self::Speaks(rounds) => drop(turn(&lease, rounds).await),
                Self::Breaks => lease.broke(),
            }
        }
    }
}

async fn turn(lease: &Lease, rounds: u32) -> Result<(), LeaseError> {
    loop {
        let state = lease.state();
        let Some(thread) = lease.held(&state) else {
            return Ok(());
        };
        match step(thread) {
            Effect::TakeIn { last } => drop(lease.propose(Step::TakeIn { last }).await?),
            Effect::CallModel => speak(lease, thread, rounds).await?,
            Effect::Execute(calls) => {
                for call in calls {
                    lease.execute(call).await?;
                }
            }
            Effect::EndTurn => drop(lease.propose(Step::EndTurn(Stop::EndTurn)).await?),
            other @ (Effect::Interrupt | Effect::Refuse | Effect::Overflow | Effect::Rest) => {
                panic!("a stranger is to do {other:?}")
            }
        }
    }
}

/// Makes a model request and answers it itself.
async fn speak(lease: &Lease, thread: &Thread, rounds: u32) -> Result<(), LeaseError> {
    let asker = Asker {
        session: lease.session(),
        thread: lease.thread_number(),
        epoch: lease.epoch(),
    };
    let (kernel, request) = (lease.kernel(), lease.event_id());
    let done = thread.turn.map_or(0, |turn| turn.rounds);
    if done == 0 {
        let note = json(&json!({ "note": "I begin" }));
        lease.propose(Step::Note(note)).await?;
    }
    kernel.request_started(asker, request).await?;
    let ended = RequestEnded {
        request,
        tokens: Tokens::default(),
        cost: None,
        failed: false,
        speed: None,
    };
    kernel.request_ended(asker, ended).await?;
    let said = if done < rounds {
        call(lease)
    } else {
        words(lease)
    };
    let response = Respond {
        request,
        blocks: Vec::new(),
        stop: "end_turn".to_owned(),
        details: None,
        after: After::Answer,
        events: vec![said],
    };
    lease.propose(Step::Respond(Box::new(response))).await?;
    Ok(())
}

fn call(lease: &Lease) -> Said {
    Said::Call {
        id: lease.event_id(),
        tool_use: "toolu".to_owned(),
        name: "bash".to_owned(),
        input: RawValue::from_string(r#"{"command":"c"}"#.to_owned()).unwrap(),
        cut: false,
    }
}

fn words(lease: &Lease) -> Said {
    let words = json(&json!({ "content": [{ "type": "text", "text": "words" }] }));
    Said::Message(lease.event_id(), words)
}
