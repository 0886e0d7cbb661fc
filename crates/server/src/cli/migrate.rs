//! `outlast migrate`: the schema, brought up to date before the servers are.

use std::sync::Arc;

use outlast_store::{Migrated, postgres::Postgres, sqlite::Sqlite};

use super::{
    console::Console,
    failure::{Exit, Failure},
};
use crate::{OsEntropy, config::Loaded, server::StartError};

pub(super) async fn run(loaded: Loaded, console: &mut Console) -> Result<Exit, Failure> {
    let Loaded {
        config, data_dir, ..
    } = loaded;
    let (place, migrated) = match config.database.url() {
        Some(url) => {
            let done = Postgres::migrate(url, Arc::new(OsEntropy)).await;
            ("the Postgres".to_owned(), done.map_err(StartError::from)?)
        }
        None => {
            let place = format!("the database in {}", data_dir.display());
            let done = Sqlite::migrate(data_dir).await;
            (place, done.map_err(StartError::from)?)
        }
    };
    console.line(&words(&place, migrated))?;
    Ok(Exit::Done)
}

fn words(place: &str, migrated: Migrated) -> String {
    let Migrated { from, to } = migrated;
    if from == to {
        format!("{place} has schema {to}, as this version does")
    } else {
        format!("{place} was brought from schema {from} to {to}")
    }
}
