//! `outlast keys`: who may do what, through the server that runs or without one.

use clap::{Args, Subcommand};
use outlast_kernel::{
    KeyQuery, NewKey, Order, create_key_alone, list_keys_alone, revoke_key_alone, shown_key,
};
use outlast_protocol::{
    Micros, Problem,
    id::ApiKeyId,
    key::{CreateKey, Key, Scope},
    seam::Clock as _,
};
use outlast_store::Store;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use super::{
    console::{Console, Tone},
    failure::{Exit, Failure},
    table::table,
    words::{one_line, seconds},
};
use crate::{
    OsEntropy, SystemClock,
    client::{Client, Error, Found, Where},
    config::Loaded,
    server,
};

/// Characters of a name in a table.
const NAME: usize = 60;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make a key, and print its secret: it is shown this once
    Create(Create),
    /// List keys, the newest first
    List(List),
    /// Revoke keys for good: at once, at other servers of the database within a second
    Revoke {
        /// The keys, by id
        #[arg(required = true)]
        ids: Vec<ApiKeyId>,
        /// Do not ask, not even for a key that the server or this machine lives by
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args, Debug)]
pub(super) struct Create {
    /// What people call it
    name: String,
    /// What it may do: `read-only`, `read-write` or `admin`
    #[arg(long)]
    scope: Scope,
    /// Have it expire after so long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=315_360_000))]
    expires_in: Option<u32>,
    /// Print the object as it is sent, with the secret in it
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Show those that were revoked too
    #[arg(long)]
    revoked: bool,
    /// List at most so many
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
    /// Print each object as it is sent, one a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    command: Command,
    loaded: &Loaded,
    (place, found): (Where, Found),
    console: &mut Console,
) -> Result<Exit, Failure> {
    match (place, found) {
        (_, Found::Running(client)) => on(command, &Desk::Server(client), console).await,
        (Where::Local, Found::Nobody(Error::Unreachable { .. })) => {
            let (database, _) = server::open_alone(&loaded.config, &loaded.data_dir).await?;
            let store = database.store();
            let done = on(command, &Desk::Store(&*store), console).await;
            database.close().await;
            done
        }
        (Where::Local | Where::At(_), Found::Nobody(error)) => Err(error.into()),
    }
}

/// A key as it is shown when it is made.
#[derive(Serialize)]
struct Made<'a> {
    #[serde(flatten)]
    key: Key,
    #[serde(rename = "key")]
    secret: &'a str,
}

/// Who is asked.
enum Desk<'a> {
    /// A server.
    Server(Client),
    /// Nobody: the data directory is ours.
    Store(&'a dyn Store),
}

async fn on(command: Command, desk: &Desk<'_>, console: &mut Console) -> Result<Exit, Failure> {
    match command {
        Command::Create(wanted) => wanted.run(desk, console).await,
        Command::List(list) => list.run(desk, console).await,
        Command::Revoke { ids, yes } => {
            desk.confirm(&ids, yes, console).await?;
            for id in ids {
                let key = desk.revoke(id).await?;
                let name = one_line(&key.name, NAME);
                console.line(&format!("revoked {id}  {name}"))?;
            }
            Ok(Exit::Done)
        }
    }
}

impl Create {
    async fn run(self, desk: &Desk<'_>, console: &mut Console) -> Result<Exit, Failure> {
        let body = json!({
            "name": self.name, "scope": self.scope, "expires_in_seconds": self.expires_in,
        });
        // Refused in the same words whoever does it.
        let wanted = CreateKey::parse(&body);
        let wanted = wanted.map_err(|problem| Failure::say(Exit::Usage, problem.message))?;
        let (key, secret) = desk.create(&body, wanted).await?;
        let secret = secret.expose_secret();
        if self.json {
            let made = Made { key, secret };
            console.line(&serde_json::to_string(&made).unwrap_or_default())?;
            return Ok(Exit::Done);
        }
        let until = key.expires_at.map(|at| format!(", until {at}"));
        let (id, scope) = (key.id, key.scope);
        let words = format!(
            "{id}  {scope}{}; not shown again:",
            until.unwrap_or_default()
        );
        console.note(Tone::Plain, &words)?;
        console.line(secret)?;
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, desk: &Desk<'_>, console: &mut Console) -> Result<Exit, Failure> {
        let keys = desk.list(self.revoked, self.limit).await?;
        if self.json {
            for key in &keys {
                console.line(&serde_json::to_string(key).unwrap_or_default())?;
            }
            return Ok(Exit::Done);
        }
        let now = SystemClock::new().now();
        let rows: Vec<_> = keys.iter().map(|key| row(key, now)).collect();
        console.write(&table(&["ID", "SCOPE", "STATE", "AGE", "NAME"], &rows))?;
        Ok(Exit::Done)
    }
}

fn row(key: &Key, now: Micros) -> Vec<String> {
    let long = |time: std::time::Duration| seconds(time.as_secs_f64());
    let state = match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end)) if end <= now => "expired".to_owned(),
        (None, Some(end)) => format!("expires in {}", long(end.since(now))),
        (None, None) => "valid".to_owned(),
    };
    vec![
        key.id.to_string(),
        key.scope.to_string(),
        state,
        long(now.since(key.created_at)),
        one_line(&key.name, NAME),
    ]
}

/// Says what stops working without a key that a server has by itself, and how there is one again.
fn needed_by(key: &Key) -> Option<&'static str> {
    match key.name.as_str() {
        server::LOCAL => Some(
            "this machine's command line is refused without it; a server that starts anew makes another",
        ),
        server::SET => Some(
            "a server that is configured with it does not start again; set another OUTLAST_API_KEY first",
        ),
        _ => None,
    }
}

impl Desk<'_> {
    /// Asks before a key is revoked that a server has by itself.
    async fn confirm(
        &self,
        ids: &[ApiKeyId],
        yes: bool,
        console: &mut Console,
    ) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        for key in self.list(false, usize::MAX).await? {
            if let Some(words) = needed_by(&key).filter(|_| ids.contains(&key.id)) {
                let what = format!("`{}` is the key `{}`: {words}", key.id, key.name);
                console.confirm(yes, &what, &format!("{what}. Revoke it?"))?;
            }
        }
        Ok(())
    }

    async fn create(
        &self,
        body: &Value,
        wanted: CreateKey,
    ) -> Result<(Key, SecretString), Failure> {
        match self {
            Self::Server(client) => {
                let made = client.post("/outlast/v1/keys", body).await?;
                let secret = made.get("key").and_then(Value::as_str);
                let secret = secret.ok_or_else(|| {
                    let words = "the key was made by an earlier attempt, whose answer was lost";
                    Failure::say(Exit::Failed, words)
                        .hint("`outlast keys list` shows it: revoke it, and make another")
                })?;
                Ok((read(&made)?, secret.into()))
            }
            Self::Store(store) => {
                let new = NewKey::draw(wanted, SystemClock::new().now(), &OsEntropy);
                create_key_alone(*store, &new).await.map_err(refused)?;
                Ok((new.shown(), new.secret().clone()))
            }
        }
    }

    async fn list(&self, revoked: bool, limit: usize) -> Result<Vec<Key>, Failure> {
        match self {
            Self::Server(client) => {
                let page = limit.clamp(1, 100).to_string();
                let flag = revoked.to_string();
                let query = [("limit", page.as_str()), ("include_revoked", &flag)];
                let found = client.list("/outlast/v1/keys", &query, limit).await?;
                found.iter().map(read).collect()
            }
            Self::Store(store) => {
                let query = KeyQuery {
                    revoked,
                    order: Order::Backwards,
                    after: None,
                    limit,
                };
                let found = list_keys_alone(*store, &query).await.map_err(refused)?;
                Ok(found.items.iter().map(shown_key).collect())
            }
        }
    }

    async fn revoke(&self, id: ApiKeyId) -> Result<Key, Failure> {
        match self {
            Self::Server(client) => {
                let path = format!("/outlast/v1/keys/{id}/revoke");
                read(&client.post(&path, &json!({})).await?)
            }
            Self::Store(store) => {
                let now = SystemClock::new().now();
                revoke_key_alone(*store, id, now).await.map_err(refused)
            }
        }
    }
}

fn read(object: &Value) -> Result<Key, Failure> {
    Key::deserialize(object).map_err(|error| Failure::new(Exit::Failed, error))
}

fn refused(problem: Problem) -> Failure {
    Failure::say(Exit::Failed, problem.message)
}
