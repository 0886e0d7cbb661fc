//! `outlast audit`: who did what, through the server that runs or without one.

use clap::Args;
use outlast_kernel::{AuditQuery, Order, audit_log_alone};
use outlast_protocol::{
    Micros,
    audit::{AuditEntry, Entry},
};
use serde::Deserialize as _;

use super::{
    console::Console,
    failure::{Exit, Failure},
    table::table,
    words::one_line,
};
use crate::{
    client::{Client, Error, Found, Where},
    config::Loaded,
    server,
};

/// Characters of a cell in a table.
const CELL: usize = 60;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Only what this one did: the id of a key or of a session, `cli` or `server`
    #[arg(long, value_name = "WHO")]
    actor: Option<String>,
    /// Only operations that begin so, as `POST /v1/sessions` or `keys.`
    #[arg(long, value_name = "WORDS")]
    action: Option<String>,
    /// Only what was done to this, or made this
    #[arg(long, value_name = "ID")]
    subject: Option<String>,
    /// Only from this moment on (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Micros>,
    /// Only up to this moment (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Micros>,
    /// List at most so many, the newest first
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
    /// Print each entry as it is sent, one a line
    #[arg(long)]
    json: bool,
}

fn moment(text: &str) -> Result<Micros, String> {
    let read = Micros::parse(text);
    read.ok_or_else(|| "must be an RFC 3339 time, as 2026-01-01T00:00:00Z".to_owned())
}

pub(super) async fn run(
    arguments: Arguments,
    loaded: &Loaded,
    (place, found): (Where, Found),
    console: &mut Console,
) -> Result<Exit, Failure> {
    let json = arguments.json;
    let entries = match (place, found) {
        (_, Found::Running(client)) => arguments.of_server(&client).await?,
        (Where::Local, Found::Nobody(Error::Unreachable { .. })) => {
            arguments.of_store(loaded).await?
        }
        (Where::Local | Where::At(_), Found::Nobody(error)) => return Err(error.into()),
    };
    if json {
        for entry in &entries {
            console.line(&serde_json::to_string(entry).unwrap_or_default())?;
        }
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = entries.iter().map(row).collect();
    console.write(&table(
        &["AT", "WHO", "WHAT", "SUBJECT", "OUTCOME", "DETAILS"],
        &rows,
    ))?;
    Ok(Exit::Done)
}

impl Arguments {
    async fn of_server(&self, client: &Client) -> Result<Vec<AuditEntry>, Failure> {
        let (page, since, until) = (
            self.limit.clamp(1, 1_000).to_string(),
            self.since.map(|at| at.to_string()),
            self.until.map(|at| at.to_string()),
        );
        let filters = [
            ("actor", &self.actor),
            ("action", &self.action),
            ("subject_id", &self.subject),
            ("at[gte]", &since),
            ("at[lte]", &until),
        ];
        let said = filters
            .iter()
            .filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        let query: Vec<(&str, &str)> = said.chain([("limit", page.as_str())]).collect();
        let found = client.list("/outlast/v1/audit", &query, self.limit).await?;
        let read = |entry| AuditEntry::deserialize(entry);
        let entries: Result<_, _> = found.iter().map(read).collect();
        entries.map_err(|error: serde_json::Error| Failure::new(Exit::Failed, error))
    }

    async fn of_store(self, loaded: &Loaded) -> Result<Vec<AuditEntry>, Failure> {
        let query = AuditQuery {
            actor: self.actor,
            action: self.action,
            subject: self.subject,
            since: self.since,
            until: self.until,
            order: Order::Backwards,
            after: None,
            limit: self.limit,
        };
        let (database, _) = server::open_alone(&loaded.config, &loaded.data_dir).await?;
        let found = audit_log_alone(&*database.store(), &query).await;
        database.close().await;
        let found = found.map_err(|problem| Failure::say(Exit::Failed, problem.message))?;
        Ok(found.items)
    }
}

fn row(shown: &AuditEntry) -> Vec<String> {
    let Entry {
        at,
        actor,
        action,
        subject_id,
        outcome,
        status,
        details,
        ..
    } = &shown.entry;
    let came = match (outcome, status) {
        (Some(outcome), Some(status)) => format!("{} {status}", outcome.as_str()),
        (Some(outcome), None) => outcome.as_str().to_owned(),
        (None, _) => "unknown".to_owned(),
    };
    let said = details
        .iter()
        .filter(|(name, _)| *name != "path")
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        });
    let said: Vec<String> = said.collect();
    vec![
        at.to_string(),
        actor.to_string(),
        one_line(action, CELL),
        one_line(subject_id.as_deref().unwrap_or("-"), CELL),
        came,
        one_line(&said.join(" "), CELL),
    ]
}
