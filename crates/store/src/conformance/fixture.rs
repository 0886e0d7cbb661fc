//! A store with what sessions need around it, and proposals in one word each.

use std::{fmt::Debug, io, sync::Arc, time::Duration};

use outlast_protocol::{
    Micros,
    id::{AgentId, ApiKeyId, EnvironmentId, EventId, ProcessId, SessionId, ThreadId},
    seam::{Clock, Entropy},
};
use outlast_session::{
    Act, After, Answer, Claim, Create, Fact, Fence, Input, Json, Proposal, Record, Respond, Said,
    Send, State, Step, body::Config, json,
};
use serde_json::{json, value::RawValue};

use crate::{
    Append, AppendError, End, Outcome, Records, Resource, ResourceKind, Slice, Source, Store,
};

/// A clock that the suite sets.
pub trait Dial: Clock {
    /// Sets the time of day, backwards too.
    fn set(&self, now: Micros);
}

/// What the suite runs on.
#[derive(Clone, Debug)]
pub struct Subject {
    /// An empty store.
    pub store: Arc<dyn Store>,
    /// The clock that the store was given.
    pub clock: Arc<dyn Dial>,
    /// Where ids of the suite come from; the store may share it.
    pub entropy: Arc<dyn Entropy>,
}

/// A store that holds an agent, an environment and a live process.
#[derive(Clone, Debug)]
pub struct World {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its clock.
    pub clock: Arc<dyn Dial>,
    /// Where ids come from.
    pub entropy: Arc<dyn Entropy>,
    /// Who sends.
    pub key: ApiKeyId,
    /// What sessions run.
    pub agent: AgentId,
    /// Where they run.
    pub environment: EnvironmentId,
    /// Who claims.
    pub process: ProcessId,
}

impl World {
    /// Puts agent, environment and process into the store.
    pub async fn new(subject: Subject) -> Self {
        let Subject {
            store,
            clock,
            entropy,
        } = subject;
        clock.set(Micros(1_800_000_000_000_000));
        let (at, random) = (clock.now(), &*entropy);
        let world = Self {
            key: ApiKeyId::mint(at, random),
            agent: AgentId::mint(at, random),
            environment: EnvironmentId::mint(at, random),
            process: ProcessId::mint(at, random),
            store,
            clock,
            entropy,
        };
        let agent = world.resource(ResourceKind::Agent, &world.agent.to_string());
        let place = world.resource(ResourceKind::Environment, &world.environment.to_string());
        world.store.insert(agent, None).await.unwrap();
        world.store.insert(place, None).await.unwrap();
        world.store.register(world.process, at).await.unwrap();
        world
    }

    /// Makes an object at revision 1.
    pub fn resource(&self, kind: ResourceKind, id: &str) -> Resource {
        let body = json(&json!({ "id": id }));
        let (id, created_at) = (id.to_owned(), self.clock.now());
        Resource {
            kind,
            id,
            revision: 1,
            created_at,
            archived_at: None,
            body,
            parent: None,
            unique_key: None,
        }
    }

    /// Moves the clock on.
    pub fn pass(&self, time: Duration) -> Micros {
        let now = self.clock.now().after(time);
        self.clock.set(now);
        now
    }

    /// Draws an event id.
    pub fn event(&self) -> EventId {
        EventId::mint(self.clock.now(), &*self.entropy)
    }

    /// Draws a process id.
    pub fn process(&self) -> ProcessId {
        ProcessId::mint(self.clock.now(), &*self.entropy)
    }

    /// Draws a session id.
    pub fn session_id(&self) -> SessionId {
        SessionId::mint(self.clock.now(), &*self.entropy)
    }

    /// Makes the configuration of a session.
    pub fn config(&self) -> Arc<Config> {
        let agent = json!({
            "type": "agent", "id": self.agent, "version": 1, "name": "agent",
            "execution_identity": { "type": "service_account" }, "mcp_servers": [],
            "model": { "id": "scripted", "effort": { "type": "high" }, "speed": "standard" },
            "skills": [], "tools": [{"type": "custom", "name": "ask", "description": "asks",
                "input_schema": {"type": "object"}}],
        });
        let agent = serde_json::from_value(agent).unwrap();
        let (environment_id, metadata) = (self.environment, Default::default());
        Arc::new(Config {
            agent,
            environment_id,
            title: None,
            metadata,
            resources: Vec::new(),
            vault_ids: Vec::new(),
            repositories: Vec::new(),
        })
    }

    /// Makes the proposal of a new session.
    pub fn create(&self) -> Create {
        let thread = ThreadId::mint(self.clock.now(), &*self.entropy);
        let (id, config, by) = (self.session_id(), self.config(), self.key);
        Create {
            id,
            thread,
            config,
            deadlines: Default::default(),
            inputs: Vec::new(),
            by,
            claim: None,
        }
    }

    /// Proposes without a receipt.
    pub async fn propose(
        &self,
        session: SessionId,
        proposal: Proposal,
    ) -> Result<Outcome, AppendError> {
        self.store
            .append(
                session,
                Append {
                    proposal,
                    receipt: None,
                },
            )
            .await
    }

    /// Creates a session.
    pub async fn session(&self) -> SessionId {
        let new = self.create();
        let id = new.id;
        let made = self
            .propose(id, Proposal::Create(Box::new(new)))
            .await
            .unwrap();
        assert_eq!(made.answer, Answer::Appended);
        id
    }

    /// Stores a response that asks the client, so that a brain has only to say that it waits.
    pub async fn asks(&self, brain: &mut Brain<'_>) {
        let (request, epoch) = (self.event(), brain.epoch);
        let fact = Fact::RequestStarted;
        let started = Proposal::Keyed {
            thread: 0,
            epoch,
            key: request,
            fact,
        };
        self.propose(brain.session, started).await.unwrap();
        let input = RawValue::from_string("{}".to_owned()).unwrap();
        let (tool_use, name) = ("toolu_1".to_owned(), "ask".to_owned());
        let call = Said::Call {
            id: self.event(),
            tool_use,
            name,
            input,
            cut: false,
        };
        let response = Respond {
            request,
            blocks: Vec::new(),
            stop: "tool_use".to_owned(),
            details: None,
            after: After::Answer,
            events: vec![call],
        };
        brain.say(Step::Respond(Box::new(response))).await.unwrap();
    }

    /// Sends a message.
    pub async fn send(&self, session: SessionId, text: &str) -> Outcome {
        self.propose(session, self.message(text)).await.unwrap()
    }

    /// Makes the proposal of a message.
    pub fn message(&self, text: &str) -> Proposal {
        let inputs = vec![input(text)];
        Proposal::Send(Send {
            inputs,
            by: self.key,
            claim: None,
        })
    }

    /// Makes the proposal to take the lease of thread 0.
    pub fn claim(&self) -> Proposal {
        Proposal::Claim {
            thread: 0,
            claim: Claim {
                process: self.process,
                dead: None,
            },
        }
    }

    /// Creates a session in which a brain has taken a message in; the state is what it sees.
    pub async fn running(&self) -> Brain<'_> {
        let session = self.session().await;
        self.send(session, "begin").await;
        let claimed = self.propose(session, self.claim()).await.unwrap();
        let epoch = claimed.state.thread(0).unwrap().epoch;
        let mut brain = Brain {
            world: self,
            session,
            epoch,
            seq: 0,
        };
        let last = claimed.state.tail;
        assert_eq!(
            brain.say(Step::TakeIn { last }).await.unwrap().answer,
            Answer::Appended
        );
        brain
    }

    /// Has a brain take in what waits in a session.
    pub async fn brain(&self, session: SessionId) -> Brain<'_> {
        let claimed = self.propose(session, self.claim()).await.unwrap();
        let epoch = claimed.state.thread(0).unwrap().epoch;
        let mut brain = Brain {
            world: self,
            session,
            epoch,
            seq: 0,
        };
        let last = claimed.state.tail;
        brain.say(Step::TakeIn { last }).await.unwrap();
        brain
    }

    /// Reads a whole log, a few records at a time.
    pub async fn log(&self, session: SessionId) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        loop {
            let from = records.last().map_or(0, |record| record.position);
            let page = self
                .store
                .read(session, Slice::after(from, 7))
                .await
                .unwrap();
            if page.is_empty() {
                return records;
            }
            records.extend(page);
        }
    }

    /// Returns the state at the head.
    pub async fn state(&self, session: SessionId) -> Arc<State> {
        self.store.head(session).await.unwrap()
    }
}

/// Makes a message of a client.
pub fn input(text: &str) -> Input {
    let body = json(&json!({ "content": [{ "type": "text", "text": text }] }));
    Input {
        act: Act::Message,
        body,
    }
}

/// Makes a note of a harness.
pub fn note(text: &str) -> Step {
    Step::Note(words(text))
}

/// Makes a body that holds a text.
pub fn words(text: &str) -> Json {
    json(&json!({ "note": text }))
}

/// A brain that holds a lease.
#[derive(Clone, Copy, Debug)]
pub struct Brain<'w> {
    world: &'w World,
    /// Its session.
    pub session: SessionId,
    /// Its lease.
    pub epoch: u64,
    /// What it said last.
    pub seq: u64,
}

impl Brain<'_> {
    /// Makes the proposal to say something at a place in the order.
    pub fn at(&self, seq: u64, step: Step) -> Proposal {
        let fence = Fence {
            epoch: self.epoch,
            seq,
            acked: 0,
        };
        Proposal::Brain {
            thread: 0,
            fence,
            step,
        }
    }

    /// Says the next thing.
    pub async fn say(&mut self, step: Step) -> Result<Outcome, AppendError> {
        self.seq += 1;
        let proposal = self.at(self.seq, step);
        self.world.propose(self.session, proposal).await
    }
}

/// A log in memory, as it came from another store.
#[derive(Clone, Debug)]
pub struct Log {
    /// Whose it is.
    pub session: SessionId,
    /// All of them, in order.
    pub records: Vec<Record>,
}

impl Source for Log {
    fn session(&self) -> SessionId {
        self.session
    }

    fn end(&self) -> End {
        self.records.last().map_or_else(
            || End::of_nothing(self.session),
            |last| End {
                tail: last.position,
                hash: last.hash,
            },
        )
    }

    fn records(&self) -> io::Result<Records<'_>> {
        Ok(Box::new(self.records.iter().cloned().map(Ok)))
    }
}
