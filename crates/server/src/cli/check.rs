//! `outlast check`: what this host can isolate, and what would mend what it cannot.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use outlast_hands::{
    Requirement,
    namespace::{Survey, survey},
};
use serde::Serialize;

use super::{
    console::Console,
    failure::{Exit, Failure},
};
use crate::config::Loaded;

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
    loaded: &Loaded,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let place = place(&loaded.data_dir);
    let survey = survey(&place).await.map_err(|error| {
        let words = format!("cannot try anything in {}: {error}", place.display());
        Failure::say(Exit::Failed, words).hint("name a folder that can be written: --data-dir")
    })?;
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

/// Tells what scripts want to know.
fn exit(survey: &Survey, lacking: &[Lacking]) -> Exit {
    match (&survey.verdict.refusal, lacking, survey.is_whole()) {
        (None, [], true) => Exit::Done,
        (None, [], false) => Exit::Less,
        (Some(_), ..) | (None, [_, ..], _) => Exit::Failed,
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

/// Returns the data directory, or the nearest folder above it that is there: what can be mounted
/// depends on the file system, and a check makes no data directory.
pub(super) fn place(data_dir: &Path) -> PathBuf {
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
