//! The flight of a round: statements sent together, and what their answers mean.

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_postgres::{Row, Statement};

use super::{
    Lane,
    doubt::Doubt,
    plan::{Group, Plan, Write},
    sides::{holds, sides},
    statement::{batch, single},
};
use crate::{
    metric_definitions as metrics,
    postgres::{
        connect::{Connection, flight},
        fault::Fault,
        sql::Sql,
    },
    stored::integer,
};

/// Appends up to which each has a statement of its own: cheaper than arrays for so few.
const FEW: usize = 6;

/// Transactions that may fail because of others before that is told.
const PATIENCE: u32 = 16;

/// Whether a head that nothing is written behind is still the newest.
const NEWEST: &str = "SELECT no FROM sessions WHERE id = $1 AND tail = $2 AND hash = $3";

/// What a statement of a flight is for.
#[derive(Clone, Debug)]
enum Part {
    /// Nothing that is looked at.
    Aside,
    /// The appends of these plans, with the number of their session where that is known; a row for
    /// each that was taken.
    Appends(Vec<(usize, Option<i64>)>),
    /// Whether the head of this plan is the newest.
    Newest(usize),
}

/// A flight as it is put together.
#[derive(Debug, Default)]
struct Parts {
    all: Vec<(Part, Sql)>,
}

/// What became of a flight.
enum Came {
    /// Plans that were taken, with the number of their session, and those whose head is the newest.
    Done(Vec<(usize, i64)>, Vec<usize>),
    /// Nothing was written.
    Failed(Fault),
    /// Nobody knows.
    Lost(Fault),
}

impl Lane {
    /// Sends the plans of a round, and does what follows from their answers.
    pub(super) async fn send(&mut self, connection: &Connection, plans: Vec<Plan>) {
        let (settled, open): (Vec<Plan>, Vec<Plan>) = plans
            .into_iter()
            .partition(|plan| plan.write.is_none() && plan.fresh);
        // Decided from a head that was read just now, and nothing is to be written.
        settled.into_iter().for_each(|plan| self.answer(plan));
        if open.is_empty() {
            return;
        }
        let parts = match Parts::of(&open) {
            Ok(parts) => parts,
            Err(error) => return self.fail(open, &Fault::from(error)),
        };
        let many = parts.writing() > 1;
        let came = parts.fly(connection, many).await;
        self.land(connection, open, came);
    }

    /// Sends a plan within a transaction that holds its row.
    pub(super) async fn send_held(&mut self, connection: &Connection, plans: Vec<Plan>) {
        let (settled, open): (Vec<Plan>, Vec<Plan>) =
            plans.into_iter().partition(|plan| plan.write.is_none());
        settled.into_iter().for_each(|plan| self.answer(plan));
        if open.is_empty() {
            drop(connection.batch("ROLLBACK").await);
            return;
        }
        let parts = match Parts::of(&open) {
            Ok(parts) => parts,
            Err(error) => {
                drop(connection.batch("ROLLBACK").await);
                return self.fail(open, &Fault::from(error));
            }
        };
        let came = parts.end(connection).await;
        self.land(connection, open, came);
    }

    fn land(&mut self, connection: &Connection, plans: Vec<Plan>, came: Came) {
        match came {
            Came::Done(taken, newest) => self.done(plans, &taken, &newest),
            Came::Failed(fault) => self.failed(plans, &fault),
            Came::Lost(fault) => {
                tracing::warn!(error = %fault, "the connection broke under a round of appends");
                let backend = &connection.backend;
                for plan in plans {
                    let backend = backend.clone();
                    self.doubts.push(Doubt { plan, backend });
                }
            }
        }
    }

    fn done(&mut self, plans: Vec<Plan>, taken: &[(usize, i64)], newest: &[usize]) {
        self.room.connector.troubles().over();
        let mut again = Vec::new();
        for (at, plan) in plans.into_iter().enumerate() {
            match taken.iter().find(|(index, _)| *index == at) {
                Some((_, no)) => self.tell(plan, *no),
                None if newest.contains(&at) => self.answer(plan),
                None => again.push(plan.group),
            }
        }
        for mut group in again.into_iter().rev() {
            group.tries += 1;
            self.again(group);
        }
    }

    /// A transaction did nothing: another try, each by itself, or a word to its writers.
    fn failed(&mut self, plans: Vec<Plan>, fault: &Fault) {
        let single = plans.len() == 1 && plans.iter().all(|plan| plan.group.jobs.len() == 1);
        if fault.is_of_the_database() || (single && fault.is_certain() && !fault.is_contention()) {
            return self.fail(plans, fault);
        }
        tracing::debug!(error = %fault, "a round of appends is tried again");
        // The connection broke before anything was sent.
        let unsent = !fault.is_certain();
        let groups: Vec<Group> = plans.into_iter().map(|plan| plan.group).collect();
        for mut group in groups.into_iter().rev() {
            if unsent {
                self.again(group);
                continue;
            }
            if fault.is_contention() {
                group.tries += 1;
                if group.tries > PATIENCE {
                    self.room.heads.forget(group.session);
                    super::fail(group.jobs, &fault.into());
                    continue;
                }
                self.again(group);
                continue;
            }
            // One of them is at fault: each goes alone, and then that one is told.
            let (session, tries) = (group.session, group.tries);
            for job in group.jobs.into_iter().rev() {
                let jobs = vec![job];
                self.again(Group {
                    session,
                    jobs,
                    tries,
                    alone: true,
                });
            }
        }
    }

    fn fail(&self, plans: Vec<Plan>, fault: &Fault) {
        metrics::failed();
        if fault.is_of_room() {
            self.teller.full(&"the database", fault);
        } else {
            tracing::error!(error = %fault, "appends could not be written");
        }
        for plan in plans {
            self.room.heads.forget(plan.group.session);
            let answers = plan.answers.iter();
            let answers = answers.map(|answer| match answer {
                Ok(_) => Err(fault.into()),
                Err(error) => Err(error.clone()),
            });
            let answers = answers.collect();
            self.answer(Plan { answers, ..plan });
        }
    }
}

/// Returns the number of the session of a write, where that is known.
fn number(write: &Write) -> Option<i64> {
    write.before.as_ref().map(|before| before.no)
}

impl Parts {
    /// Puts the statements of some plans together.
    fn of(plans: &[Plan]) -> Result<Self, serde_json::Error> {
        let mut parts = Self::default();
        let mut writes: Vec<(usize, &Write)> = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            match (&plan.write, &plan.before) {
                (Some(write), _) => writes.push((at, write)),
                (None, Some(before)) => {
                    let mut sql = Sql::new(NEWEST);
                    sql.give(plan.group.session.to_string());
                    sql.give(integer(before.state.tail));
                    sql.give(before.hash.to_vec());
                    parts.all.push((Part::Newest(at), sql));
                }
                (None, None) => {}
            }
        }
        // Rows are locked in one order by everybody; new ones are nobody else's.
        writes.sort_by_key(|(_, write)| write.before.as_ref().map_or(i64::MAX, |head| head.no));
        let all: Vec<&Write> = writes.iter().map(|(_, write)| *write).collect();
        for sql in holds(&all) {
            parts.all.push((Part::Aside, sql));
        }
        // Those that have to hold something else have a statement of their own.
        let plain = |write: &Write| {
            write.before.is_some()
                && write.objects.is_empty()
                && write.sources.is_empty()
                && write.begun.is_empty()
                && write.guarded().next().is_none()
        };
        let many = writes.iter().filter(|(_, write)| plain(write)).count() > FEW;
        let (batched, own): (Vec<_>, Vec<_>) = writes
            .into_iter()
            .partition(|(_, write)| many && plain(write));
        if !batched.is_empty() {
            let places = batched.iter().map(|(at, write)| (*at, number(write)));
            let places = places.collect();
            let writes: Vec<&Write> = batched.iter().map(|(_, write)| *write).collect();
            parts.all.push((Part::Appends(places), batch(&writes)?));
        }
        for (at, write) in own {
            let places = vec![(at, number(write))];
            parts.all.push((Part::Appends(places), single(write)?));
        }
        for write in all {
            for sql in sides(write)? {
                parts.all.push((Part::Aside, sql));
            }
        }
        // What only reads goes behind everything else, outside of the transaction.
        parts
            .all
            .sort_by_key(|(part, _)| matches!(part, Part::Newest(_)));
        Ok(parts)
    }

    /// Counts the statements of the transaction.
    fn writing(&self) -> usize {
        let reads = |part: &Part| matches!(part, Part::Newest(_));
        self.all.iter().filter(|(part, _)| !reads(part)).count()
    }

    /// Counts the appends.
    fn appends(&self) -> usize {
        let count = |(part, _): &(Part, Sql)| match part {
            Part::Appends(places) => places.len(),
            Part::Aside | Part::Newest(_) => 0,
        };
        self.all.iter().map(count).sum()
    }

    async fn prepare(&self, connection: &Connection) -> Result<Vec<Statement>, Fault> {
        let mut statements = Vec::with_capacity(self.all.len());
        for (_, sql) in &self.all {
            statements.push(connection.prepare(&sql.text).await?);
        }
        Ok(statements)
    }

    /// Sends everything at once, in one transaction where there is more than one statement.
    async fn fly(&self, connection: &Connection, transaction: bool) -> Came {
        let statements = match self.prepare(connection).await {
            Ok(statements) => statements,
            // Nothing that writes was sent.
            Err(fault) => return Came::Failed(fault),
        };
        let mut queries: Vec<BoxFuture<'_, Result<Vec<Row>, Fault>>> = Vec::new();
        if transaction {
            queries.push(connection.told("BEGIN"));
        }
        let mut committed = !transaction;
        for ((part, sql), statement) in self.all.iter().zip(&statements) {
            if matches!(part, Part::Newest(_)) && !committed {
                queries.push(connection.told("COMMIT"));
                committed = true;
            }
            queries.push(connection.sent(statement, sql.values()));
        }
        if !committed {
            queries.push(connection.told("COMMIT"));
        }
        let began = Instant::now();
        let answers = flight(queries).await;
        self.read(answers, transaction, began)
    }

    /// Sends everything at once, and ends the transaction that is open.
    async fn end(&self, connection: &Connection) -> Came {
        let statements = match self.prepare(connection).await {
            Ok(statements) => statements,
            Err(fault) => {
                drop(connection.batch("ROLLBACK").await);
                return Came::Failed(fault);
            }
        };
        let sent = self.all.iter().zip(&statements);
        let mut queries: Vec<BoxFuture<'_, Result<Vec<Row>, Fault>>> = sent
            .map(|((_, sql), statement)| connection.sent(statement, sql.values()))
            .collect();
        queries.push(connection.told("COMMIT"));
        let began = Instant::now();
        let mut answers = flight(queries).await;
        // As if it had begun here.
        answers.insert(0, Ok(Vec::new()));
        self.read(answers, true, began)
    }

    /// Reads what came back.
    fn read(
        &self,
        answers: Vec<Result<Vec<Row>, Fault>>,
        transaction: bool,
        began: Instant,
    ) -> Came {
        let reads = self.all.len() - self.writing();
        let writes = answers.len() - reads;
        let mut rows = Vec::with_capacity(answers.len());
        let mut failed: Option<Fault> = None;
        for (at, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(answer) => rows.push(answer),
                Err(fault) if !fault.is_certain() => return Came::Lost(fault),
                // Whoever only asked is not told that it is so.
                Err(_) if at >= writes => rows.push(Vec::new()),
                // What follows the first one only says that the transaction failed.
                Err(fault) => failed = failed.or(Some(fault)),
            }
        }
        if let Some(fault) = failed {
            return Came::Failed(fault);
        }
        metrics::committed(self.appends(), began.elapsed());
        let mut left = rows.into_iter().skip(usize::from(transaction));
        let (mut taken, mut newest, mut committed) = (Vec::new(), Vec::new(), !transaction);
        for (part, _) in &self.all {
            if matches!(part, Part::Newest(_)) && !committed {
                committed = true;
                left.next();
            }
            let rows = left.next().unwrap_or_default();
            match part {
                Part::Aside => {}
                Part::Newest(at) => newest.extend((!rows.is_empty()).then_some(*at)),
                Part::Appends(places) => match numbers(&rows) {
                    Ok(numbers) => taken.extend(matched(places, &numbers)),
                    Err(fault) => return Came::Lost(fault),
                },
            }
        }
        Came::Done(taken, newest)
    }
}

fn numbers(rows: &[Row]) -> Result<Vec<i64>, Fault> {
    let numbers = rows.iter().map(|row| row.try_get(0));
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// Finds out which plan each number is of; one whose session is new is alone in its statement.
fn matched(places: &[(usize, Option<i64>)], numbers: &[i64]) -> Vec<(usize, i64)> {
    let of = |no: &i64| {
        let mut known = places.iter();
        let place = known.find(|(_, number)| number.is_none_or(|number| number == *no));
        place.map(|(at, _)| (*at, *no))
    };
    numbers.iter().filter_map(of).collect()
}
