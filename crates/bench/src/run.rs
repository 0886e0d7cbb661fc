//! A run: one group of rows after another, then the report.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command as Program, ExitCode},
};

use anyhow::{Context as _, Result};
use clap::Parser as _;

use crate::{
    machine::{self, Machine},
    options::{Cli, Command, Options, Row},
    process::Setup,
    relay,
    report::{self, Report},
    rows,
};

/// Runs the command line.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(options) => on_runtime(measure(&options)),
        Command::Relay { listen, to } => on_runtime(relay::serve(listen, to)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is gone too, there is nobody to tell.
            drop(writeln!(std::io::stderr(), "outlast-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn on_runtime(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// What the rows of a run share.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) options: Options,
    /// A folder on the measured disk, for this run alone.
    pub(crate) dir: PathBuf,
    /// What could not be measured, and why.
    pub(crate) missing: Vec<String>,
}

impl Bench {
    /// Prepares a server with a data directory of its own.
    pub(crate) fn setup(&self, name: &str) -> Setup {
        Setup::new(&self.options.binary, self.dir.join(name))
    }

    /// Notes that something was not measured.
    pub(crate) fn lacks(&mut self, words: impl Into<String>) {
        self.missing.push(words.into());
    }
}

async fn measure(options: &Options) -> Result<()> {
    fs::create_dir_all(&options.dir)?;
    let dir = fs::canonicalize(&options.dir)?.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let mut bench = Bench {
        options: options.clone(),
        dir,
        missing: Vec::new(),
    };
    let mut machine = Machine::look(&bench.dir);
    let mut rows = Vec::new();
    for row in options.wanted() {
        say(&format!("{row:?} ..."));
        match group(&mut bench, row).await {
            Ok(more) => rows.extend(more),
            Err(error) => {
                keep_logs(&bench, &options.out, row);
                bench.lacks(format!("{row:?}: {error:#}"));
            }
        }
    }
    machine.load_after = machine::load();
    let Bench { missing, dir, .. } = bench;
    fs::remove_dir_all(dir)?;
    let version = version(&options.binary)?;
    write(
        options,
        &Report {
            version,
            machine,
            quick: options.quick,
            rows,
            missing,
        },
    )
}

async fn group(bench: &mut Bench, row: Row) -> Result<Vec<report::Row>> {
    match row {
        Row::Message => rows::message::measure(bench).await,
        Row::Token => rows::token::measure(bench).await,
        Row::Gateway => rows::gateway::measure(bench).await,
        Row::Ttft => rows::ttft::measure(bench).await,
        Row::Append => rows::append::measure(bench).await,
        Row::Postgres => rows::postgres::measure(bench).await,
        Row::Hand => rows::hand::measure(bench).await,
        Row::Sandbox => rows::sandbox::measure(bench).await,
        Row::Egress => rows::egress::measure(bench).await,
        Row::File => rows::file::measure(bench).await,
        Row::Checkpoint => rows::checkpoint::measure(bench).await,
        Row::Sweep => rows::sweep::measure(bench).await,
        Row::Wake => rows::wake::measure(bench).await,
        Row::Restart => rows::restart::measure(bench).await,
        Row::Memory => rows::memory::measure(bench).await,
        Row::Boot => rows::boot::measure(bench).await,
        Row::Size => rows::size::measure(bench),
    }
}

fn write(options: &Options, report: &Report) -> Result<()> {
    fs::create_dir_all(&options.out)?;
    let table = report.table();
    fs::write(options.out.join("results.md"), &table)?;
    fs::write(
        options.out.join("results.json"),
        serde_json::to_vec_pretty(report)?,
    )?;
    write!(std::io::stdout(), "{table}").context("cannot print the table")
}

/// Keeps what servers said, where a group failed.
fn keep_logs(bench: &Bench, out: &Path, row: Row) {
    let kept = out.join(format!("logs-{row:?}").to_lowercase());
    let copied = fs::create_dir_all(&kept).and_then(|()| {
        for entry in fs::read_dir(&bench.dir)? {
            let path = entry?.path();
            if let Some(name) = path
                .file_name()
                .filter(|_| path.extension().is_some_and(|end| end == "log"))
            {
                fs::copy(&path, kept.join(name))?;
            }
        }
        Ok(())
    });
    if let Err(error) = copied {
        say(&format!("the logs of {row:?} could not be kept: {error}"));
    }
}

fn version(binary: &Path) -> Result<String> {
    let output = Program::new(binary).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Tells how far the run is.
pub(crate) fn say(words: &str) {
    drop(writeln!(std::io::stderr(), "{words}"));
}
