//! PID 1 of a sandbox in which packages are installed: it runs managers one after the other.
//!
//! It is told everything in one frame, says what it does in frames, and ends. Each program runs
//! under the user that it is to run as and without any right, its arguments as they are: no shell
//! reads them. What it leaves behind is killed before the next one begins.

use std::{
    env::Args,
    ffi::OsString,
    io::{self, Read, Write as _},
    iter::Skip,
    os::{fd::AsFd as _, unix::net::UnixStream, unix::process::CommandExt as _},
    process::{Command, ExitCode, Stdio},
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid as Everybody,
};
use rustix::process::{DumpableBehavior, WaitOptions, WaitStatus, set_dumpable_behavior, wait};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    frame::{Decoder, User, encode},
    launch::{Terms, submit},
    outlet,
};

/// The first argument of PID 1.
pub const COMMAND: &str = "install";

/// The hidden first argument of what becomes a manager.
pub const STEP: &str = "install-step";

/// The status of a step whose program is not there.
const ABSENT: u8 = 127;

/// How much of what a program said is kept, in bytes: its end.
const KEPT: usize = 8 * 1024;

/// Everything that is to be installed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Job {
    /// Processes and threads.
    pub pids: u32,
    /// Bytes of private memory of one process, where no control group bounds them together.
    pub data: Option<u64>,
    /// Whether to hand out the listener of [`outlet`] before anything runs.
    pub outlet: bool,
    /// What every program finds in its environment, and nothing else.
    pub environment: Vec<(String, String)>,
    /// One after the other.
    pub steps: Vec<Step>,
}

/// What one manager is to do.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Step {
    /// The manager.
    pub manager: String,
    /// How it may be called: program and first arguments. The first that answers is taken.
    pub programs: Vec<Vec<String>>,
    /// What asks it whether it is there.
    pub probe: Vec<String>,
    /// Arguments of each of its runs.
    pub runs: Vec<Vec<String>>,
    /// Whom it runs as; `None` if PID 1's own user is the only one.
    pub user: Option<User>,
    /// Where it runs.
    pub dir: String,
    /// What it finds in its environment beside the rest.
    pub environment: Vec<(String, String)>,
}

/// What PID 1 says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Said first, if the job asks for it: the listener's descriptor travels with the first byte.
    Open,
    /// A manager begins.
    Began {
        /// Which.
        manager: String,
    },
    /// There is no such manager; nothing follows.
    Absent {
        /// Which.
        manager: String,
    },
    /// A manager failed; nothing follows.
    Failed {
        /// Which.
        manager: String,
        /// How it ended, in words.
        ended: String,
        /// The end of what it said.
        output: String,
    },
    /// All of them are done; nothing follows.
    Done,
}

/// Runs a job to its end.
pub fn run() -> ExitCode {
    match attempt() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn attempt() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let mut channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let job: Job = receive(&mut channel)?;
    if job.outlet {
        let (outlet, frame) = (outlet::open()?, encode(&Said::Open)?);
        let sent = outlet::give(&channel, &frame, &outlet)?;
        channel.write_all(frame.get(sent..).unwrap_or_default())?;
    }
    let mut say = |said: &Said| channel.write_all(&encode(said)?);
    for step in &job.steps {
        let manager = step.manager.clone();
        say(&Said::Began { manager })?;
        if let Some(trouble) = one(&job, step)? {
            return say(&trouble);
        }
    }
    say(&Said::Done)
}

/// Reads one frame.
fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 64 * 1024]);
    loop {
        if let Some(message) = decoder.take()? {
            return Ok(message);
        }
        match from.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => decoder.push(buffer.get(..length).unwrap_or_default()),
        }
    }
}

/// Has one manager do its part; returns what went wrong.
fn one(job: &Job, step: &Step) -> io::Result<Option<Said>> {
    let manager = || step.manager.clone();
    let mut found = None;
    for program in &step.programs {
        let (status, _) = command(job, step, program, &step.probe)?;
        if status.exit_status() == Some(0) {
            found = Some(program);
            break;
        }
    }
    let Some(program) = found else {
        return Ok(Some(Said::Absent { manager: manager() }));
    };
    for arguments in &step.runs {
        let (status, output) = command(job, step, program, arguments)?;
        if status.exit_status() != Some(0) {
            return Ok(Some(Said::Failed {
                manager: manager(),
                ended: how(status),
                output: String::from_utf8_lossy(&output).into_owned(),
            }));
        }
    }
    Ok(None)
}

fn how(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => format!("ended with status {status}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "is gone".to_owned(),
    }
}

/// Runs one command and everything that it starts, to the end.
fn command(
    job: &Job,
    step: &Step,
    program: &[String],
    arguments: &[String],
) -> io::Result<(WaitStatus, Vec<u8>)> {
    let terms = Terms::new(step.user, job.pids, job.data);
    let (output, output_in) = io::pipe()?;
    let child = Command::new("/proc/self/exe")
        .args([STEP, &serde_json::to_string(&terms)?, &step.dir])
        .args(program)
        .args(arguments)
        .env_clear()
        .envs(job.environment.iter().cloned())
        .envs(step.environment.iter().cloned())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output_in.try_clone()?)
        .stderr(output_in)
        .spawn()?;
    let reader = thread::spawn(move || end_of(output));
    let pid = i32::try_from(child.id()).unwrap_or(0);
    let status = loop {
        match wait(WaitOptions::empty())? {
            Some((ended, status)) if ended.as_raw_nonzero().get() == pid => break status,
            Some(_) | None => {}
        }
    };
    // Nothing outlives its step, or writes on. Fails only if nothing is left.
    let _ = kill(Everybody::from_raw(-1), Signal::SIGKILL);
    while wait(WaitOptions::empty()).is_ok() {}
    Ok((status, reader.join().unwrap_or_default()))
}

/// Reads to the end, and keeps the end.
fn end_of(mut from: impl Read) -> Vec<u8> {
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(buffer.get(..length).unwrap_or_default());
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }
    kept
}

/// Becomes a manager: its terms, where it runs, the program and its arguments.
pub fn step(mut args: Skip<Args>) -> ExitCode {
    let terms = args
        .next()
        .and_then(|terms| serde_json::from_str::<Terms>(&terms).ok());
    let (Some(terms), Some(dir), Some(program)) = (terms, args.next(), args.next()) else {
        return ExitCode::FAILURE;
    };
    if rustix::process::setsid().is_err() || submit(&terms).is_err() {
        return ExitCode::FAILURE;
    }
    if let Err(error) = std::env::set_current_dir(&dir) {
        eprintln(&format!("{dir}: {error}"));
        return ExitCode::FAILURE;
    }
    let arguments = args.map(OsString::from);
    // Returns only if the program cannot be executed.
    let error = Command::new(&program).args(arguments).exec();
    eprintln(&format!("{program}: {error}"));
    ExitCode::from(ABSENT)
}

/// Says why a manager does not run, where its own words would stand.
fn eprintln(words: &str) {
    // If nobody reads, nobody misses it.
    drop(writeln!(io::stderr(), "{words}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept() {
        let long = [vec![b'a'; 3 * KEPT], b"the end".to_vec()].concat();
        let kept = end_of(long.as_slice());
        assert_eq!(kept.len(), KEPT);
        assert!(kept.ends_with(b"the end"));
        assert_eq!(end_of(&b"short"[..]), b"short");
    }

    #[test]
    fn a_job_survives_the_channel() {
        let job = Job {
            pids: 7,
            data: None,
            outlet: true,
            environment: vec![("A".to_owned(), "b c".to_owned())],
            steps: vec![Step {
                manager: "pip".to_owned(),
                programs: vec![vec!["python3".to_owned()]],
                probe: vec!["--version".to_owned()],
                runs: vec![vec!["install".to_owned(), "--".to_owned()]],
                user: Some(User { uid: 1, gid: 2 }),
                dir: "/".to_owned(),
                environment: Vec::new(),
            }],
        };
        let bytes = encode(&job).unwrap();
        assert_eq!(receive::<Job>(&mut bytes.as_slice()).unwrap(), job);
        assert!(receive::<Job>(&mut &bytes[..9]).is_err());
    }
}
