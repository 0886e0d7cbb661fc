//! The connection that a request came over.

use tokio_util::sync::CancellationToken;

/// Tells when the connection of a request has ended.
///
/// Whoever accepts connections puts one into the extensions of every request of a connection, and
/// keeps the guard as long as the connection lasts. Requests without one are taken to come from a
/// peer that reads whatever is written to it.
#[derive(Clone, Debug)]
pub struct Connection(CancellationToken);

impl Connection {
    /// Makes the word for one connection, and the guard whose drop ends it.
    pub fn open() -> (Self, impl Drop + Send) {
        let token = CancellationToken::new();
        (Self(token.clone()), token.drop_guard())
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        self.0.cancelled().await;
    }
}
