//! `outlast verify`: whether logs are what was written.

use std::{collections::BTreeSet, path::PathBuf};

use clap::Args;
use outlast_protocol::id::SessionId;
use outlast_store::{Audit, Found};
use serde_json::{Value, json};

use super::{
    console::{Console, Tone},
    failure::{Exit, Failure},
    heads::{self, Noted},
    offline,
};
use crate::config::Loaded;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The sessions; all, and all that FILE names, if none is named
    sessions: Vec<SessionId>,
    /// What `outlast heads` printed before: logs have to reach these heads still
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(
    arguments: Arguments,
    loaded: &Loaded,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let Arguments {
        sessions,
        heads,
        json,
    } = arguments;
    let noted = heads.map(|path| heads::read(&path)).transpose()?;
    let noted = noted.unwrap_or_default();
    offline::with(loaded, |offline| {
        let sessions = if sessions.is_empty() {
            all(offline.sessions()?, &noted)
        } else {
            sessions
        };
        let (count, mut bad) = (sessions.len(), 0);
        for session in sessions {
            console.wait(&format!("verifying {session}"));
            let ends = noted.get(&session).map_or(&[][..], Vec::as_slice);
            let audit = offline.audit(session, ends)?;
            console.quiet();
            bad += usize::from(is_bad(&audit.found));
            let line = if json {
                object(&audit).to_string()
            } else {
                words(&audit)
            };
            console.line(&line)?;
        }
        conclude(count, bad, console)
    })
}

/// Returns what is there and what was there, each once.
fn all(mut sessions: Vec<SessionId>, noted: &Noted) -> Vec<SessionId> {
    let here: BTreeSet<SessionId> = sessions.iter().copied().collect();
    let gone = noted.keys().filter(|session| !here.contains(session));
    sessions.extend(gone);
    sessions
}

fn conclude(count: usize, bad: usize, console: &mut Console) -> Result<Exit, Failure> {
    if bad > 0 {
        let words = format!("{bad} of {count} sessions are not what was written");
        console.note(Tone::Wrong, &words)?;
        return Ok(Exit::Failed);
    }
    console.note(Tone::Plain, &format!("sessions verified: {count}"))?;
    Ok(Exit::Done)
}

fn is_bad(found: &Found) -> bool {
    match found {
        Found::Broken(_) | Found::Gone => true,
        Found::Whole | Found::Deleted => false,
    }
}

fn words(audit: &Audit) -> String {
    let (session, records) = (audit.session, audit.end.tail);
    match &audit.found {
        Found::Whole => {
            let erased = match audit.erased {
                0 => String::new(),
                count => format!(", {count} erased at {}", positions(audit)),
            };
            let compared = if audit.compared {
                ""
            } else {
                ", its state not compared"
            };
            format!("{session}  whole, {records} records{erased}{compared}")
        }
        Found::Broken(damaged) => {
            let (at, what, word) = (damaged.position, &damaged.what, damaged.what.word());
            format!("{session}  broken at position {at}: {what} ({word})")
        }
        Found::Deleted => format!("{session}  deleted"),
        Found::Gone => format!("{session}  gone: deleted and purged, or removed whole"),
    }
}

fn positions(audit: &Audit) -> String {
    let named: Vec<String> = audit.erased_at.iter().map(u64::to_string).collect();
    let more = if audit.erased > audit.erased_at.len() as u64 {
        ", ..."
    } else {
        ""
    };
    format!("{}{more}", named.join(", "))
}

fn object(audit: &Audit) -> Value {
    let (found, damage) = match &audit.found {
        Found::Whole => ("whole", None),
        Found::Deleted => ("deleted", None),
        Found::Gone => ("gone", None),
        Found::Broken(damaged) => ("broken", Some(damaged)),
    };
    json!({
        "session": audit.session,
        "found": found,
        "records": audit.end.tail,
        "erased": audit.erased,
        "erased_at": audit.erased_at,
        "state_compared": audit.compared,
        "position": damage.map(|damaged| damaged.position),
        "damage": damage.map(|damaged| damaged.what.word()),
        "message": damage.map(|damaged| damaged.what.to_string()),
    })
}
