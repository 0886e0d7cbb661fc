//! From init to a command: the user, the limits and the rights of what runs inside.
//!
//! Init starts itself again for this, since between fork and execution a process with locks and
//! buffers may do next to nothing.

use std::{
    env::Args, io::Write as _, iter::Skip, os::unix::process::CommandExt as _, process::ExitCode,
};

use rustix::{
    io,
    process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
        set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};
use serde::{Deserialize, Serialize};

use crate::frame::{Settings, User};

/// The hidden first argument.
pub const COMMAND: &str = "launch";

/// Where commands begin.
const WORKSPACE: &str = "/workspace";

/// The highest capability number that the kernel headers leave room for.
const CAPABILITIES: u32 = 63;

/// What a command gets.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Terms {
    user: Option<User>,
    /// Processes and threads, where no control group bounds them.
    pids: Option<u32>,
    /// Whether standard error is the door to the commands' control group.
    door: bool,
    /// Bytes of private memory of one process, where no control group bounds them together.
    data: Option<u64>,
}

impl Terms {
    /// Makes the terms of a program that installs packages.
    pub(crate) const fn new(user: Option<User>, pids: u32, data: Option<u64>) -> Self {
        let (pids, door) = (Some(pids), false);
        Self {
            user,
            pids,
            door,
            data,
        }
    }
}

impl From<&Settings> for Terms {
    /// Makes the terms of what stays where init is.
    fn from(settings: &Settings) -> Self {
        Self {
            user: settings.user,
            pids: (!settings.door).then_some(settings.pids),
            door: false,
            data: settings.watch_memory,
        }
    }
}

impl Terms {
    /// Makes the same terms for what goes into the commands' control group, if there is one.
    pub(crate) const fn through(self, door: bool) -> Self {
        Self { door, ..self }
    }
}

/// Becomes the program named in the arguments, in a session of its own.
pub fn run(mut args: Skip<Args>) -> ExitCode {
    let terms = args
        .next()
        .and_then(|terms| serde_json::from_str::<Terms>(&terms).ok());
    let (Some(terms), Some(program)) = (terms, args.next()) else {
        return ExitCode::FAILURE;
    };
    if terms.door
        && let Err(error) = enter()
    {
        return failed(&format!("its control group cannot be entered: {error}"));
    }
    if rustix::process::setsid().is_err() || submit(&terms).is_err() {
        return ExitCode::FAILURE;
    }
    // Only now: the folder may be closed to everybody but the commands' user.
    if std::env::set_current_dir(WORKSPACE).is_err() && std::env::set_current_dir("/").is_err() {
        return ExitCode::FAILURE;
    }
    let name = program.rsplit('/').next().unwrap_or(&program).to_owned();
    // Returns only if the program cannot be executed, which is told where it would have spoken.
    let error = std::process::Command::new(&program)
        .arg0(name)
        .args(args)
        .exec();
    failed(&format!("{program} cannot be executed: {error}"))
}

/// Says why nothing runs, where it would have spoken.
fn failed(words: &str) -> ExitCode {
    drop(writeln!(std::io::stderr(), "{words}"));
    ExitCode::FAILURE
}

/// Goes into the commands' control group, and has errors written where the rest is.
fn enter() -> io::Result<()> {
    let entered = io::write(rustix::stdio::stderr(), b"0");
    rustix::stdio::dup2_stderr(rustix::stdio::stdout())?;
    entered.map(drop)
}

/// Takes the commands' user and gives up everything else, for good.
///
/// # Errors
///
/// If any part fails; the caller must then not run anything.
pub fn submit(terms: &Terms) -> io::Result<()> {
    // When memory runs out, commands go before init does.
    std::fs::write("/proc/self/oom_score_adj", "1000").map_err(|_| io::Errno::PERM)?;
    if let Some(pids) = terms.pids {
        lower(Resource::Nproc, u64::from(pids))?;
    }
    if let Some(bytes) = terms.data {
        lower(Resource::Data, bytes)?;
    }
    set_no_new_privs(true)?;
    if let Some(user) = terms.user {
        empty_bounding_set();
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
    }
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )
}

/// Drops every capability that a program could bring back.
fn empty_bounding_set() {
    for number in 0..=CAPABILITIES {
        // Numbers that this kernel does not know are refused, and are nobody's.
        let one = CapabilitySet::from_bits_retain(1 << number);
        if remove_capability_from_bounding_set(one).is_err() {
            break;
        }
    }
}

/// Lowers one resource limit; what is lower already stays.
pub(crate) fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let maximum = now.maximum.map_or(to, |now| now.min(to));
    let current = now.current.map_or(maximum, |now| now.min(maximum));
    setrlimit(
        resource,
        Rlimit {
            current: Some(current),
            maximum: Some(maximum),
        },
    )
}
