//! The model crate over a real socket.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy exempts only the test functions themselves"
)]

mod upstream;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use outlast_model::wire::Options;
use outlast_model::{Scripted, Upstream, upstream as options};

/// A server on loopback that ends with the test.
struct Server {
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl Server {
    async fn start(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            _task: task,
        }
    }

    async fn scripted(options: Options) -> Self {
        Self::start(outlast_model::wire::router(
            Arc::new(Scripted::new()),
            options,
        ))
        .await
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn options(&self) -> options::Options {
        options::Options::new(self.url())
    }

    fn upstream(&self) -> Upstream {
        Upstream::new(self.options()).unwrap()
    }
}
