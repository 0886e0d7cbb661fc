//! What a hand is made of, and what of it is given away.

use std::{io, net::TcpListener};

use outlast_protocol::id::IncarnationId;
use outlast_sandbox::Confined;

use super::{NamespaceHand, journal::Journal, link::Link, packages::Used};
use crate::Limits;

/// What a hand is made of.
pub(super) struct Parts {
    pub(super) incarnation: IncarnationId,
    pub(super) limits: Limits,
    pub(super) confined: Confined,
    pub(super) journal: Journal,
    pub(super) link: Link,
    pub(super) outlet: Option<TcpListener>,
    pub(super) packages: Option<Used>,
}

impl NamespaceHand {
    /// Returns another descriptor of the listener that leads out, if it has one.
    pub(super) fn outlet(&self) -> io::Result<Option<TcpListener>> {
        let state = self.state();
        state
            .outlet
            .as_ref()
            .map(TcpListener::try_clone)
            .transpose()
    }
}
