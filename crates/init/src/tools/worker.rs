//! One file tool in a process of its own, under the commands' user.

use std::{
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use rustix::process::Resource;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Roots, run as run_tool};
use crate::{
    frame::{Answer, Ended},
    launch::{Terms, lower, submit},
};

/// Processor time for one call, in seconds; the kernel ends the process after it.
pub(crate) const CPU_SECONDS: u64 = 30;

/// What init writes to the worker's standard input.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Job {
    pub(crate) terms: Terms,
    pub(crate) name: String,
    pub(crate) input: Box<RawValue>,
}

/// Reads a job, does it, writes the answer.
pub fn run() -> ExitCode {
    match attempt() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Does the work; an error here is no tool's error, it means that nothing was done.
fn attempt() -> io::Result<()> {
    let mut job = Vec::new();
    io::stdin().lock().read_to_end(&mut job)?;
    let job: Job = serde_json::from_slice(&job)?;
    submit(&job.terms)?;
    lower(Resource::Cpu, CPU_SECONDS)?;
    let answer = match run_tool(&job.name, job.input.get(), &Roots::inside()) {
        Ok(content) => Answer {
            content,
            is_error: false,
            ended: Ended::Done,
        }
        .worded(),
        Err(text) => Answer::error(text),
    };
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    out.flush()
}
