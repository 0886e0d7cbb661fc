//! `outlast import`: whole sessions out of a file, under the lock of a data directory.

mod source;

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use outlast_kernel::audit_alone;
use outlast_protocol::{
    audit::{Actor, Entry},
    seam::Clock as _,
};
use outlast_session::State;
use outlast_store::{IntakeError, ReadError, ResourceKind, check};

use self::source::{Log, survey};
use super::{
    console::{Console, Tone},
    export::LEFT_OUT,
    failure::{Exit, Failure},
};
use crate::{
    SystemClock,
    config::Loaded,
    server::{self, Database},
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// What `outlast export` wrote
    file: PathBuf,
}

pub(super) async fn run(
    arguments: Arguments,
    loaded: &Loaded,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let path = arguments.file;
    let logs = tokio::task::block_in_place(|| {
        let logs = survey(&path)?;
        // All of them, before the first row of any is written.
        for log in &logs {
            check(log)?;
        }
        Ok::<_, Failure>(logs)
    })?;
    let (store, _) = server::open_alone(&loaded.config, &loaded.data_dir).await?;
    let done = take_in(&store, logs, console).await;
    store.close().await;
    done
}

async fn take_in(
    database: &Database,
    logs: Vec<Log>,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let (intake, store) = (database.intake(), database.store());
    for log in &logs {
        if intake.is_here(log.session).await? {
            return Err(IntakeError::Exists(log.session).into());
        }
    }
    for log in logs {
        let session = log.session;
        console.wait(&format!("importing {session}"));
        let entry = Entry::new(SystemClock::new().now(), Actor::Cli, "sessions.import");
        let told = audit_alone(&*store, entry.of(session)).await;
        told.map_err(|problem| Failure::say(Exit::Failed, problem.message))?;
        let state = intake.take_in(Arc::new(log)).await?;
        console.line(&format!("{session}  {} records", state.tail))?;
        tell_missing(database, &state, console).await?;
    }
    console.note(Tone::Plain, LEFT_OUT)?;
    Ok(Exit::Done)
}

/// Says which objects a session names that are not here, and what does not work without.
async fn tell_missing(
    database: &Database,
    state: &State,
    console: &mut Console,
) -> Result<(), Failure> {
    let store = database.store();
    let Some(config) = &state.config else {
        return Ok(());
    };
    let (place, agent) = (
        config.environment_id.to_string(),
        config.agent.id.to_string(),
    );
    let named = [
        (ResourceKind::Environment, place, "its tools cannot run"),
        (
            ResourceKind::Agent,
            agent,
            "it goes on with the agent as its log has it",
        ),
    ];
    for (kind, id, without) in named {
        match store.get(kind, &id, None).await {
            Ok(_) => {}
            Err(ReadError::NotFound(_)) => {
                let words = format!("{}: `{id}` is not here, so {without}", state.id);
                console.note(Tone::Wrong, &words)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl From<IntakeError> for Failure {
    fn from(error: IntakeError) -> Self {
        Self::new(Exit::Failed, error)
    }
}
