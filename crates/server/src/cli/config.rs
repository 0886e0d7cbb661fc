//! `outlast config`: what an operator set, and whether it can be.

use clap::Subcommand;

use super::{
    Common,
    console::{Console, Tone},
    failure::{Exit, Failure},
};
use crate::config::{DEFAULTS, Environment, print};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the configuration as it is in force, without its secrets
    Print {
        /// Print every key with its default and what it means
        #[arg(long)]
        defaults: bool,
    },
    /// Check the configuration and say what is wrong with it
    Check,
}

pub(super) fn run(
    command: &Command,
    common: &Common,
    environment: &Environment,
    console: &mut Console,
) -> Result<Exit, Failure> {
    match command {
        Command::Print { defaults: true } => console.write(DEFAULTS)?,
        Command::Print { defaults: false } => {
            let loaded = common.load(environment, None)?;
            let file = loaded.file.map_or_else(
                || "# No file; defaults and environment.".to_owned(),
                |file| format!("# From {} and the environment.", file.display()),
            );
            let printed =
                print(&loaded.config).map_err(|error| Failure::new(Exit::Failed, error))?;
            console.write(&format!("{file}\n\n{printed}"))?;
        }
        Command::Check => check(common, environment, console)?,
    }
    Ok(Exit::Done)
}

fn check(common: &Common, environment: &Environment, console: &mut Console) -> Result<(), Failure> {
    let loaded = common.load(environment, None)?;
    loaded
        .config
        .models
        .load()
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    warn_of_strangers(environment, console)?;
    let file = loaded
        .file
        .map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    console.line(&format!("the configuration can be used ({file})"))?;
    Ok(())
}

/// Names variables that look like ours and mean nothing.
pub(super) fn warn_of_strangers(
    environment: &Environment,
    console: &mut Console,
) -> std::io::Result<()> {
    for name in environment.strangers() {
        let words = format!("warning: the variable {name} means nothing here and is ignored");
        console.note(Tone::Wrong, &words)?;
    }
    Ok(())
}
