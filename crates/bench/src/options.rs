//! What a run is told.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measures the built binary beside its floors
#[derive(Debug, Parser)]
#[command(name = "outlast-bench", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure, print a table, write it down
    Run(Options),
    /// Pass bytes on between a listener and an address; the floor of streaming
    #[command(hide = true)]
    Relay {
        /// Where to listen.
        #[arg(long)]
        listen: SocketAddr,
        /// Where the bytes go.
        #[arg(long)]
        to: SocketAddr,
    },
}

/// What to measure, with what, where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The binary to measure
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: PathBuf,
    /// A folder on the disk to measure; everything made in it is removed
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Where `results.json` and `results.md` go
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The built example that measures the store alone
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// The built example that measures checkpoints
    #[arg(long, value_name = "FILE")]
    pub(crate) hands: Option<PathBuf>,
    /// The built example that measures the egress of sandboxes
    #[arg(long, value_name = "FILE")]
    pub(crate) egress: Option<PathBuf>,
    /// The built example that measures the sweep
    #[arg(long, value_name = "FILE")]
    pub(crate) sweep: Option<PathBuf>,
    /// The folder with `initdb`, `postgres` and `pgbench`
    #[arg(long, value_name = "DIR")]
    pub(crate) postgres: Option<PathBuf>,
    /// The program `nats-server`
    #[arg(long, value_name = "FILE")]
    pub(crate) nats: Option<PathBuf>,
    /// A quarter of the rounds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these rows
    #[arg(value_enum, value_name = "ROW")]
    pub(crate) rows: Vec<Row>,
}

/// A group of rows that is measured together.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Row {
    /// Accepted message to model request
    Message,
    /// First token to first `event_delta`
    Token,
    /// First token through the model gateway
    Gateway,
    /// First message to first token, beside a container that is started first
    Ttft,
    /// Durable appends
    Append,
    /// Durable appends of both stores, beside Postgres and NATS
    Postgres,
    /// Cold and warm hands
    Hand,
    /// Memory of idle sandboxes
    Sandbox,
    /// Checkpoints of workspaces
    Checkpoint,
    /// Requests and downloads out of sandboxes
    Egress,
    /// Looking for secrets in results
    Sweep,
    /// Files up and down
    File,
    /// Wake at 100,000 events
    Wake,
    /// A restart under load
    Restart,
    /// Memory
    Memory,
    /// Boot
    Boot,
    /// Size of the binary
    Size,
}

impl Options {
    /// Returns how many rounds to take where a full run takes `full`.
    pub(crate) fn rounds(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(4) } else { full }
    }

    /// Returns the rows to measure, in order.
    pub(crate) fn wanted(&self) -> Vec<Row> {
        let all = Row::value_variants().iter().copied();
        all.filter(|row| self.rows.is_empty() || self.rows.contains(row))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(more: &[&str]) -> Options {
        let line = [
            "outlast-bench",
            "run",
            "--binary",
            "b",
            "--dir",
            "d",
            "--out",
            "o",
        ];
        let parsed = Cli::parse_from(line.iter().chain(more));
        match parsed.command {
            Command::Run(options) => options,
            Command::Relay { .. } => panic!("not a run"),
        }
    }

    #[test]
    fn without_names_all_rows_are_wanted() {
        assert_eq!(options(&[]).wanted().len(), Row::value_variants().len());
        assert_eq!(options(&["size", "boot"]).wanted(), [Row::Boot, Row::Size]);
    }

    #[test]
    fn a_quick_run_takes_a_quarter_but_never_nothing() {
        assert_eq!(options(&[]).rounds(10), 10);
        assert_eq!(options(&["--quick"]).rounds(10), 3);
        assert_eq!(options(&["--quick"]).rounds(1), 1);
    }
}
