//! What clients, brains, kernel and gateway do, in one word each.

use std::time::Duration;

use outlast_protocol::{Outcome, id::EventId};
use outlast_session::{
    After, Answer, Claim, Fact, Failure, Input, Proposal, Refusal, Respond, Said, Send, Step, Stop,
    Then, body::RequestEnded,
};
use serde_json::json;

use crate::{parts, world::World};

/// A call as a test names it: the call's name, the tool, and whether its input is cut.
pub(crate) type Wanted<'a> = (&'a str, &'a str, bool);

impl World {
    pub(crate) fn try_send(&mut self, inputs: Vec<Input>, claim: bool) -> Result<Answer, Refusal> {
        let claim = claim.then(|| Claim {
            process: parts::process(1),
            dead: None,
        });
        let by = parts::client();
        let answer = self.propose(&Proposal::Send(Send { inputs, by, claim }));
        self.meet();
        answer
    }

    /// Sends; nobody is free to start on it.
    pub(crate) fn send(&mut self, inputs: Vec<Input>) -> Answer {
        self.try_send(inputs, false).unwrap()
    }

    /// Sends; a brain starts on it if there is work.
    pub(crate) fn send_claimed(&mut self, inputs: Vec<Input>) -> Answer {
        self.try_send(inputs, true).unwrap()
    }

    pub(crate) fn try_claim(&mut self, by: u64, dead: Option<u64>) -> Result<Answer, Refusal> {
        let claim = Claim {
            process: parts::process(by),
            dead: dead.map(parts::process),
        };
        let answer = self.propose(&Proposal::Claim { thread: 0, claim });
        self.meet();
        answer
    }

    pub(crate) fn claim(&mut self) -> Answer {
        self.try_claim(1, None).unwrap()
    }

    /// Claims for a brain that works on no other suspect.
    pub(crate) fn claim_alone(&mut self, dead: Option<u64>) -> Answer {
        let claim = Claim {
            process: parts::process(1),
            dead: dead.map(parts::process),
        };
        let answer = self.propose(&Proposal::ClaimAlone { thread: 0, claim });
        self.meet();
        answer.unwrap()
    }

    /// Has an operator wake what is parked.
    pub(crate) fn revive(&mut self) -> Answer {
        let claim = Claim {
            process: parts::process(1),
            dead: None,
        };
        let answer = self.propose(&Proposal::Revive { thread: 0, claim });
        self.meet();
        answer.unwrap()
    }

    /// Gives the brain of the test the newest lease.
    fn meet(&mut self) {
        let Some(thread) = self.state.as_ref().and_then(|state| state.thread(0)) else {
            return;
        };
        if thread.lease.is_some() && thread.epoch > self.fence.epoch {
            let epoch = thread.epoch;
            self.fence = outlast_session::Fence {
                epoch,
                seq: 0,
                acked: 0,
            };
        }
    }

    /// Says the next thing under the lease; whatever is answered uses up the seq.
    pub(crate) fn try_step(&mut self, step: Step) -> Result<Answer, Refusal> {
        self.fence.acked = self.fence.seq;
        self.fence.seq += 1;
        self.say(step)
    }

    /// Says something under the fence as it stands.
    pub(crate) fn say(&mut self, step: Step) -> Result<Answer, Refusal> {
        let fence = self.fence;
        self.propose(&Proposal::Brain {
            thread: 0,
            fence,
            step,
        })
    }

    pub(crate) fn step(&mut self, step: Step) -> Answer {
        self.try_step(step).unwrap()
    }

    /// Takes in all that waits.
    pub(crate) fn take_in(&mut self) -> Answer {
        let last = self.state().tail;
        self.step(Step::TakeIn { last })
    }

    pub(crate) fn end_turn(&mut self) -> Answer {
        self.step(Step::EndTurn(Stop::EndTurn))
    }

    pub(crate) fn stop(&mut self) -> Answer {
        self.step(Step::Interrupt)
    }

    pub(crate) fn fail(&mut self, then: Then) -> Answer {
        self.step(failed(then))
    }

    /// Fails, to be tried again after a second.
    pub(crate) fn retry(&mut self) -> Answer {
        let at = self.now.after(Duration::from_secs(1));
        self.fail(Then::Retry(at))
    }

    /// Stores a response that is answered by these events.
    pub(crate) fn try_respond(
        &mut self,
        request: EventId,
        after: After,
        calls: &[Wanted<'_>],
    ) -> Result<Answer, Refusal> {
        let mut events = Vec::new();
        if calls.is_empty() {
            let body = parts::raw(&json!({"content": [{"type": "text", "text": "words"}]}));
            events.push(Said::Message(self.named("words"), body));
        }
        for (name, tool, cut) in calls {
            events.push(Said::Call {
                id: self.named(name),
                tool_use: (*name).to_owned(),
                name: (*tool).to_owned(),
                input: serde_json::value::to_raw_value(&json!({})).unwrap(),
                cut: *cut,
            });
        }
        let response = Respond {
            request,
            blocks: Vec::new(),
            stop: "end_turn".to_owned(),
            details: None,
            after,
            events,
        };
        self.try_step(Step::Respond(Box::new(response)))
    }

    pub(crate) fn try_fact(
        &mut self,
        epoch: u64,
        key: EventId,
        fact: Fact,
    ) -> Result<Answer, Refusal> {
        self.propose(&Proposal::Keyed {
            thread: 0,
            epoch,
            key,
            fact,
        })
    }

    fn fact(&mut self, key: EventId, fact: Fact) -> Answer {
        self.try_fact(self.fence.epoch, key, fact).unwrap()
    }

    pub(crate) fn start(&mut self, request: &str) -> Answer {
        let id = self.named(request);
        self.fact(id, Fact::RequestStarted)
    }

    pub(crate) fn ended(&mut self, request: &str) -> Answer {
        let id = self.id(request);
        self.fact(id, Fact::RequestEnded(ended(id)))
    }

    /// A whole request: start, end, response.
    pub(crate) fn model(&mut self, request: &str, after: After, calls: &[Wanted<'_>]) -> Answer {
        assert_eq!(self.start(request), Answer::Appended);
        assert_eq!(self.ended(request), Answer::Appended);
        let id = self.id(request);
        self.try_respond(id, after, calls).unwrap()
    }

    /// A whole request that ends in calls.
    pub(crate) fn calls(&mut self, request: &str, calls: &[Wanted<'_>]) -> Answer {
        self.model(request, After::Calls, calls)
    }

    /// A whole request that ends in words.
    pub(crate) fn answer(&mut self, request: &str) -> Answer {
        self.model(request, After::Answer, &[])
    }

    pub(crate) fn intend(&mut self, call: &str) -> Answer {
        self.fact(self.id(call), Fact::Intended(parts::hand(1)))
    }

    pub(crate) fn settle(&mut self, call: &str) -> Answer {
        let id = self.id(call);
        let fact = self.settled(id);
        self.fact(id, fact)
    }

    /// The word that a call is done.
    pub(crate) fn settled(&mut self, call: EventId) -> Fact {
        let body = json!({"tool_use_id": call, "content": [], "is_error": false});
        Fact::Settled(Outcome::Done, self.named("result"), parts::raw(&body))
    }
}

/// The word that a request is over.
pub(crate) fn ended(request: EventId) -> RequestEnded {
    RequestEnded {
        request,
        tokens: parts::tokens(100),
        cost: None,
        failed: false,
        speed: None,
    }
}

pub(crate) fn failed(then: Then) -> Step {
    let word = match then {
        Then::Retry(_) => "retrying",
        Then::Exhausted => "exhausted",
        Then::Terminal => "terminal",
    };
    let error = json!({"error": {
        "type": "model_overloaded_error", "message": "busy", "retry_status": {"type": word},
    }});
    let error = parts::raw(&error);
    Step::Fail(Failure { error, then })
}
