//! `outlast serve`: the server in the foreground.

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use outlast_egress::apart::Peer;
use secrecy::ExposeSecret as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{
    config,
    console::Console,
    descriptors,
    failure::{Exit, Failure},
};
use crate::{
    config::{Config, Environment, Loaded, Roles},
    hand_host::Spawn,
    server::{Apart, Key, Server, StartError},
    telemetry,
};

/// The signals that ask a process to end.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes them over from the system.
    pub(super) fn new() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self {
            interrupt,
            terminate,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

pub(super) async fn serve(
    loaded: Loaded,
    environment: &Environment,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let Loaded {
        config,
        file,
        data_dir,
    } = loaded;
    config::warn_of_strangers(environment, console)?;
    let terminal = io::stderr().is_terminal();
    telemetry::install_log(&config.log, terminal, io::stderr)
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    telemetry::install_metrics().map_err(|error| Failure::new(Exit::Failed, error))?;
    // Taken over first: a signal during a slow start must not kill it half-way.
    let mut signals = Signals::new()?;
    descriptors::raise()?;
    if let Roles::Egress(peer) = config.roles().map_err(StartError::from)? {
        return egress(&config, &data_dir, peer, signals, console).await;
    }
    let starter = Arc::new(Spawn::new(PathBuf::from("/proc/self/exe"), &config)?);
    let server = Server::start_beside(&config, &data_dir, starter).await?;
    let sources = sources(file.as_deref(), &environment.set());
    console.write(&banner(&server, &sources))?;
    announce(&server, &sources);
    let failed = tokio::select! {
        () = signals.next() => false,
        () = server.failure() => true,
    };
    let closed = tokio::select! {
        closed = server.close() => Some(closed),
        () = signals.next() => None,
    };
    match (failed, closed) {
        (true, _) => Err(Failure::say(
            Exit::Failed,
            "a part of the server died; its log says why",
        )),
        (false, None) => Ok(Exit::Interrupted),
        // Cut off at the deadline is an end in order too: nothing is lost.
        (false, Some(_)) => Ok(Exit::Done),
    }
}

/// Serves as the egress of a server of another user.
async fn egress(
    config: &Config,
    data_dir: &Path,
    peer: Peer,
    mut signals: Signals,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let looked = config.roles().and_then(|roles| roles.look(config));
    looked.map_err(StartError::from)?;
    let apart = Apart::open(config, data_dir, peer).await?;
    let Peer { socket, user } = apart.peer().clone();
    let (version, socket) = (env!("CARGO_PKG_VERSION"), socket.display().to_string());
    console.write(&format!(
        "outlast {version}, egress of a server of user {user}\n  socket     {socket}\n  models     {}\n",
        apart.models(),
    ))?;
    tracing::info!(
        version,
        user,
        models = apart.models(),
        "listening on {socket}"
    );
    let stop = CancellationToken::new();
    let serving = apart.serve(stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = signals.next() => {
            stop.cancel();
            tokio::select! {
                () = &mut serving => {}
                () = signals.next() => return Ok(Exit::Interrupted),
            }
        }
    }
    Ok(Exit::Done)
}

/// Names what settings come from, the later before the earlier; of variables the names alone.
fn sources(file: Option<&Path>, variables: &[&str]) -> String {
    let file = file.map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    match variables {
        [] => format!("{file}; defaults"),
        set => format!("{}; {file}; defaults", set.join(", ")),
    }
}

/// Says on standard output what an operator should know; the only place that shows a key.
fn banner(server: &Server, sources: &str) -> String {
    let facts = server.facts();
    let warning = if facts.has_sandboxes { "" } else { "NONE: " };
    let key = match &facts.key {
        Key::Set => "as configured".to_owned(),
        Key::Kept(path) => format!("in {}", path.display()),
        Key::Made(path, secret) => format!(
            "{}\n             made just now and not shown again; this machine's command line \
             finds it in {}",
            secret.expose_secret(),
            path.display()
        ),
    };
    format!(
        "outlast {} listens on {}\n  data       {}\n  config     {sources}\n  models     {}\n  \
         sandboxes  {warning}{}\n  host       {}\n  key        {key}\n",
        env!("CARGO_PKG_VERSION"),
        server.url(),
        facts.data_dir.display(),
        facts.backend,
        facts.isolation,
        facts.host,
    )
}

/// Says the same in the log, without the key.
fn announce(server: &Server, sources: &str) {
    let facts = server.facts();
    let key = match &facts.key {
        Key::Set => "configuration".to_owned(),
        Key::Kept(path) | Key::Made(path, _) => path.display().to_string(),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        address = %server.address(),
        data_dir = %facts.data_dir.display(),
        config = sources,
        models = %facts.backend,
        sandboxes = facts.isolation,
        host = facts.host,
        key,
        "listening on {}",
        server.address()
    );
    if !facts.has_sandboxes {
        tracing::error!("no sandbox can be started: every tool call will fail and say so");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_environment_are_named_without_their_values() {
        let environment = Environment::from([
            ("OUTLAST_API_KEY", "canary"),
            ("OUTLAST_DATA_DIR", ""),
            ("OUTLAST__SERVER__LISTEN", "127.0.0.1:1"),
            ("OUTLAST_CONFIG", "/etc/a.toml"),
            ("HOME", "/root"),
        ]);
        let set = environment.set();
        assert_eq!(set, ["OUTLAST_API_KEY", "OUTLAST__SERVER__LISTEN"]);
        assert_eq!(sources(None, &[]), "no file; defaults");
        assert_eq!(
            sources(Some(Path::new("/etc/a.toml")), &set),
            "OUTLAST_API_KEY, OUTLAST__SERVER__LISTEN; /etc/a.toml; defaults"
        );
    }
}
