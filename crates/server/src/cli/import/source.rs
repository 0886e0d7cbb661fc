//! The sessions of a file, found without holding it in memory.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use outlast_protocol::id::SessionId;
use outlast_session::Record;
use outlast_store::{End, Records, Source};

use crate::cli::{
    failure::{Exit, Failure},
    heads::unhex,
    transfer::{FORMAT, Line, VERSION},
};

/// A session of a file.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) session: SessionId,
    path: PathBuf,
    /// Where its first record stands.
    from: u64,
    /// Lines that its records take.
    lines: u64,
    end: End,
}

impl Source for Log {
    fn session(&self) -> SessionId {
        self.session
    }

    fn end(&self) -> End {
        self.end
    }

    fn records(&self) -> io::Result<Records<'_>> {
        let mut file = BufReader::new(File::open(&self.path)?);
        file.seek(SeekFrom::Start(self.from))?;
        let mut text = String::new();
        Ok(Box::new((0..self.lines).map(move |_| {
            text.clear();
            file.read_line(&mut text)?;
            record(&text)
        })))
    }
}

fn record(text: &str) -> io::Result<Record> {
    match serde_json::from_str(text)? {
        Line::Record(row) => row.record().map_err(io::Error::other),
        Line::Format { .. } | Line::Session { .. } | Line::End { .. } | Line::Done { .. } => {
            Err(io::Error::other("the file was changed meanwhile"))
        }
    }
}

/// Where the reader of a file stands.
#[derive(Debug)]
enum Stage {
    Start,
    Between,
    Within(SessionId, u64, u64),
    Over,
}

/// Goes along a file once, and finds its sessions.
pub(super) fn survey(path: &Path) -> Result<Vec<Log>, Failure> {
    let at = |number: u64, why: &dyn std::fmt::Display| {
        Failure::say(Exit::Failed, format!("{}:{number}: {why}", path.display()))
    };
    let file = File::open(path).map_err(|error| at(0, &error))?;
    let (mut file, mut logs) = (BufReader::new(file), Vec::new());
    let (mut stage, mut text, mut offset) = (Stage::Start, String::new(), 0);
    for number in 1.. {
        text.clear();
        let bytes = file
            .read_line(&mut text)
            .map_err(|error| at(number, &error))?;
        if bytes == 0 {
            break;
        }
        offset += u64::try_from(bytes).unwrap_or(u64::MAX);
        let line = serde_json::from_str(&text);
        let line = line.map_err(|_| at(number, &"this is no line of an export"))?;
        stage = next(stage, line, offset, path, &mut logs).map_err(|why| at(number, &why))?;
    }
    match stage {
        Stage::Over => Ok(logs),
        Stage::Start | Stage::Between | Stage::Within(..) => {
            Err(at(0, &"the file is empty, or its end was cut off"))
        }
    }
}

/// Takes a line; `offset` is where the next one stands.
fn next(
    stage: Stage,
    line: Line<'_>,
    offset: u64,
    path: &Path,
    logs: &mut Vec<Log>,
) -> Result<Stage, String> {
    match (stage, line) {
        (Stage::Start, Line::Format { format, version }) => {
            if format != FORMAT || version != VERSION {
                return Err(format!("`{format}` {version} is not read by this version"));
            }
            Ok(Stage::Between)
        }
        (Stage::Between, Line::Session { session }) => {
            if logs.iter().any(|log| log.session == session) {
                return Err(format!("session `{session}` stands there twice"));
            }
            Ok(Stage::Within(session, offset, 0))
        }
        (Stage::Within(session, from, lines), Line::Record(_)) => {
            Ok(Stage::Within(session, from, lines + 1))
        }
        (Stage::Within(session, from, lines), Line::End { tail, hash }) => {
            let hash = unhex(&hash).ok_or("`hash` is not 64 digits")?;
            logs.push(Log {
                session,
                path: path.to_owned(),
                from,
                lines,
                end: End { tail, hash },
            });
            Ok(Stage::Between)
        }
        (Stage::Between, Line::Done { sessions }) => {
            let all = u64::try_from(logs.len()) == Ok(sessions);
            all.then_some(Stage::Over)
                .ok_or_else(|| "sessions are missing".to_owned())
        }
        (_, _) => Err("this line does not belong here".to_owned()),
    }
}
