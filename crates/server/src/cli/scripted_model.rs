//! `outlast scripted-model`: the built-in model for whoever speaks the Messages API.

use std::{net::SocketAddr, sync::Arc};

use outlast_model::{Scripted, wire};
use tokio::net::TcpListener;

use super::{
    console::Console,
    failure::{Exit, Failure},
    serve::Signals,
};

pub(super) async fn serve(listen: SocketAddr, console: &mut Console) -> Result<Exit, Failure> {
    let bound = TcpListener::bind(listen).await;
    let listener = bound.map_err(|error| {
        Failure::say(
            Exit::Failed,
            format_args!("cannot listen on `{listen}`: {error}"),
        )
    })?;
    let url = crate::server::url(listener.local_addr()?);
    console.line(&format!(
        "the scripted model answers at {url} (POST /v1/messages); it needs no key"
    ))?;
    let mut signals = Signals::new()?;
    let router = wire::router(Arc::new(Scripted::new()), wire::Options::default());
    let stop = async move {
        signals.next().await;
    };
    tokio::select! {
        served = axum::serve(listener, router) => served?,
        // It keeps nothing: what is being answered may be cut off.
        () = stop => {}
    }
    Ok(Exit::Done)
}
