//! One session with its log, and whoever speaks to it.

use std::collections::HashMap;

use outlast_protocol::{Micros, id::EventId};
use outlast_session::{
    Answer, Context, Create, Decision, DraftBody, Entry, Ids as _, Json, Kind, Origin, Proposal,
    Refusal, Rules, State, Thread, admit, fold,
};
use outlast_testkit::ledger::{Ledger, compare};

use crate::{label, parts};

/// A record as a store would keep it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) position: u64,
    pub(crate) thread: u32,
    pub(crate) at: Micros,
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    pub(crate) event: Option<EventId>,
    pub(crate) body: Json,
}

impl Kept {
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry {
            position: self.position,
            thread: self.thread,
            at: self.at,
            origin: &self.origin,
            kind: self.kind,
            event: self.event,
            body: Some(self.body.get()),
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.body.get()).unwrap()
    }
}

/// A session, what was said in it, and a brain that remembers its fence.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) state: Option<State>,
    pub(crate) log: Vec<Kept>,
    pub(crate) rules: Rules,
    pub(crate) now: Micros,
    pub(crate) ids: parts::Numbered,
    pub(crate) names: HashMap<EventId, String>,
    pub(crate) fence: outlast_session::Fence,
    pub(crate) seen: usize,
    pub(crate) ledger: Ledger,
}

impl World {
    /// A session of a model that takes system messages, with a record behind it and nothing to do.
    pub(crate) fn new() -> Self {
        Self::of("model-that-takes-system")
    }

    pub(crate) fn of(model: &str) -> Self {
        let mut world = Self::empty();
        world
            .propose(&Proposal::Create(Box::new(Create {
                id: parts::session(),
                thread: parts::primary(),
                config: parts::config(model),
                deadlines: Default::default(),
                inputs: Vec::new(),
                by: parts::client(),
                claim: None,
            })))
            .unwrap();
        world.seen = world.log.len();
        world
    }

    /// No session yet.
    pub(crate) fn empty() -> Self {
        Self {
            state: None,
            log: Vec::new(),
            rules: Rules::default(),
            now: Micros(1_000_000),
            ids: parts::Numbered::default(),
            names: HashMap::new(),
            fence: outlast_session::Fence {
                epoch: 0,
                seq: 0,
                acked: 0,
            },
            seen: 0,
            ledger: Ledger::default(),
        }
    }

    pub(crate) fn state(&self) -> &State {
        self.state.as_ref().unwrap()
    }

    pub(crate) fn thread(&self) -> &Thread {
        self.state().thread(0).unwrap()
    }

    /// Proposes; what is admitted is appended, and every invariant is looked at.
    pub(crate) fn propose(&mut self, proposal: &Proposal) -> Result<Answer, Refusal> {
        let takes_system = |model: &str| model == "model-that-takes-system";
        let mut context = Context {
            now: self.now,
            ids: &mut self.ids,
            rules: &self.rules,
            takes_system: &takes_system,
        };
        let decision = admit(self.state.as_ref(), proposal, &mut context)?;
        let answer = decision.answer;
        self.append(decision);
        self.now = self.now.after(std::time::Duration::from_millis(1));
        Ok(answer)
    }

    fn append(&mut self, decision: Decision) {
        let id = decision.state.id;
        let mut replayed = self.state.take().unwrap_or_else(|| State::blank(id));
        let tail = replayed.tail;
        for (draft, position) in decision.drafts.iter().zip(tail + 1..) {
            let body = match &draft.body {
                DraftBody::Json(body) => body.clone(),
                DraftBody::Copy(from) => self.log[usize::try_from(*from).unwrap() - 1].body.clone(),
            };
            let kept = Kept {
                position,
                thread: draft.thread,
                at: decision.at,
                origin: decision.origin.clone(),
                kind: draft.kind,
                event: draft.event,
                body,
            };
            fold(&mut replayed, &kept.entry()).unwrap();
            self.ledger.read(&kept.entry());
            self.log.push(kept);
        }
        assert_eq!(replayed, decision.state, "a replay gives another state");
        self.state = Some(decision.state);
        compare(&self.ledger, self.state());
    }

    /// A fresh event id under a name.
    pub(crate) fn named(&mut self, name: &str) -> EventId {
        let id = self.ids.event();
        self.names.insert(id, name.to_owned());
        id
    }

    /// The newest event of that name.
    pub(crate) fn id(&self, name: &str) -> EventId {
        let found = self.names.iter().filter(|(_, given)| *given == name);
        *found.map(|(id, _)| id).max().unwrap()
    }

    /// What was appended since the last look, one line a record.
    pub(crate) fn news(&mut self) -> Vec<String> {
        let news = self.log[self.seen..].iter();
        let lines = news.map(|kept| label::line(self, kept)).collect();
        self.seen = self.log.len();
        lines
    }

    /// Asserts that exactly these records were appended since the last look.
    #[track_caller]
    pub(crate) fn appended(&mut self, expected: &[&str]) {
        let news = self.news();
        assert_eq!(news, expected, "\ngot:\n  {}\n", news.join("\n  "));
    }

    /// Looks away from what was appended so far.
    pub(crate) fn skip(&mut self) {
        self.seen = self.log.len();
    }
}
