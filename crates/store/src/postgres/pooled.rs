//! Whether sessions of the database are ours alone. A pooler may give each transaction another one:
//! then nothing that a session is told stays with it, and nobody can end the one that has a write.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::{connect::Connector, fault::Fault};

const SET: &str = "SET outlast.own = 'ours'";
const GET: &str = "SELECT current_setting('outlast.own', true)";

/// Tells whether what one session is told is heard by another, or lost.
///
/// The second one keeps whatever it was given for as long as the first one is asked.
pub(super) async fn are_shared(connector: &Connector) -> Result<bool, Fault> {
    let first = connector.bare().await?;
    first.batch_execute(SET).await?;
    let second = connector.bare().await?;
    second.batch_execute("BEGIN").await?;
    Ok(hears(&second).await? || !hears(&first).await?)
}

async fn hears(client: &Client) -> Result<bool, Fault> {
    // By the simplest means there are: a pooler may not know any others.
    let said = client.simple_query(GET).await?;
    Ok(said.iter().any(is_ours))
}

fn is_ours(message: &SimpleQueryMessage) -> bool {
    matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("ours"))
}
