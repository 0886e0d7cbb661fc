//! What went wrong last, by part.

use outlast_protocol::{
    Micros, Outcome, Problem,
    diagnosis::{Part, Silent, StoreFailure, Trouble},
};
use outlast_session::{
    Kind, Record, State,
    body::{Claimed, HandLost, Settled},
};
use outlast_store::{Order, ReadError, Slice};
use serde::Deserialize;

use crate::{error, kernel::Inner};

/// Records at the end of a log that are looked at.
const NEWEST: usize = 500;

/// Bytes of bodies that are read for that, about.
const BYTES: usize = 4 << 20;

/// The part of `session.error` that says what failed; its words are not read.
#[derive(Debug, Deserialize)]
struct Failed {
    error: FailedKind,
}

#[derive(Debug, Deserialize)]
struct FailedKind {
    #[serde(rename = "type")]
    kind: String,
}

impl Inner {
    /// Reads the end of a log, the newest record first.
    pub(super) async fn newest(&self, state: &State) -> Result<Vec<Record>, Problem> {
        let slice = Slice {
            order: Order::Backwards,
            bytes: BYTES,
            ..Slice::after(state.tail + 1, NEWEST)
        };
        let read = self.store.read(state.id, slice).await;
        read.map_err(|fault| error::read(&fault))
    }

    /// Returns the newest trouble of each part, the newest first.
    pub(super) async fn troubles(
        &self,
        state: &State,
        newest: &[Record],
        silent: Option<&Silent>,
        failure: Option<&StoreFailure>,
    ) -> Result<Vec<Trouble>, Problem> {
        let mut all: Vec<Trouble> = newest.iter().filter_map(trouble).collect();
        if let Some(record) = self.last_error(state).await.map_err(|e| error::read(&e))? {
            all.extend(trouble(&record));
        }
        all.extend(failure.map(|failure| of(Part::Log, &failure.kind, failure.at, None)));
        if let Some(at) = self.publisher.left_out_since(state.id) {
            all.push(of(Part::Hand, "outputs_left_out", at, None));
        }
        all.extend(unanswered(state, newest));
        all.sort_by_key(|trouble| (std::cmp::Reverse(trouble.at), trouble.part));
        if let Some(silent) = silent {
            // It goes on, and whatever went wrong with a hand since then is due to it.
            all.insert(0, of(Part::Hand, "silent", silent.since, None));
        }
        let mut parts = Vec::new();
        all.retain(|trouble| {
            let first = !parts.contains(&trouble.part);
            parts.push(trouble.part);
            first
        });
        Ok(all)
    }

    /// Finds the newest `session.error`, however long ago it was.
    async fn last_error(&self, state: &State) -> Result<Option<Record>, ReadError> {
        let slice = Slice {
            order: Order::Backwards,
            kinds: vec![Kind::SessionError],
            ..Slice::after(state.tail + 1, 1)
        };
        Ok(self.store.read(state.id, slice).await?.into_iter().next())
    }
}

fn of(part: Part, kind: &str, at: Micros, position: Option<u64>) -> Trouble {
    Trouble {
        part,
        kind: kind.to_owned(),
        at,
        position,
    }
}

/// Returns what a record says of a failure.
fn trouble(record: &Record) -> Option<Trouble> {
    let (at, position) = (record.at, Some(record.position));
    let text = record.body.text();
    if record.kind == Kind::SessionError {
        let Failed { error } = serde_json::from_str(text).ok()?;
        return Some(of(part(&error.kind), &error.kind, at, position));
    }
    if record.kind == Kind::HandLost {
        let HandLost { unreadable, .. } = serde_json::from_str(text).ok()?;
        let kind = match unreadable {
            Some(_) => "checkpoint_unreadable",
            None => "hand_lost",
        };
        return Some(of(Part::Hand, kind, at, position));
    }
    if record.kind == Kind::Settled {
        let Settled { outcome, .. } = serde_json::from_str(text).ok()?;
        let kind = match outcome {
            Outcome::Limit => "limit",
            Outcome::NotStarted => "not_started",
            Outcome::MayHaveRun => "may_have_run",
            Outcome::Done | Outcome::Interrupted | Outcome::Denied => return None,
        };
        return Some(of(Part::Hand, kind, at, position));
    }
    if record.kind == Kind::Claimed {
        let Claimed { attempt, .. } = serde_json::from_str(text).ok()?;
        return (attempt > 1).then(|| of(Part::Brain, "claimed_again", at, position));
    }
    None
}

/// Returns the part that an error type of the API is of.
fn part(kind: &str) -> Part {
    if kind.starts_with("model_") || kind == "billing_error" {
        Part::Model
    } else if kind.starts_with("mcp_") {
        Part::Mcp
    } else if kind.starts_with("repository_") || kind.starts_with("credential_") {
        Part::Hand
    } else {
        Part::Brain
    }
}

/// A client that was asked and has not answered is a part too.
fn unanswered(state: &State, newest: &[Record]) -> Option<Trouble> {
    state
        .threads
        .iter()
        .any(|thread| thread.is_at_rest() && thread.asked().next().is_some())
        .then(|| {
            let idle = newest
                .iter()
                .find(|record| record.kind == Kind::SessionIdle);
            let at = idle.map_or(state.at, |record| record.at);
            let position = idle.map(|record| record.position);
            of(Part::Client, "answer_outstanding", at, position)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_type_has_its_part() {
        for (kind, expected) in [
            ("model_overloaded_error", Part::Model),
            ("billing_error", Part::Model),
            ("mcp_connection_failed_error", Part::Mcp),
            ("repository_forbidden_error", Part::Hand),
            ("credential_host_unreachable_error", Part::Hand),
            ("unknown_error", Part::Brain),
            ("tool_use_limit_reached_error", Part::Brain),
        ] {
            assert_eq!(part(kind), expected, "{kind}");
        }
    }
}
