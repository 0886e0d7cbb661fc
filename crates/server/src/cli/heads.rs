//! `outlast heads`: where each log ends, to be kept where nobody who can change the logs can.

use std::{collections::BTreeMap, fs, io, path::Path};

use clap::Args;
use outlast_protocol::id::SessionId;
use outlast_store::End;
use serde::{Deserialize, Serialize};

use super::{
    console::Console,
    failure::{Exit, Failure},
    offline,
};
use crate::config::Loaded;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The sessions; all if none is named
    sessions: Vec<SessionId>,
}

/// A line: where a log ends.
#[derive(Debug, Deserialize, Serialize)]
struct Line {
    session: SessionId,
    tail: u64,
    hash: String,
}

/// Ends that logs once had.
pub(super) type Noted = BTreeMap<SessionId, Vec<End>>;

pub(super) fn run(
    arguments: Arguments,
    loaded: &Loaded,
    console: &mut Console,
) -> Result<Exit, Failure> {
    offline::with(loaded, |offline| {
        let all = arguments.sessions.is_empty();
        let sessions = if all {
            offline.sessions()?
        } else {
            arguments.sessions
        };
        for session in sessions {
            match offline.end(session)? {
                Some(end) => console.line(&line(session, end)?)?,
                // One that is deleted has no end to be kept.
                None if all => {}
                None => {
                    let words = format!("session `{session}` not found");
                    return Err(Failure::say(Exit::Failed, words));
                }
            }
        }
        Ok(Exit::Done)
    })
}

fn line(session: SessionId, end: End) -> io::Result<String> {
    let (tail, hash) = (end.tail, hex(&end.hash));
    let line = Line {
        session,
        tail,
        hash,
    };
    serde_json::to_string(&line).map_err(io::Error::from)
}

/// Reads what [`run`] printed, once or several times.
pub(super) fn read(path: &Path) -> Result<Noted, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        let words = format!("cannot read {}: {error}", path.display());
        Failure::say(Exit::Usage, words)
    })?;
    let mut noted = Noted::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let (session, end) = parse(line).ok_or_else(|| {
            let words = format!("{}:{number}: this is no head", path.display());
            Failure::say(Exit::Usage, words).hint("`outlast heads` prints one a line")
        })?;
        let known = noted.entry(session).or_default();
        if !known.contains(&end) {
            known.push(end);
        }
    }
    Ok(noted)
}

fn parse(line: &str) -> Option<(SessionId, End)> {
    let line: Line = serde_json::from_str(line).ok()?;
    let hash = unhex(&line.hash)?;
    let tail = (line.tail > 0).then_some(line.tail)?;
    Some((line.session, End { tail, hash }))
}

/// Writes bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads as many bytes as are expected, and no more.
pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        let plain = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
        *byte = plain.then(|| u8::from_str_radix(pair, 16).ok())??;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_read_back_and_nothing_else_does() {
        let bytes: [u8; 4] = [0, 0x7f, 0x80, 0xff];
        assert_eq!(hex(&bytes), "007f80ff");
        assert_eq!(unhex("007f80ff"), Some(bytes));
        for text in [
            "",
            "007f80f",
            "007f80ff00",
            "+07f80ff",
            "007f80fg",
            "ä7f80ff",
        ] {
            assert_eq!(unhex::<4>(text), None, "{text}");
        }
    }

    #[test]
    fn a_line_that_is_no_head_is_named_by_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("heads");
        let session = "sesn_010000000000000000000001";
        let good = format!(
            r#"{{"session":"{session}","tail":3,"hash":"{}"}}"#,
            "ab".repeat(32)
        );
        fs::write(&path, format!("{good}\n\n{good}\n")).unwrap();
        let noted = read(&path).unwrap();
        assert_eq!(noted.into_values().map(|ends| ends.len()).sum::<usize>(), 1);
        for bad in [
            "{}",
            "x",
            &good.replace("ab", "a"),
            &good.replace(":3", ":0"),
        ] {
            fs::write(&path, format!("{good}\n{bad}\n")).unwrap();
            let failure = read(&path).unwrap_err();
            assert!(
                failure.error.to_string().contains("heads:2: "),
                "{failure:?}"
            );
        }
    }
}
