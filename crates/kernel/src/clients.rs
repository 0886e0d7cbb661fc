//! What clients do with sessions.

use std::sync::Arc;

use outlast_protocol::{
    ErrorCode, Problem,
    event::{Body as _, ClientEvent, Confirmation, SessionUpdated},
    id::{ApiKeyId, SessionId, ThreadId},
    read::Patch,
    session::{Session, Thread, UpdateSession},
};
use outlast_session::{
    Act, Answer, Claim, Create, Input, Kind, Proposal, Record, Send, State, Update, body::Config,
    view,
};
use outlast_store::{AppendError, Listing, Outcome, Receipt, SessionQuery};
use tokio::task::{JoinError, JoinHandle};

use crate::{Kernel, checkpoint, error, kernel::Inner, repositories::Draft};

/// Tries of an update whose configuration changes underneath it.
const TRIES: usize = 100;

impl Kernel {
    /// Makes a session with its first events and starts on it at once if a slot is free.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::EnvironmentNotFound`], or the log is unavailable; nothing exists then.
    pub async fn create(
        &self,
        by: ApiKeyId,
        draft: Draft,
        events: &[ClientEvent],
        receipt: Option<Receipt>,
    ) -> Result<Session, Problem> {
        self.check_sources("initial_events", events).await?;
        let Draft { id, config, tokens } = draft;
        let thread = ThreadId::mint(self.now(), self.entropy());
        let config = Arc::new(config);
        let make = |claim| {
            Proposal::Create(Box::new(Create {
                id,
                thread,
                config: config.clone(),
                deadlines: self.0.options.deadlines,
                inputs: events.iter().map(input).collect(),
                by,
                claim,
            }))
        };
        let with_tokens = !tokens.is_empty();
        self.0.keep_tokens(tokens).await?;
        let accepted = self.accept(id, make, receipt).await;
        // A repeat of the request found the session that the first one made.
        if with_tokens
            && !accepted
                .as_ref()
                .is_ok_and(|outcome| outcome.state.id == id)
        {
            self.0.drop_tokens(id).await;
        }
        let outcome = accepted?;
        // As it was at that moment: a repeat of the request gets the same answer.
        view::session(&outcome.state, outcome.state.at, self.0.options.hour_price)
            .ok_or_else(|| error::internal(&"a session without configuration"))
    }

    /// Accepts events, all or none, and wakes what they concern.
    ///
    /// Returns the records that they became: of each, its arrival where it has one.
    pub async fn send(
        &self,
        by: ApiKeyId,
        session: SessionId,
        events: &[ClientEvent],
        receipt: Option<Receipt>,
    ) -> Result<Vec<Record>, Problem> {
        self.check_sources("events", events).await?;
        let make = |claim| {
            let inputs = events.iter().map(input).collect();
            Proposal::Send(Send { inputs, by, claim })
        };
        let outcome = self.accept(session, make, receipt).await?;
        Ok(accepted(&outcome.records))
    }

    /// Accepts what a client wants, and claims along with it if a slot is free.
    async fn accept(
        &self,
        session: SessionId,
        make: impl Fn(Option<Claim>) -> Proposal,
        receipt: Option<Receipt>,
    ) -> Result<Outcome, Problem> {
        let (permit, claim) = self.0.reserve_next().unzip();
        let append = |claim, permit| {
            let proposal = make(claim);
            self.0.append(session, proposal, receipt.clone(), permit)
        };
        match append(claim, permit).await {
            // That is nothing to the client: another process has a brain for it.
            Ok(Err(AppendError::Dead(_))) => join(append(None, None)).await,
            outcome => told(outcome),
        }
    }

    /// Returns a session.
    pub async fn session(&self, session: SessionId) -> Result<Session, Problem> {
        let state = self.state(session).await?;
        self.view(&state)
    }

    /// Returns the fold of a session's log.
    pub async fn state(&self, session: SessionId) -> Result<Arc<State>, Problem> {
        let head = self.0.store.head(session).await;
        head.map_err(|fault| error::of(session, &fault))
    }

    /// Lists sessions.
    pub async fn sessions(&self, query: &SessionQuery) -> Result<(Vec<Session>, bool), Problem> {
        let Listing { sessions, more } = self
            .0
            .store
            .sessions(query)
            .await
            .map_err(|error| error::read(&error))?;
        let shown = sessions
            .iter()
            .map(|state| self.view(state))
            .collect::<Result<_, _>>()?;
        Ok((shown, more))
    }

    /// Returns a thread of a session.
    pub async fn thread(&self, session: SessionId, id: ThreadId) -> Result<Thread, Problem> {
        let state = self.state(session).await?;
        let (number, _) = state
            .find(id)
            .ok_or_else(|| Problem::not_found(format_args!("thread `{id}`")))?;
        view::thread(&state, number, self.now()).ok_or_else(|| error::internal(&"no configuration"))
    }

    /// Returns all threads of a session, the primary first.
    pub async fn threads(&self, session: SessionId) -> Result<Vec<Thread>, Problem> {
        let state = self.state(session).await?;
        let numbers = (0_u32..).take(state.threads.len());
        Ok(numbers
            .filter_map(|number| view::thread(&state, number, self.now()))
            .collect())
    }

    /// Changes title, metadata or tools; a change of nothing appends nothing.
    pub async fn update(
        &self,
        by: ApiKeyId,
        session: SessionId,
        change: &UpdateSession,
    ) -> Result<Session, Problem> {
        for _ in 0..TRIES {
            let state = self.state(session).await?;
            let Some(update) = updated(&state, change, by)? else {
                return self.view(&state);
            };
            let outcome =
                join(self.0.append(session, Proposal::Update(update), None, None)).await?;
            if outcome.answer != Answer::Changed {
                return self.view(&outcome.state);
            }
        }
        let words = format!("session `{session}` is being updated by others; try again");
        Err(Problem::new(ErrorCode::Conflict, words))
    }

    /// Ends a session and keeps its log; its hand goes.
    pub async fn archive(&self, by: ApiKeyId, session: SessionId) -> Result<Session, Problem> {
        let outcome = join(self.0.append(session, Proposal::Archive(by), None, None)).await?;
        self.0.archived(&outcome.state).await;
        self.view(&outcome.state)
    }

    /// Ends a session and drops its log; its hand goes.
    pub async fn delete(&self, by: ApiKeyId, session: SessionId) -> Result<(), Problem> {
        let outcome = join(self.0.append(session, Proposal::Delete(by), None, None)).await?;
        self.0.hands.forget(&outcome.state).await;
        self.0.forget_tokens(&outcome.state).await;
        Ok(())
    }

    /// Returns what clients see of a state.
    pub fn view(&self, state: &State) -> Result<Session, Problem> {
        view::session(state, self.now(), self.0.options.hour_price)
            .ok_or_else(|| error::internal(&"a session without configuration"))
    }

    /// Returns the session as it was when `last` was its newest record.
    pub async fn session_at(&self, session: SessionId, last: u64) -> Result<Session, Problem> {
        let records = self.slice(session, 0, last).await?;
        let mut state = State::blank(session);
        for record in &records {
            outlast_session::fold(&mut state, &record.entry())
                .map_err(|fault| error::internal(&fault))?;
        }
        let at = state.at;
        view::session(&state, at, self.0.options.hour_price)
            .ok_or_else(|| error::internal(&"a session without configuration"))
    }

    /// Returns the accepted events among the records after `first - 1` up to `last`.
    pub async fn accepted(
        &self,
        session: SessionId,
        first: u64,
        last: u64,
    ) -> Result<Vec<Record>, Problem> {
        Ok(accepted(
            &self.slice(session, first.saturating_sub(1), last).await?,
        ))
    }

    async fn slice(
        &self,
        session: SessionId,
        after: u64,
        last: u64,
    ) -> Result<Vec<Record>, Problem> {
        let limit = usize::try_from(last.saturating_sub(after)).unwrap_or(0);
        let slice = outlast_store::Slice::after(after, limit);
        self.0
            .store
            .read(session, slice)
            .await
            .map_err(|error| error::read(&error))
    }
}

impl Inner {
    /// Brings what an archived session's hand has left to safety, and lets the hand go.
    pub(crate) async fn archived(self: &Arc<Self>, state: &State) {
        self.publish_of(state).await;
        self.hands.forget(state).await;
        checkpoint::remove(self, state).await;
        self.forget_tokens(state).await;
    }
}

/// Waits for an append and turns its failure into words for a client.
pub(crate) async fn join(
    handle: JoinHandle<Result<Outcome, AppendError>>,
) -> Result<Outcome, Problem> {
    told(handle.await)
}

fn told(outcome: Result<Result<Outcome, AppendError>, JoinError>) -> Result<Outcome, Problem> {
    match outcome {
        Ok(outcome) => outcome.map_err(error::append),
        Err(fault) => Err(error::internal(&fault)),
    }
}

/// Returns what a client's event does, and its body.
fn input(event: &ClientEvent) -> Input {
    let act = match event {
        ClientEvent::UserMessage(_) => Act::Message,
        ClientEvent::SystemMessage(_) => Act::System,
        ClientEvent::UserInterrupt(interrupt) => Act::Interrupt {
            thread: interrupt.session_thread_id,
        },
        ClientEvent::UserToolConfirmation(answer) => {
            let deny = answer.result == Confirmation::Deny;
            let deny = deny.then(|| answer.deny_message.clone());
            Act::Confirm {
                call: answer.tool_use_id,
                deny,
            }
        }
        ClientEvent::UserCustomToolResult(result) => Act::Result {
            call: result.custom_tool_use_id,
        },
    };
    Input {
        act,
        body: event.to_raw().into(),
    }
}

/// Picks the client's own events: the arrival of each, or its place if it has no arrival.
///
/// An interrupt can place what waited before it; those events are of earlier requests.
fn accepted(records: &[Record]) -> Vec<Record> {
    const OWN: [Kind; 5] = [
        Kind::ArrivedMessage,
        Kind::ArrivedInterrupt,
        Kind::ArrivedSystem,
        Kind::UserToolConfirmation,
        Kind::UserCustomToolResult,
    ];
    let before = std::iter::once(None).chain(records.iter().map(|record| Some(record.kind)));
    let own = records.iter().zip(before).filter(|(record, before)| {
        // A system message that waited stands behind its message, one that did not behind its result.
        let placed = record.kind == Kind::SystemMessage;
        OWN.contains(&record.kind) || (placed && *before == Some(Kind::UserCustomToolResult))
    });
    own.map(|(record, _)| record.clone()).collect()
}

/// Makes the proposal of an update; `None` if it changes nothing.
fn updated(state: &State, change: &UpdateSession, by: ApiKeyId) -> Result<Option<Update>, Problem> {
    let from = state
        .config
        .clone()
        .ok_or_else(|| error::internal(&"no configuration"))?;
    let mut config = (*from).clone();
    match &change.title {
        Patch::Keep => {}
        Patch::Clear => config.title = None,
        Patch::Set(title) => config.title = Some(title.clone()),
    }
    config.metadata = change.metadata.apply(&config.metadata)?;
    match &change.tools {
        Patch::Keep => {}
        Patch::Clear => config.agent.tools = outlast_protocol::agent::Tools::default(),
        Patch::Set(tools) => config.agent.tools = tools.clone(),
    }
    if config == *from {
        return Ok(None);
    }
    let agent = config.agent != from.agent;
    let event = changes(&from, &config, agent);
    Ok(Some(Update {
        from,
        config: Arc::new(config),
        event,
        agent,
        by,
    }))
}

/// Returns the body of `session.updated`: what changed and nothing else.
fn changes(from: &Config, config: &Config, agent: bool) -> outlast_session::Json {
    let event = SessionUpdated {
        agent: agent.then(|| config.agent.clone()),
        metadata: if config.metadata == from.metadata {
            outlast_protocol::Metadata::new()
        } else {
            config.metadata.clone()
        },
        title: (config.title != from.title).then(|| config.title.clone()),
    };
    event.to_raw().into()
}
