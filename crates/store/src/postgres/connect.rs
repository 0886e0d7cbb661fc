//! Connections, each with its own statements and a task that carries its bytes.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use outlast_protocol::seam::Entropy;
use tokio::time::timeout;
use tokio_postgres::{Client, Row, Statement, types::ToSql};
use tokio_util::task::TaskTracker;

use super::{
    carry::{Carrier, Slot},
    fault::Fault,
    url::Target,
};
use crate::troubles::Troubles;

/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 256;

/// How long it may take until a session can be used.
pub(super) const GREETING: Duration = Duration::from_secs(10);

/// The wait for an answer where nobody waits for what follows from it, as of a migration.
const UNHURRIED: Duration = Duration::from_secs(24 * 60 * 60);

/// What every session is set to. The bounds keep one that hangs from holding up all others.
const SETTINGS: &str = "SET default_transaction_isolation = 'read committed'; \
                        SET statement_timeout = '30s'; \
                        SET lock_timeout = '10s'; \
                        SET idle_in_transaction_session_timeout = '30s'; \
                        SET client_min_messages = 'warning'";

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    target: Target,
    carrier: Carrier,
    patience: Duration,
    entropy: Arc<dyn Entropy>,
    troubles: Arc<Troubles>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Durability {
    /// It does.
    Synced,
    /// It does not: what is lost with the database's machine is no loss.
    Hasty,
}

/// One session of the database.
pub(super) struct Connection {
    client: Client,
    /// The longest wait for an answer; a server that is stopped keeps its connections open.
    patience: Duration,
    /// Set once an answer did not come: whatever else is asked here might not be answered either.
    silent: AtomicBool,
    statements: Mutex<HashMap<Box<str>, Statement>>,
    troubles: Arc<Troubles>,
    /// The server's process and when it began: together they name it for ever.
    pub(super) backend: Backend,
}

/// A server process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Backend {
    pub(super) pid: i32,
    pub(super) began: String,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

/// A value of a statement.
pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

impl Connector {
    pub(super) fn new(target: Target, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            target,
            carrier: Carrier::Tasks(TaskTracker::new()),
            patience: UNHURRIED,
            entropy,
            troubles: Arc::default(),
        }
    }

    /// Returns one whose connections are carried by the task that uses them, one at a time.
    pub(super) fn carried_in(&self, slot: Arc<Slot>) -> Self {
        let carrier = Carrier::Slot(slot);
        Self {
            carrier,
            ..self.clone()
        }
    }

    /// Gives up on connections that leave something unanswered for so long.
    pub(super) fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns what is noted of writes that the database did not take, on whatever connection.
    pub(super) fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Makes a connection.
    pub(super) async fn connect(&self, durability: Durability) -> Result<Connection, Fault> {
        // The driver's own bound ends when the port is open, whoever has it.
        let made = match timeout(GREETING, self.greet(durability)).await {
            Ok(made) => made.map_err(away),
            Err(_) => Err(silent()),
        };
        made.inspect_err(|fault| self.troubles.met(fault.away().lack))
    }

    /// Makes a connection on which nothing was said yet.
    pub(super) async fn bare(&self) -> Result<Client, Fault> {
        match timeout(GREETING, self.dial()).await {
            Ok(made) => made.map_err(away),
            Err(_) => Err(silent()),
        }
    }

    async fn greet(&self, durability: Durability) -> Result<Connection, tokio_postgres::Error> {
        let made = setup(self.dial().await?, durability).await?;
        Ok(Connection {
            patience: self.patience,
            troubles: self.troubles.clone(),
            ..made
        })
    }

    async fn dial(&self) -> Result<Client, tokio_postgres::Error> {
        let connecting = self.target.config.connect(self.target.tls.clone());
        let (client, connection) = connecting.await?;
        self.carrier.carry(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        Ok(client)
    }

    /// Returns how long to wait before the `tries`th try to connect: twice as long each time, up to
    /// 400 ms, and never the same for two.
    pub(super) fn backoff(&self, tries: u32) -> Duration {
        let most = Duration::from_millis(50) * 2_u32.pow(tries.min(3));
        let mut byte = [0];
        self.entropy.fill(&mut byte);
        most / 2 + most / 2 * u32::from(byte[0]) / 255
    }
}

/// An error while connecting: nothing was asked for yet.
fn away(error: tokio_postgres::Error) -> Fault {
    Fault::Away(format!(
        "the database cannot be reached: {}",
        Fault::from(error)
    ))
}

fn silent() -> Fault {
    Fault::Away(format!(
        "the database cannot be reached: it said nothing for {GREETING:?}"
    ))
}

async fn setup(
    client: Client,
    durability: Durability,
) -> Result<Connection, tokio_postgres::Error> {
    client.batch_execute(SETTINGS).await?;
    if durability == Durability::Hasty {
        client.batch_execute("SET synchronous_commit = off").await?;
    }
    let own = client
        .query_one(
            "SELECT pg_backend_pid(), coalesce((SELECT extract(epoch FROM backend_start)::text FROM pg_stat_activity \
             WHERE pid = pg_backend_pid()), '')",
            &[],
        )
        .await?;
    let backend = Backend {
        pid: own.try_get(0)?,
        began: own.try_get(1)?,
    };
    Ok(Connection {
        client,
        patience: UNHURRIED,
        silent: AtomicBool::new(false),
        statements: Mutex::default(),
        troubles: Arc::default(),
        backend,
    })
}

impl Connection {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.silent.load(Ordering::Relaxed)
    }

    /// Waits for an answer, but not for ever.
    async fn answered<T>(
        &self,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Fault> {
        let answer = match timeout(self.patience, asked).await {
            Ok(answer) => answer.map_err(Fault::from),
            Err(_) => {
                self.silent.store(true, Ordering::Relaxed);
                Err(Fault::Silent)
            }
        };
        let ails = |fault: &&Fault| fault.is_of_the_database() || !fault.is_certain();
        if let Some(fault) = answer.as_ref().err().filter(ails) {
            self.troubles.met(fault.away().lack);
        }
        answer
    }

    fn known(&self, text: &str) -> Option<Statement> {
        let statements = self.statements.lock();
        let statements = statements.unwrap_or_else(PoisonError::into_inner);
        statements.get(text).cloned()
    }

    /// Prepares a statement, once per connection.
    pub(super) async fn prepare(&self, text: &str) -> Result<Statement, Fault> {
        if let Some(known) = self.known(text) {
            return Ok(known);
        }
        let statement = self.answered(self.client.prepare(text)).await?;
        let statements = self.statements.lock();
        let mut statements = statements.unwrap_or_else(PoisonError::into_inner);
        if statements.len() >= STATEMENTS {
            statements.clear();
        }
        statements.insert(text.into(), statement.clone());
        Ok(statement)
    }

    /// Returns the rows that a statement gives.
    pub(super) async fn rows(&self, text: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        let statement = self.prepare(text).await?;
        self.answered(self.client.query(&statement, values)).await
    }

    /// Returns the first row that a statement gives.
    pub(super) async fn row(&self, text: &str, values: &[Value<'_>]) -> Result<Option<Row>, Fault> {
        Ok(self.rows(text, values).await?.into_iter().next())
    }

    /// Tells whether a statement gives a row.
    pub(super) async fn exists(&self, text: &str, values: &[Value<'_>]) -> Result<bool, Fault> {
        Ok(!self.rows(text, values).await?.is_empty())
    }

    /// Runs a statement; returns how many rows it touched.
    pub(super) async fn run(&self, text: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        let statement = self.prepare(text).await?;
        let touched = self.answered(self.client.execute(&statement, values));
        let touched = touched.await?;
        self.troubles.over();
        Ok(touched)
    }

    /// Runs statements without values.
    pub(super) async fn batch(&self, text: &str) -> Result<(), Fault> {
        self.answered(self.client.batch_execute(text)).await
    }

    /// Makes a query that is sent when it is first polled: its statement is prepared already.
    pub(super) fn sent<'a>(
        &'a self,
        statement: &'a Statement,
        values: Vec<Value<'a>>,
    ) -> BoxFuture<'a, Result<Vec<Row>, Fault>> {
        Box::pin(async move {
            let asked = self.client.query(statement, &values);
            self.answered(asked).await
        })
    }

    /// Makes a command that is sent when it is first polled.
    pub(super) fn told<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Vec<Row>, Fault>> {
        Box::pin(async move {
            self.answered(self.client.batch_execute(text)).await?;
            Ok(Vec::new())
        })
    }
}

/// Sends queries in this order, all before the first answer, and returns their answers.
pub(super) async fn flight<T>(queries: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    use std::task::Poll;
    let mut left: Vec<_> = queries.into_iter().map(Err).collect();
    std::future::poll_fn(move |context| {
        let mut done = true;
        for one in &mut left {
            if let Err(query) = one {
                match query.as_mut().poll(context) {
                    Poll::Ready(answer) => *one = Ok(answer),
                    Poll::Pending => done = false,
                }
            }
        }
        if !done {
            return Poll::Pending;
        }
        Poll::Ready(left.drain(..).filter_map(Result::ok).collect())
    })
    .await
}
