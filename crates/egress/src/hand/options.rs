//! What an operator may set, and what stands.

use std::time::Duration;

use outlast_reach::Rule;
use rustls::pki_types::CertificateDer;

use super::managers::Managers;

/// What an operator may set of the egress of hands.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which addresses may be connected to.
    pub rule: Rule,
    /// The package registries.
    pub managers: Managers,
    /// Connections that one hand may have open at once.
    pub connections: usize,
    /// The longest that resolving and connecting may take together.
    pub connect: Duration,
    /// How long nothing may pass on a connection.
    pub idle: Duration,
    /// Authorities that are trusted of hosts whose TLS is opened, beside the machine's.
    pub authorities: Vec<CertificateDer<'static>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rule: Rule::default(),
            managers: Managers::default(),
            connections: CONNECTIONS,
            connect: CONNECT,
            idle: IDLE,
            authorities: Vec::new(),
        }
    }
}

/// A browser opens some dozens, a package manager some tens; each costs two sockets.
pub const CONNECTIONS: usize = 256;

/// A host across the world answers within a second; one that lost a packet or two within ten.
pub const CONNECT: Duration = Duration::from_secs(10);

/// Longer than a model or a build is silent, shorter than a forgotten tunnel is a burden.
pub const IDLE: Duration = Duration::from_secs(900);

/// The longest wait for the next request, head and all: longer than clients keep idle connections, so that
/// none sends into one that is closing.
pub(crate) const REST: Duration = Duration::from_secs(120);

/// Names that a hand may have resolved, and hosts connected to, at once: each name takes a thread that all
/// hands share.
pub(crate) const DIALING: usize = 32;

/// The longest wait for a handshake, or for a tunnel's first bytes to be whole.
pub(crate) const HEAD: Duration = Duration::from_secs(30);

/// The largest head of a request or response.
pub(crate) const HEAD_BYTES: usize = 128 << 10;

/// Lines of a head.
pub(crate) const HEAD_LINES: usize = 256;

/// What of a body is read before it goes on: large enough that a copy costs little.
pub(crate) const BUFFER: usize = 256 << 10;

/// What of a tunnel is read at first: most answers are not larger, and a record of TLS fits.
pub(crate) const FIRST: usize = 20 << 10;

/// How long a direction of a tunnel rests before it lets go of its memory.
pub(crate) const QUIET: Duration = Duration::from_secs(1);

/// Connections beyond the bound that are told so; what is beyond these is closed without a word.
pub(crate) const AWAY: usize = 32;

/// How long telling them may take.
pub(crate) const TELLING: Duration = Duration::from_secs(2);

/// How much of a body that nobody wants is taken, so that its sender reads the answer.
pub(crate) const DRAINED: usize = 4 << 20;

/// How long to wait when no connection can be accepted: files may be short.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
