//! Connecting to a host that was named by somebody else.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{Host, Refused, Resolver, Rule};

/// How long an address has before the next one is tried beside it: what RFC 8305 recommends.
const STAGGER: Duration = Duration::from_millis(250);

/// Resolves a name, checks what it finds, and connects to exactly that.
#[derive(Clone, Debug)]
pub struct Dialer {
    rule: Arc<Rule>,
    resolver: Arc<dyn Resolver>,
    wait: Duration,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// It may not be connected to.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nobody knows the name, or nobody could be asked.
    #[error("`{host}` cannot be resolved: {error}")]
    Unknown {
        /// Which.
        host: Host,
        /// Why.
        error: io::Error,
    },
    /// Nobody answers there.
    #[error("`{}` cannot be connected to: {error}", host.with_port(*port))]
    Failed {
        /// Which.
        host: Host,
        /// At which port.
        port: u16,
        /// Why, of the address that failed last.
        error: io::Error,
    },
    /// It took too long.
    #[error("`{}` did not answer within {} s", host.with_port(*port), wait.as_secs())]
    Late {
        /// Which.
        host: Host,
        /// At which port.
        port: u16,
        /// How long it was waited for.
        wait: Duration,
    },
}

impl Dialer {
    /// Makes one; `wait` is the longest that resolving and connecting may take together.
    pub fn new(rule: Rule, resolver: Arc<dyn Resolver>, wait: Duration) -> Self {
        let rule = Arc::new(rule);
        Self {
            rule,
            resolver,
            wait,
        }
    }

    /// Connects to a host, at an address that was checked.
    ///
    /// # Errors
    ///
    /// If it may not be connected to, or nobody answers.
    pub async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, Unreachable> {
        let connected = async {
            let addresses = self.resolve(host, port).await?;
            first(addresses).await.map_err(|error| Unreachable::Failed {
                host: host.clone(),
                port,
                error,
            })
        };
        let late = |_| Unreachable::Late {
            host: host.clone(),
            port,
            wait: self.wait,
        };
        timeout(self.wait, connected).await.map_err(late)?
    }

    /// Returns the addresses of a host that may be connected to.
    ///
    /// Whoever connects by other means has to connect to one of these, without resolving again.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub async fn resolve(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, Unreachable> {
        let found = self.find(host).await?;
        let mut refused = None;
        let mut allowed = Vec::with_capacity(found.len());
        for address in found {
            match self.rule.check(host, port, address) {
                Ok(()) => allowed.push(SocketAddr::new(address, port)),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) if allowed.is_empty() => Err(error.into()),
            Some(_) | None => Ok(allowed),
        }
    }

    async fn find(&self, host: &Host) -> Result<Vec<IpAddr>, Unreachable> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        let found = self.resolver.resolve(name).await;
        let found = found.and_then(|found| match found.is_empty() {
            true => Err(io::Error::from(io::ErrorKind::NotFound)),
            false => Ok(found),
        });
        found.map_err(|error| Unreachable::Unknown {
            host: host.clone(),
            error,
        })
    }
}

/// Connects to whichever answers first; each one has a start before the next.
async fn first(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut trying = FuturesUnordered::new();
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    loop {
        match waiting.next() {
            Some(address) => trying.push(TcpStream::connect(address)),
            None if trying.is_empty() => return Err(failed),
            None => {}
        }
        let patience = async {
            match waiting.len() {
                0 => std::future::pending().await,
                _ => sleep(STAGGER).await,
            }
        };
        tokio::select! {
            biased;
            Some(tried) = trying.next() => match tried {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            },
            () = patience => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use tokio::net::TcpListener;

    use super::*;
    use crate::Range;

    /// Answers each question with the next of its answers.
    #[derive(Debug)]
    struct Turning(Mutex<Vec<Vec<IpAddr>>>);

    #[async_trait]
    impl Resolver for Turning {
        async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.lock().unwrap().remove(0))
        }
    }

    fn dialer(open: &[&str], answers: &[&[&str]]) -> Dialer {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        let resolver = Arc::new(Turning(Mutex::new(answers)));
        Dialer::new(Rule::new(open).unwrap(), resolver, Duration::from_secs(5))
    }

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_name_is_connected_to_at_the_address_that_was_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // A second question would be answered by a panic: there is none.
        let dialer = dialer(&["127.0.0.1"], &[&["127.0.0.1"]]);
        let stream = dialer.connect(&host("a.example"), port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    }

    #[tokio::test]
    async fn a_name_that_turns_private_is_refused_then() {
        let dialer = dialer(&[], &[&["8.8.8.8"], &["169.254.169.254"]]);
        let host = host("rebinding.example");
        assert!(dialer.resolve(&host, 80).await.is_ok());
        let refused = dialer.resolve(&host, 80).await.unwrap_err();
        assert!(matches!(
            refused,
            Unreachable::Refused(Refused {
                range: Range::Metadata,
                ..
            })
        ));
    }

    #[tokio::test]
    async fn of_mixed_answers_the_public_ones_are_used() {
        let dialer = dialer(&[], &[&["127.0.0.1", "8.8.8.8", "::ffff:10.0.0.1"]]);
        let found = dialer.resolve(&host("mixed.example"), 80).await.unwrap();
        assert_eq!(found, ["8.8.8.8:80".parse().unwrap()]);
    }

    #[tokio::test]
    async fn addresses_in_odd_forms_are_checked_too() {
        let dialer = dialer(&[], &[]);
        for text in [
            "0x7f.1",
            "2130706433",
            "[::1]",
            "[::ffff:7f00:1]",
            "[64:ff9b::7f00:1]",
        ] {
            let refused = dialer.connect(&host(text), 80).await.unwrap_err();
            assert!(matches!(refused, Unreachable::Refused(_)), "{text}");
        }
    }

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_fails() {
        let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dialer = dialer(&["127.0.0.0/8"], &[&["127.0.0.3", "127.0.0.2"]]);
        let stream = dialer.connect(&host("two.example"), port).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    }

    #[tokio::test]
    async fn nobody_there_is_told_with_its_name() {
        let dialer = dialer(&["127.0.0.0/8"], &[&["127.0.0.1"], &[]]);
        let failed = dialer.connect(&host("a.example"), 1).await.unwrap_err();
        let words = failed.to_string();
        assert!(
            words.starts_with("`a.example:1` cannot be connected to: "),
            "{words}"
        );
        let unknown = dialer.connect(&host("b.example"), 1).await.unwrap_err();
        let words = unknown.to_string();
        assert!(
            words.starts_with("`b.example` cannot be resolved: "),
            "{words}"
        );
    }
}
