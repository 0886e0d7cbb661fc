//! The agent and the environment of `outlast run`: made once, found again ever after.

use serde_json::{Value, json};

use crate::{
    cli::failure::{Exit, Failure},
    client::Client,
};

/// The metadata that marks what belongs to `outlast run`.
const MARK: &str = outlast_protocol::environment::RUN;

/// Objects that are looked through before a new one is made.
const LOOKED: usize = 10_000;

/// What the agent is told.
const SYSTEM: &str = "You are an agent that a person started from a terminal to do one task. Work \
in /workspace with your tools, do the whole task, check that it is done, and say in a few words \
what you did and what you found.";

/// Returns the id of the agent for a model.
pub(super) async fn agent(client: &Client, model: &str) -> Result<Value, Failure> {
    let wanted = json!({
        "name": format!("outlast run ({model})"),
        "model": model,
        "system": SYSTEM,
        "tools": [{"type": "agent_toolset_20260401"}],
        "metadata": {MARK: model},
    });
    let found = marked(client, "/v1/agents", model).await?;
    // Somebody changed it, or an earlier version made it: a run starts from what is said here.
    match found {
        Some(agent) if agent.get("system") != wanted.get("system") => {
            let id = id(&agent)?;
            let path = format!("/v1/agents/{}", id.as_str().unwrap_or_default());
            self::id(&client.post(&path, &wanted).await?)
        }
        Some(agent) => id(&agent),
        None => id(&client.post("/v1/agents", &wanted).await?),
    }
}

/// Returns the id of the environment.
pub(super) async fn environment(client: &Client) -> Result<Value, Failure> {
    match marked(client, "/v1/environments", "environment").await? {
        Some(environment) => id(&environment),
        None => {
            let wanted = json!({"name": "outlast run", "metadata": {MARK: "environment"}});
            id(&client.post("/v1/environments", &wanted).await?)
        }
    }
}

/// Finds an object by its mark; the oldest, where a race made two.
async fn marked(client: &Client, path: &str, mark: &str) -> Result<Option<Value>, Failure> {
    let found = client.list(path, &[("limit", "100")], LOOKED).await?;
    let is_marked = |object: &&Value| {
        let metadata = object
            .get("metadata")
            .and_then(|metadata| metadata.get(MARK));
        metadata.and_then(Value::as_str) == Some(mark)
    };
    Ok(found.iter().rfind(is_marked).cloned())
}

fn id(object: &Value) -> Result<Value, Failure> {
    let id = object.get("id").filter(|id| id.is_string()).cloned();
    id.ok_or_else(|| Failure::say(Exit::Failed, "the server made an object without an id"))
}
