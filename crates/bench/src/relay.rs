//! The floor of streaming: a process that passes bytes on and does nothing else.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    task::JoinSet,
    time::sleep,
};

/// Passes bytes on until it is ended.
pub(crate) async fn serve(listen: SocketAddr, to: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).await?;
    let mut passing = JoinSet::new();
    loop {
        let (mut from, _) = listener.accept().await?;
        from.set_nodelay(true)?;
        passing.spawn(async move {
            let mut onward = TcpStream::connect(to).await?;
            onward.set_nodelay(true)?;
            copy_bidirectional(&mut from, &mut onward).await
        });
        while passing.try_join_next().is_some() {}
    }
}

/// A relay in a process of its own.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    _child: Child,
}

impl Relay {
    /// Starts one and waits until it accepts.
    pub(crate) async fn start(to: SocketAddr) -> Result<Self> {
        let address = free()?;
        let own = std::env::current_exe().context("cannot find this program")?;
        let child = Command::new(own)
            .args([
                "relay",
                "--listen",
                &address.to_string(),
                "--to",
                &to.to_string(),
            ])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        for _ in 0..1_000 {
            if TcpStream::connect(address).await.is_ok() {
                return Ok(Self {
                    address,
                    _child: child,
                });
            }
            sleep(Duration::from_millis(5)).await;
        }
        bail!("the relay does not accept")
    }
}

/// Returns a loopback address that nobody listens on at this moment.
pub(crate) fn free() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?)
}

/// Tells whether a file can be run, so that a floor that is not installed is left out by name.
pub(crate) fn is_there(program: &Path) -> bool {
    let here = |dir: std::path::PathBuf| dir.join(program).is_file();
    program.is_file()
        || std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(here))
}
