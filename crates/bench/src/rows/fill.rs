//! Many sessions at rest.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::task::JoinSet;

use crate::api::Client;

/// Connections that make sessions at once.
const CLIENTS: usize = 16;

/// Makes that many sessions.
pub(super) async fn sessions(client: &mut Client, address: SocketAddr, count: usize) -> Result<()> {
    let mut making = JoinSet::new();
    for number in 0..CLIENTS {
        let mut client = client.again(address).await?;
        let share = count / CLIENTS + usize::from(number < count % CLIENTS);
        making.spawn(async move {
            for _ in 0..share {
                client.session().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = making.join_next().await {
        done??;
    }
    Ok(())
}
