//! `outlast check`: what this host can isolate, and what would mend what it cannot.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use outlast_hands::{
    Requirement,
    namespace::{Finding, State, Survey, survey},
};
use outlast_vault::{
    KeyName, Keyring as _,
    keyring::{Source, Sources},
};
use serde::Serialize;

use super::{
    Common,
    console::Console,
    failure::{Exit, Failure},
};
use crate::{
    OsEntropy,
    config::{Environment, Loaded, Roles},
};

/// What mends a data directory that is of no use.
const MEND: &str = "name a folder that this user can write to: --data-dir DIR, or OUTLAST_DATA_DIR";

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What the configuration demands and this host lacks.
#[derive(Debug, Serialize)]
struct Lacking {
    require: Requirement,
    reason: String,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    survey: &'a Survey,
    isolation: String,
    /// In one line, as `serve` prints it.
    summary: String,
    lacking: &'a [Lacking],
}

pub(super) async fn run(
    arguments: Arguments,
    common: &Common,
    environment: &Environment,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let (loaded, homeless) = load(common, environment)?;
    let survey = match homeless {
        None => tried(&loaded.data_dir).await,
        Some(reason) => tried_elsewhere(reason).await,
    };
    let mut survey = survey.map_err(|words| Failure::say(Exit::Failed, words).hint(MEND))?;
    if !matches!(loaded.config.roles(), Ok(Roles::BesideEgress(_))) {
        survey.findings.push(master_key(&loaded).await);
    }
    let lacking = lacking(&survey, &loaded.config.hands.require);
    if arguments.json {
        let report = Report {
            survey: &survey,
            isolation: survey.left(),
            summary: survey.verdict.to_string(),
            lacking: &lacking,
        };
        let text = serde_json::to_string(&report).map_err(io::Error::from)?;
        console.line(&text)?;
    } else {
        console.write(&words(&survey, &lacking))?;
    }
    Ok(exit(&survey, &lacking))
}

/// Reads the configuration, and says so if nothing tells where data is kept: what this host can
/// isolate does not depend on it.
fn load(common: &Common, environment: &Environment) -> Result<(Loaded, Option<String>), Failure> {
    let failure = match common.load(environment, None) {
        Ok(loaded) => return Ok((loaded, None)),
        Err(failure) => failure,
    };
    // A folder that is not there has no configuration to be read.
    let nowhere = std::env::temp_dir().join(format!("outlast-check-{}", std::process::id()));
    let named = Common {
        data_dir: Some(nowhere),
        ..common.clone()
    };
    match named.load(environment, None) {
        Ok(loaded) if common.data_dir.is_none() => Ok((loaded, Some(failure.error.to_string()))),
        Ok(_) | Err(_) => Err(failure),
    }
}

/// Tries the parts where data is kept, since what can be mounted depends on the file system, or else
/// where everybody may write; then that is a finding of its own.
///
/// # Errors
///
/// In words, if nothing can be tried anywhere.
pub(super) async fn tried(data_dir: &Path) -> Result<Survey, String> {
    let place = place(data_dir);
    match survey(&place).await {
        Ok(survey) => Ok(survey),
        Err(error) => {
            let reason = format!("nothing can be tried in {}: {error}", place.display());
            tried_elsewhere(reason).await
        }
    }
}

async fn tried_elsewhere(reason: String) -> Result<Survey, String> {
    let elsewhere = std::env::temp_dir();
    let survey = survey(&elsewhere).await;
    let elsewhere = elsewhere.display();
    let mut survey = survey.map_err(|error| format!("{reason}, nor in {elsewhere}: {error}"))?;
    survey.findings.push(Finding {
        part: "data directory",
        state: State::Missing,
        found: format!("{reason}; all else was tried in {elsewhere}"),
        mend: Some(MEND.to_owned()),
    });
    Ok(survey)
}

/// Looks whether the master key can be had. Whether it is the right one, `outlast doctor` knows.
async fn master_key(loaded: &Loaded) -> Finding {
    let source = loaded.config.vault.source(&loaded.data_dir);
    let unmade = matches!(&source, Source::Own(path) if !path.exists());
    let ring = Sources::open(source, Arc::new(OsEntropy)).await;
    let (state, found) = match ring.names() {
        Ok(names) => (State::Good, format!("`{}`", listed(&names))),
        Err(_) if unmade => (
            State::Good,
            "none yet; the first start makes one".to_owned(),
        ),
        Err(error) => (State::Missing, error.to_string()),
    };
    Finding {
        part: "master key",
        state,
        found,
        mend: None,
    }
}

fn listed(names: &[KeyName]) -> String {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    names.join("`, `")
}

/// Tells what scripts want to know.
fn exit(survey: &Survey, lacking: &[Lacking]) -> Exit {
    let missing = |finding: &Finding| finding.state == State::Missing;
    let refused = survey.verdict.refusal.is_some() || survey.findings.iter().any(missing);
    match (refused, lacking, survey.is_whole()) {
        (false, [], true) => Exit::Done,
        (false, [], false) => Exit::Less,
        (true, ..) | (false, [_, ..], _) => Exit::Failed,
    }
}

/// Writes it for a person.
fn words(survey: &Survey, lacking: &[Lacking]) -> String {
    let mut text = survey.to_string();
    for Lacking { require, reason } in lacking {
        text.push_str(&format!(
            "hands.require demands \"{}\", and {reason}: no sandbox is started\n",
            require.name()
        ));
    }
    text
}

/// Finds what is demanded and not there.
fn lacking(survey: &Survey, require: &[Requirement]) -> Vec<Lacking> {
    let lacks = |require: &Requirement| {
        let reason = survey.verdict.lacks(*require)?;
        Some(Lacking {
            require: *require,
            reason,
        })
    };
    require.iter().filter_map(lacks).collect()
}

/// Returns the data directory, or the nearest folder above it that is there: a check makes none.
fn place(data_dir: &Path) -> PathBuf {
    let there = data_dir.ancestors().find(|path| path.is_dir());
    there.map_or_else(std::env::temp_dir, Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_folder_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(place(dir.path()), dir.path());
        assert_eq!(place(&dir.path().join("a/b")), dir.path());
    }
}
