//! `outlast vault`: which master keys there are, and another one.

use clap::Subcommand;
use outlast_protocol::master_keys::{MasterKey, MasterKeyRotation, MasterKeys};
use serde::Deserialize as _;
use serde_json::json;

use super::{
    console::Console,
    failure::{Exit, Failure},
    table::table,
};
use crate::client::{Client, Error};

/// Where a server tells of its master keys.
const KEYS: &str = "/outlast/v1/vault";

/// Where it is asked for another one.
const ROTATE: &str = "/outlast/v1/vault/rotate-master-key";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Say which master keys the server has, and how many secrets are under each
    Status {
        /// Print the object as it is sent
        #[arg(long)]
        json: bool,
    },
    /// Bring all secrets under another master key while the server serves
    RotateMasterKey {
        /// Print the object as it is sent
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(
    command: Command,
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    match command {
        Command::Status { json } => status(json, client, console).await,
        Command::RotateMasterKey { json } => rotate(json, client, console).await,
    }
}

async fn status(json: bool, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
    let found = client.get(KEYS, &[]).await?;
    let keys = MasterKeys::deserialize(&found).map_err(form)?;
    if json {
        console.line(&found.to_string())?;
    } else {
        console.write(&shown(&keys))?;
    }
    Ok(match keys.trouble {
        Some(_) => Exit::Failed,
        None => Exit::Done,
    })
}

async fn rotate(json: bool, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
    let found = client.post(ROTATE, &json!({})).await?;
    let done = MasterKeyRotation::deserialize(&found).map_err(form)?;
    if json {
        console.line(&found.to_string())?;
    } else {
        console.write(&told(&done))?;
    }
    Ok(match done.left {
        0 => Exit::Done,
        _ => Exit::Failed,
    })
}

fn form(error: serde_json::Error) -> Error {
    Error::Form {
        what: format!("this version does not know the answer: {error}"),
    }
}

fn shown(keys: &MasterKeys) -> String {
    let row = |key: &MasterKey| {
        let is = match (key.current, key.known) {
            (true, _) => "current",
            (false, true) => "known",
            (false, false) => "missing",
        };
        vec![key.name.clone(), is.to_owned(), key.records.to_string()]
    };
    let rows = keys.keys.iter().map(row).collect::<Vec<_>>();
    let mut text = table(&["MASTER KEY", "IS", "SECRETS"], &rows);
    if let Some(trouble) = &keys.trouble {
        text.push_str(&format!("no secret can be used: {trouble}\n"));
    }
    text
}

fn told(done: &MasterKeyRotation) -> String {
    let mut text = format!(
        "current  {}\nbrought  {} secrets\n",
        done.current, done.brought
    );
    if done.left > 0 {
        text.push_str(&format!(
            "left     {} secrets; they are tried again, `outlast vault status` shows them\n",
            done.left
        ));
    }
    for other in &done.others {
        text.push_str(&format!(
            "known    {other}, until nothing can be under it any more\n"
        ));
    }
    text
}
