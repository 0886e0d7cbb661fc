//! The command line: its grammar, and what the process returns.

mod audit;
mod check;
mod config;
mod console;
mod descriptors;
mod doctor;
mod export;
mod failure;
mod files;
mod hand_host;
mod heads;
mod images;
mod import;
mod keys;
mod migrate;
mod offline;
mod redact;
mod render;
mod run;
mod scripted_model;
mod serve;
mod sessions;
mod support_bundle;
mod table;
mod torture;
mod transfer;
mod vault;
mod verify;
mod words;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use self::{
    console::Console,
    failure::{Exit, Failure},
};
use crate::{
    client::{Client, Found, Where, find},
    config::{Environment, Flags, Loaded, load},
};

/// What is said of exit codes in the help.
const CODES: &str = "\
Exit codes:
  0    done
  1    something failed
  2    the command line or the configuration is wrong
  3    no server can be reached
  4    the session ended in an error
  5    the session waits for an answer
  6    sandboxes start with less isolation than they could have
  130  interrupted";

/// Help of what every command takes; variables are no code to be marked up.
const CONFIG: &str = "Read this configuration file and no other [also: OUTLAST_CONFIG]";
const DATA_DIR: &str = "Keep everything here [also: OUTLAST_DATA_DIR]";
const URL: &str = "Talk to the server at this address [also: OUTLAST_URL]";

/// How long the process waits for threads that are stuck, such as one that reads the terminal.
const LEFTOVERS: Duration = Duration::from_millis(100);

/// Runs agents that outlast the processes they run in
#[derive(Debug, Parser)]
#[command(name = "outlast", version, after_help = CODES, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
struct Common {
    #[arg(long, global = true, value_name = "FILE", help = CONFIG)]
    config: Option<PathBuf>,
    #[arg(long, global = true, value_name = "DIR", help = DATA_DIR)]
    data_dir: Option<PathBuf>,
    #[arg(long, global = true, value_name = "URL", help = URL)]
    url: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server
    Serve {
        /// Listen here; beyond loopback only with a key that is set
        #[arg(long, value_name = "IP:PORT")]
        listen: Option<SocketAddr>,
        /// Run these parts: all, or `api,brain,hand` and `egress` under two users
        #[arg(long, value_name = "ROLES", value_delimiter = ',')]
        roles: Option<Vec<String>>,
    },
    /// Have an agent do a task, on a running server or in this process
    Run(run::Arguments),
    /// Look at sessions and take part in them
    #[command(subcommand)]
    Sessions(sessions::Command),
    /// Give files to sessions, and take what agents made
    #[command(subcommand)]
    Files(files::Command),
    /// Make, list and revoke the keys of clients
    #[command(subcommand)]
    Keys(keys::Command),
    /// Show who did what
    Audit(audit::Arguments),
    /// Look at master keys, and bring secrets under another one
    #[command(subcommand)]
    Vault(vault::Command),
    /// Manage the root file systems that environments may choose from
    #[command(subcommand)]
    Images(images::Command),
    /// Say what sessions wait for and which part failed, without a word of what users wrote
    Doctor(doctor::Arguments),
    /// Pack what others need to find a fault: ids, sizes, times and kinds of errors, no contents
    SupportBundle(support_bundle::Arguments),
    /// Prove that logs are what was written: recompute chains and folds, beside a server or without
    Verify(verify::Arguments),
    /// Print where logs end, to be kept elsewhere for `verify --heads`
    Heads(heads::Arguments),
    /// Write whole sessions to one file: their logs with their chains, and nothing else
    Export(export::Arguments),
    /// Take in sessions from a file; no server may run on the data directory
    Import(import::Arguments),
    /// Erase what events say, under the chain: through the server that runs, or without one
    Redact(redact::Arguments),
    /// Try what this host can isolate, for the user that asks
    Check(check::Arguments),
    /// Kill a server of its own at random, on this disk or database, and say what was lost
    Torture(torture::Arguments),
    /// Keep the sandboxes of a data directory; `serve` starts it where there is none
    HandHost(hand_host::Arguments),
    /// Serve the scripted model over the Messages API
    ScriptedModel {
        /// Listen here
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:4748")]
        listen: SocketAddr,
    },
    /// Bring the database's schema up to date; `serve` does so too
    Migrate,
    /// Show or check the configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Print the description of the API, for programs that make clients or tests of it
    Openapi,
    /// Print the version
    Version,
}

/// Runs the command line of this process, and returns what the process returns.
pub fn main() -> ExitCode {
    run_with(std::env::args_os(), Environment::of_process())
}

fn run_with(arguments: impl IntoIterator<Item = OsString>, environment: Environment) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help that nobody reads any more is no failure.
            drop(error.print());
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Done.into()
            };
        }
    };
    let mut console = Console::of_process();
    if let Command::HandHost(arguments) = &cli.command
        && arguments.leaves()
    {
        return match arguments.leave(&cli.common) {
            Ok(exit) => exit.into(),
            Err(failure) => console.report(&failure),
        };
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return console.report(&Failure::new(Exit::Failed, error)),
    };
    let done = runtime.block_on(dispatch(cli, &environment, &mut console));
    runtime.shutdown_timeout(LEFTOVERS);
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => console.report(&failure),
    }
}

async fn dispatch(
    cli: Cli,
    environment: &Environment,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let Cli { common, command } = cli;
    match command {
        Command::Serve { listen, roles } => {
            let loaded = common.load_with(environment, listen, roles)?;
            Box::pin(serve::serve(loaded, environment, console)).await
        }
        Command::Run(arguments) => {
            let loaded = common.load(environment, None)?;
            let place = common.place(environment);
            Box::pin(run::run(arguments, loaded, place, console)).await
        }
        Command::Sessions(command) => {
            sessions::run(command, &common.client(environment).await?, console).await
        }
        Command::Files(command) => {
            files::run(command, &common.client(environment).await?, console).await
        }
        Command::Keys(command) => {
            let (loaded, found) = common.found(environment).await?;
            Box::pin(keys::run(command, &loaded, found, console)).await
        }
        Command::Audit(arguments) => {
            let (loaded, found) = common.found(environment).await?;
            Box::pin(audit::run(arguments, &loaded, found, console)).await
        }
        Command::Images(command) => {
            images::run(command, &common.load(environment, None)?, console).await
        }
        Command::Vault(command) => {
            vault::run(command, &common.client(environment).await?, console).await
        }
        Command::Doctor(arguments) => {
            doctor::run(arguments, &common.client(environment).await?, console).await
        }
        Command::SupportBundle(arguments) => {
            let (loaded, (_, found)) = common.found(environment).await?;
            support_bundle::run(arguments, &loaded, found, console).await
        }
        Command::Verify(arguments) => {
            verify::run(arguments, &common.load(environment, None)?, console)
        }
        Command::Heads(arguments) => {
            heads::run(arguments, &common.load(environment, None)?, console)
        }
        Command::Export(arguments) => {
            export::run(arguments, &common.load(environment, None)?, console)
        }
        Command::Import(arguments) => {
            let loaded = common.load(environment, None)?;
            Box::pin(import::run(arguments, &loaded, console)).await
        }
        Command::Redact(arguments) => {
            let (loaded, found) = common.found(environment).await?;
            Box::pin(redact::run(arguments, &loaded, found, console)).await
        }
        Command::Check(arguments) => check::run(arguments, &common, environment, console).await,
        Command::Torture(arguments) => {
            let loaded = common.load(environment, None)?;
            Box::pin(torture::run(arguments, &loaded, console)).await
        }
        Command::HandHost(arguments) => {
            let loaded = common.load(environment, None)?;
            Box::pin(hand_host::run(arguments, loaded, console)).await
        }
        Command::ScriptedModel { listen } => scripted_model::serve(listen, console).await,
        Command::Migrate => {
            let loaded = common.load(environment, None)?;
            migrate::run(loaded, console).await
        }
        Command::Config(command) => config::run(&command, &common, environment, console),
        Command::Openapi => print(console, outlast_api::DOCUMENT),
        Command::Version => print(
            console,
            concat!("outlast ", env!("CARGO_PKG_VERSION"), "\n"),
        ),
    }
}

fn print(console: &mut Console, text: &str) -> Result<Exit, Failure> {
    console.write(text)?;
    Ok(Exit::Done)
}

impl Common {
    fn load(
        &self,
        environment: &Environment,
        listen: Option<SocketAddr>,
    ) -> Result<Loaded, Failure> {
        self.load_with(environment, listen, None)
    }

    fn load_with(
        &self,
        environment: &Environment,
        listen: Option<SocketAddr>,
        roles: Option<Vec<String>>,
    ) -> Result<Loaded, Failure> {
        let (config, data_dir) = (self.config.clone(), self.data_dir.clone());
        Ok(load(
            &Flags {
                config,
                data_dir,
                listen,
                roles,
            },
            environment,
        )?)
    }

    fn place(&self, environment: &Environment) -> Where {
        let said = self
            .url
            .clone()
            .or_else(|| environment.get("OUTLAST_URL").map(str::to_owned));
        said.map_or(Where::Local, Where::At)
    }

    /// Looks for a server: where, and what was found there.
    async fn found(&self, environment: &Environment) -> Result<(Loaded, (Where, Found)), Failure> {
        let loaded = self.load(environment, None)?;
        let place = self.place(environment);
        let found = find(&place, &loaded).await?;
        Ok((loaded, (place, found)))
    }

    /// Finds the server that runs.
    async fn client(&self, environment: &Environment) -> Result<Client, Failure> {
        match self.found(environment).await? {
            (_, (_, Found::Running(client))) => Ok(client),
            (_, (_, Found::Nobody(error))) => Err(Failure::from(error)),
        }
    }
}

/// Returns the whole help, of every command, for the reference and its test.
pub fn reference() -> String {
    let mut out = String::new();
    describe(&mut Cli::command(), "", &mut out);
    out
}

fn describe(command: &mut clap::Command, above: &str, out: &mut String) {
    let name = format!("{above} {}", command.get_name());
    let name = name.trim_start();
    let shown = command.clone().bin_name(name).render_long_help();
    out.push_str(&format!("## {name}\n\n{shown}\n"));
    let below: Vec<_> = command.get_subcommands().cloned().collect();
    for mut command in below {
        describe(&mut command, name, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_is_the_reference() {
        let page = include_str!("../../../docs/cli.md");
        let (_, reference) = page.split_once("<!-- reference -->\n").unwrap();
        // To renew it: cargo test -p outlast-server print_the_reference -- --ignored --nocapture
        assert_eq!(reference.trim(), fenced(&super::reference()).trim());
    }

    #[test]
    #[ignore = "writes the reference to docs/cli.md"]
    fn print_the_reference() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (words, _) = page.split_once("<!-- reference -->\n").unwrap();
        let page = format!(
            "{words}<!-- reference -->\n\n{}",
            fenced(&super::reference())
        );
        std::fs::write(path, page).unwrap();
    }

    /// Puts each help into a block of its own.
    fn fenced(reference: &str) -> String {
        let parts = reference.split("## ").filter(|part| !part.is_empty());
        let fenced = parts.map(|part| {
            let (name, help) = part.split_once("\n\n").unwrap();
            let help: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
            format!("## {name}\n\n```text\n{}\n```\n", help.join("\n"))
        });
        fenced.collect::<Vec<_>>().join("\n")
    }
}
