//! One hand, its way out, and names that lead to loopback.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use outlast_egress::hand::{
    Audit, Bound, Credentials, Forwarder, Network as _, NoCredentials, Options,
};
use outlast_protocol::{
    Micros,
    environment::Networking,
    id::{EnvironmentId, IncarnationId, SessionId},
    seam::Entropy,
};
use outlast_reach::{Resolver, Rule};

/// Every name is at loopback, unless it was said otherwise.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashMap<String, Vec<Vec<IpAddr>>>>);

impl Names {
    /// Answers questions for a name with one answer after another; the last one stays.
    pub(crate) fn say(&self, name: &str, answers: &[&str]) {
        let answers = answers
            .iter()
            .rev()
            .map(|answer| vec![answer.parse().unwrap()])
            .collect();
        self.0.lock().unwrap().insert(name.to_owned(), answers);
    }
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if name.ends_with(".nowhere") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut names = self.0.lock().unwrap();
        let Some(answers) = names.get_mut(name) else {
            return Ok(vec![Ipv4Addr::LOCALHOST.into()]);
        };
        let next = answers.last().cloned().unwrap();
        if answers.len() > 1 {
            answers.pop();
        }
        Ok(next)
    }
}

/// Draws ids one after another.
#[derive(Debug)]
struct Count(u8);

impl Entropy for Count {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(self.0);
    }
}

/// What was decided: place, rule, whether it went on.
pub(crate) type Decisions = Arc<Mutex<Vec<(String, String, bool)>>>;

/// One hand whose way out is served.
pub(crate) struct Scene {
    pub(crate) forwarder: Forwarder,
    pub(crate) names: Arc<Names>,
    pub(crate) bound: Bound,
    /// Where programs inside find the proxy.
    pub(crate) proxy: SocketAddr,
    pub(crate) decisions: Decisions,
}

/// Options with loopback opened.
pub(crate) fn open() -> Options {
    Options {
        rule: Rule::new(&["127.0.0.0/8", "::1"]).unwrap(),
        connect: Duration::from_secs(2),
        ..Options::default()
    }
}

/// Networking that allows those hosts alone.
pub(crate) fn limited(hosts: &[&str]) -> Networking {
    Networking::Limited {
        allowed_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        allow_mcp_servers: false,
        allow_package_managers: false,
    }
}

/// Binds a hand.
pub(crate) fn bound(number: u8, networking: Networking) -> Bound {
    let (at, entropy) = (Micros(1_000_000), Count(number));
    Bound {
        session: SessionId::mint(at, &entropy),
        incarnation: IncarnationId::mint(at, &entropy),
        environment: EnvironmentId::mint(at, &entropy),
        networking,
        vaults: Vec::new(),
        repositories: Vec::new(),
        mcp_hosts: Vec::new(),
    }
}

impl Scene {
    pub(crate) async fn start(networking: Networking, options: Options) -> Self {
        Self::with(networking, options, Arc::new(NoCredentials)).await
    }

    /// Starts one whose requests carry credentials.
    pub(crate) async fn with(
        networking: Networking,
        options: Options,
        credentials: Arc<dyn Credentials>,
    ) -> Self {
        let names = Arc::new(Names::default());
        let decisions = Decisions::default();
        let told = decisions.clone();
        let audit = Audit::new(move |decided| {
            let place = decided.place.unwrap_or_default().to_owned();
            let line = (place, decided.rule.to_owned(), decided.allowed);
            told.lock().unwrap().push(line);
        });
        let forwarder = Forwarder::new(options, credentials, names.clone(), audit);
        let bound = bound(1, networking);
        let proxy = attach(&forwarder, bound.clone()).await;
        Self {
            forwarder,
            names,
            bound,
            proxy,
            decisions,
        }
    }

    /// Tells whether that was decided.
    pub(crate) fn decided(&self, place: &str, rule: &str, allowed: bool) -> bool {
        let wanted = (place.to_owned(), rule.to_owned(), allowed);
        self.decisions.lock().unwrap().contains(&wanted)
    }
}

/// Serves a new listener for a hand.
pub(crate) async fn attach(forwarder: &Forwarder, bound: Bound) -> SocketAddr {
    let outlet = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = outlet.local_addr().unwrap();
    forwarder.attach(bound, outlet).await;
    proxy
}
