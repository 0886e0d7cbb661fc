//! `outlast hand-host`: the process that sandboxes live in.

use std::{ffi::OsString, io::IsTerminal as _};

use clap::Args;
use outlast_hands::host::Ended;
use tokio_util::sync::CancellationToken;

use super::{
    Common,
    console::Console,
    descriptors,
    failure::{Exit, Failure},
    serve::Signals,
};
use crate::{
    config::{Format, Loaded, Log},
    hand_host::{HandHost, Rotating, detach, quiet, stop},
    telemetry,
};

#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Go on in a session of its own, and return once it listens
    #[arg(long)]
    detach: bool,
    /// End the one that runs, and its sandboxes with it; their workspaces stay
    #[arg(long, conflicts_with = "detach")]
    stop: bool,
    /// Name of lock and socket in the data directory
    #[arg(long, value_name = "NAME", default_value = "hand-host", hide = true)]
    name: String,
}

impl Arguments {
    /// Tells whether to leave this process; that is done before it has threads.
    pub(super) fn leaves(&self) -> bool {
        self.detach
    }

    /// Starts the host in a process that is nobody's child.
    pub(super) fn leave(&self, common: &Common) -> Result<Exit, Failure> {
        let mut arguments: Vec<OsString> = Vec::new();
        for (flag, path) in [
            ("--config", &common.config),
            ("--data-dir", &common.data_dir),
        ] {
            if let Some(path) = path {
                // It works from the root folder.
                arguments.extend([flag.into(), std::path::absolute(path)?.into()]);
            }
        }
        arguments.extend(["hand-host", "--name", &self.name].map(OsString::from));
        detach(arguments)?;
        Ok(Exit::Done)
    }
}

pub(super) async fn run(
    arguments: Arguments,
    loaded: Loaded,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let Loaded {
        config, data_dir, ..
    } = loaded;
    if arguments.stop {
        let words = match stop(&data_dir).await? {
            0 => "there was no hand host",
            _ => "the hand host has ended",
        };
        console.line(words)?;
        return Ok(Exit::Done);
    }
    std::fs::create_dir_all(&data_dir)?;
    let log = Log {
        format: Format::Json,
        level: config.log.level.clone(),
    };
    let writer = Rotating::open(data_dir.join(format!("{}.log", arguments.name)))?;
    telemetry::install_log(&log, false, writer)
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    telemetry::install_figures().map_err(|error| Failure::new(Exit::Failed, error))?;
    log_panics();
    let mut signals = Signals::new()?;
    descriptors::raise()?;
    let host = HandHost::open(&config, &data_dir, &arguments.name)
        .await
        .map_err(|error| Failure::new(Exit::Failed, error))?;
    let (pid, isolation) = (std::process::id(), host.isolation());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid,
        isolation,
        "the hand host listens"
    );
    console.line(&format!("outlast hand-host, process {pid}: {isolation}"))?;
    if !std::io::stdout().is_terminal() {
        quiet()?;
    }
    let told = CancellationToken::new();
    let serve = host.serve(told.clone());
    tokio::pin!(serve);
    let ended = tokio::select! {
        ended = &mut serve => ended,
        () = signals.next() => {
            told.cancel();
            serve.await
        }
    };
    let why = match ended {
        Ended::Told => "it was told to",
        Ended::Orphaned => "no server spoke to it",
        Ended::Drained => "its last hand is gone",
        Ended::Unused => "its server is gone and it had no hand",
    };
    tracing::info!("the hand host ends: {why}");
    Ok(Exit::Done)
}

/// Puts panics into the log, since nobody reads the standard error.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("a thread panicked: {panic}");
    }));
}
