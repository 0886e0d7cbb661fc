//! Bodies on their way through.

use bytes::Bytes;
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::body::Incoming;

/// A body on its way through.
pub(crate) type Body = UnsyncBoxBody<Bytes, Broken>;

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// What it came over.
    #[error(transparent)]
    Transport(#[from] hyper::Error),
    /// What it was encoded in is not that.
    #[error("the body is not in the encoding that it says: {0}")]
    Encoding(#[from] std::io::Error),
}

/// Lets a body through as it is.
pub(crate) fn through(body: Incoming) -> Body {
    body.map_err(Broken::Transport).boxed_unsync()
}
