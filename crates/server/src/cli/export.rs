//! `outlast export`: whole sessions as one file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use outlast_protocol::id::SessionId;
use outlast_session::Record;
use outlast_store::{Found, Onlooker};

use super::{
    console::{Console, Tone},
    failure::{Exit, Failure},
    offline,
    transfer::{self, FORMAT, Line, Row, VERSION},
};
use crate::config::Loaded;

/// What a file of sessions does not have.
pub(super) const LEFT_OUT: &str = "logs alone are in the file: no agents, no environments, no \
                                   contents of files, no checkpoints of workspaces";

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The sessions
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    sessions: Vec<SessionId>,
    /// Every session that is not deleted
    #[arg(long)]
    all: bool,
    /// Write them here; a file that is there is kept
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(
    arguments: Arguments,
    loaded: &Loaded,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let Arguments {
        sessions,
        all,
        output,
    } = arguments;
    if output.exists() {
        let words = format!("{} is there already", output.display());
        return Err(Failure::say(Exit::Failed, words).hint("--output names another file"));
    }
    let count = offline::with(loaded, |offline| {
        let sessions = if all { living(offline)? } else { sessions };
        let aside = Aside::create(&output)?;
        write(offline, &sessions, aside, console)?;
        Ok(sessions.len())
    })?;
    console.note(Tone::Plain, LEFT_OUT)?;
    console.line(&format!("{}: {count} sessions", output.display()))?;
    Ok(Exit::Done)
}

/// Returns the sessions that are not deleted.
fn living(offline: &dyn Onlooker) -> Result<Vec<SessionId>, Failure> {
    let mut living = Vec::new();
    for session in offline.sessions()? {
        if offline.end(session)?.is_some() {
            living.push(session);
        }
    }
    Ok(living)
}

fn write(
    offline: &dyn Onlooker,
    sessions: &[SessionId],
    mut to: Aside,
    console: &mut Console,
) -> Result<(), Failure> {
    to.line(&Line::Format {
        format: FORMAT.into(),
        version: VERSION,
    })?;
    for session in sessions {
        console.wait(&format!("exporting {session}"));
        one(offline, *session, &mut to)?;
        console.quiet();
    }
    let sessions = u64::try_from(sessions.len()).unwrap_or(u64::MAX);
    to.line(&Line::Done { sessions })?;
    Ok(to.finish()?)
}

/// Writes a session, as far as its records are proven; one that is broken ends the export.
fn one(offline: &dyn Onlooker, session: SessionId, to: &mut Aside) -> Result<(), Failure> {
    to.line(&Line::Session { session })?;
    let mut show = |record: &Record| to.line(&Line::Record(Row::of(record)));
    let audit = offline.along(session, &[], &mut show)?;
    let refuse = |why: String| Failure::say(Exit::Failed, format!("session `{session}` {why}"));
    match audit.found {
        Found::Whole => Ok(to.line(&transfer::end(audit.end))?),
        Found::Broken(damaged) => Err(refuse(format!("is broken at {damaged}"))),
        Found::Deleted | Found::Gone => Err(refuse("not found".to_owned())),
    }
}

/// A file that gets its name when it is whole.
struct Aside {
    file: BufWriter<File>,
    staged: PathBuf,
    target: PathBuf,
}

impl Aside {
    /// Makes the file, for its owner alone: it holds what people wrote.
    fn create(target: &Path) -> io::Result<Self> {
        let mut staged = target.as_os_str().to_owned();
        staged.push(format!(".{}.part", std::process::id()));
        let staged = PathBuf::from(staged);
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        Ok(Self {
            file: BufWriter::new(options.open(&staged)?),
            staged,
            target: target.to_owned(),
        })
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, line)?;
        self.file.write_all(b"\n")
    }

    /// Makes it durable, and gives it its name, unless another has it by now.
    fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::hard_link(&self.staged, &self.target)?;
        let folder = self.target.parent().filter(|path| path != &Path::new(""));
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.staged));
    }
}
