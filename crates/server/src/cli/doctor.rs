//! `outlast doctor`: which part failed, without a word of what users wrote.

mod show;

use clap::Args;
use outlast_protocol::{
    diagnosis::{ServerDiagnosis, SessionDiagnosis, StoreFailure},
    id::SessionId,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    console::Console,
    failure::{Exit, Failure},
};
use crate::client::{Client, Error};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The session; all that are unfinished if none is named
    session: Option<SessionId>,
    /// Start a brain on it if it wants one
    #[arg(long, requires = "session")]
    wake: bool,
    /// Print the object as it is sent
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    arguments: Arguments,
    client: &Client,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let Arguments {
        session,
        wake,
        json,
    } = arguments;
    let Some(id) = session else {
        return server(json, client, console).await;
    };
    if wake {
        client
            .post(&format!("/outlast/v1/sessions/{id}/wake"), &json!({}))
            .await?;
    }
    let found = client.get(&path(id), &[]).await?;
    let diagnosis: SessionDiagnosis = read(&found)?;
    if json {
        console.line(&found.to_string())?;
    } else {
        console.write(&show::session(&diagnosis))?;
    }
    Ok(exit(diagnosis.stuck))
}

async fn server(json: bool, client: &Client, console: &mut Console) -> Result<Exit, Failure> {
    let found = client.get(SERVER, &[]).await?;
    let diagnosis: ServerDiagnosis = read(&found)?;
    if json {
        console.line(&found.to_string())?;
    } else {
        console.write(&show::server(&diagnosis))?;
    }
    let stuck = diagnosis.sessions.iter().any(|one| one.stuck);
    let failing = |failure: &StoreFailure| failure.since.is_some();
    let failing = diagnosis.store_failure.as_ref().is_some_and(failing);
    let locked = diagnosis.vault.is_some();
    Ok(exit(
        stuck || failing || locked || diagnosis.silent.is_some(),
    ))
}

/// Where a server says what it does.
pub(super) const SERVER: &str = "/outlast/v1/diagnosis";

/// Returns where a server says what a session waits for.
pub(super) fn path(id: SessionId) -> String {
    format!("/outlast/v1/sessions/{id}/diagnosis")
}

/// Something stuck is a failure for scripts.
fn exit(stuck: bool) -> Exit {
    if stuck { Exit::Failed } else { Exit::Done }
}

fn read<T: DeserializeOwned>(found: &Value) -> Result<T, Error> {
    T::deserialize(found).map_err(|error| Error::Form {
        what: format!("this is no diagnosis that this version knows: {error}"),
    })
}
