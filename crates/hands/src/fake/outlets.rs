//! Ways out of pretended hands: listeners at loopback addresses of the host's.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, MutexGuard, PoisonError},
};

use outlast_protocol::{CallResult, Outcome};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::Recipe;

/// The way out of one hand, if it has one and lives.
#[derive(Debug)]
pub(super) struct Outlet {
    listener: Mutex<Option<TcpListener>>,
    environment: Vec<(String, String)>,
}

impl Outlet {
    /// Makes what a recipe asks for.
    pub(super) fn of(recipe: &Recipe) -> io::Result<Self> {
        let open = || -> io::Result<TcpListener> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let outlet = recipe.outlet.as_ref();
        let environment = outlet.map(crate::Outlet::environment);
        Ok(Self {
            listener: Mutex::new(outlet.map(|_| open()).transpose()?),
            environment: environment.unwrap_or_default(),
        })
    }

    /// Returns another descriptor of the listener.
    pub(super) fn listener(&self) -> io::Result<Option<TcpListener>> {
        self.lock().as_ref().map(TcpListener::try_clone).transpose()
    }

    /// Ends with its hand.
    pub(super) fn close(&self) {
        drop(self.lock().take());
    }

    /// Returns what the environment says.
    pub(super) fn variable(&self, name: &str) -> CallResult {
        let mut named = self.environment.iter().rev();
        let value = named
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str());
        CallResult::text(value.unwrap_or("absent"))
    }

    /// Says a line to whoever serves it; returns the line that comes back.
    pub(super) async fn say(&self, word: &str) -> CallResult {
        match self.exchange(word).await {
            Ok(answer) => CallResult::text(answer),
            Err(error) => CallResult::error(Outcome::Done, error.to_string()),
        }
    }

    async fn exchange(&self, word: &str) -> io::Result<String> {
        let listener = self.listener()?.ok_or(io::ErrorKind::ConnectionRefused)?;
        let mut stream = TcpStream::connect(listener.local_addr()?).await?;
        drop(listener);
        stream.write_all(format!("{word}\n").as_bytes()).await?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).await?;
        Ok(answer.trim_end().to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, Option<TcpListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
