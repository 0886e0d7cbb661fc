//! The helper's side: from an ordinary process to PID 1 of a sandbox.
//!
//! Started with one seqpacket socket as descriptor 0 and nothing else: no argument, no
//! environment. It has one thread throughout.

mod binds;
mod cover;
mod dev;
mod identity;
mod proc;
mod root;
mod trial;

use std::{
    ffi::CString,
    fs::File,
    io,
    os::fd::{AsFd as _, OwnedFd},
    process::ExitCode,
};

use rustix::{fs::Mode as Permissions, process::Signal};

use crate::{
    error::step,
    plan::{self, Down, Plan, Trial, Up},
    raw::{self, Side},
    seccomp,
};

/// A step that failed, on its way to the launcher.
#[derive(Debug)]
pub(crate) struct Failure {
    step: String,
    errno: i32,
}

impl Failure {
    /// Names the step.
    fn new(step: impl Into<String>, error: &io::Error) -> Self {
        Self {
            step: step.into(),
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// Names the step in which a result failed.
pub(crate) trait At<T> {
    /// Turns the error into a [`Failure`] of `step`.
    fn at(self, step: &str) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, &error.into()))
    }
}

/// Runs the helper to its end; in the process that becomes the program it does not return.
pub fn run() -> ExitCode {
    let stdin = io::stdin();
    let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(stdin.as_fd(), 10) else {
        return ExitCode::FAILURE;
    };
    match stages(&socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { step, errno }) => {
            // If the launcher is gone there is nobody to tell.
            drop(plan::send(socket.as_fd(), &Up::Failed { step, errno }, &[]));
            ExitCode::FAILURE
        }
    }
}

/// Makes the namespaces, and in the new process becomes the program.
fn stages(socket: &OwnedFd) -> Result<(), Failure> {
    die_with_parent()?;
    let Order { plan, fds } = match take_order(socket)? {
        Taken::Plan(order) => order,
        Taken::Trial(trial) => return trial::run(&trial, socket),
    };
    // The user namespace comes first, alone: the other namespaces then belong to it.
    raw::unshare_user().at(step::USER_NAMESPACE)?;
    plan::send(socket.as_fd(), &Up::Unshared, &[]).at("report to the launcher")?;
    wait_for_ids(socket)?;
    match raw::clone_sibling(raw::ALL_BUT_USER).at(step::NAMESPACES)? {
        Side::Caller(pid) => {
            plan::send(socket.as_fd(), &Up::Born(pid), &[]).at("report to the launcher")
        }
        Side::New => become_program(&plan, &fds, socket),
    }
}

/// Asks for SIGKILL when the launcher's thread ends.
fn die_with_parent() -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at("tie to the launcher")
}

/// What a helper is to do.
enum Taken {
    Plan(Order),
    Trial(Trial),
}

/// A plan and the descriptors that belong to it.
struct Order {
    plan: Plan,
    fds: Descriptors,
}

/// The descriptors of a plan.
struct Descriptors {
    channel: OwnedFd,
    program: OwnedFd,
    /// Leads commands to their own control group.
    door: Option<OwnedFd>,
    /// Holds the bytes of files that are shown.
    cover: Option<OwnedFd>,
}

/// Receives the first message.
fn take_order(socket: &OwnedFd) -> Result<Taken, Failure> {
    let gone = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (plan, fds) = match plan::receive::<Down>(socket).at("receive the plan")? {
        Some((Down::Plan(plan), fds)) => (*plan, fds),
        Some((Down::Try(trial), _)) => return Ok(Taken::Trial(trial)),
        Some((Down::Mapped | Down::Laid, _)) | None => {
            return Err(Failure::new("receive the plan", &gone()));
        }
    };
    let mut fds = fds.into_iter();
    let (Some(channel), Some(program)) = (fds.next(), fds.next()) else {
        return Err(Failure::new("receive the descriptors", &gone()));
    };
    let door = plan.door.then(|| fds.next()).flatten();
    let cover = fds.next();
    if door.is_some() != plan.door || cover.is_some() == plan.cover.is_empty() {
        return Err(Failure::new("receive the descriptors", &gone()));
    }
    let fds = Descriptors {
        channel,
        program,
        door,
        cover,
    };
    Ok(Taken::Plan(Order { plan, fds }))
}

/// Waits until the launcher has given the user namespace its ids.
fn wait_for_ids(socket: &OwnedFd) -> Result<(), Failure> {
    match plan::receive::<Down>(socket).at("wait for ids")? {
        Some((Down::Mapped, _)) => Ok(()),
        Some((Down::Plan(_) | Down::Try(_) | Down::Laid, _)) | None => Err(Failure::new(
            "wait for ids",
            &io::ErrorKind::UnexpectedEof.into(),
        )),
    }
}

/// Waits until the writable layer is there; returns the mount that holds it, if it has one.
fn wait_for_layer(plan: &Plan, socket: &OwnedFd) -> Result<Option<OwnedFd>, Failure> {
    const STEP: &str = "wait for the writable layer";
    let Some((Down::Laid, fds)) = plan::receive::<Down>(socket).at(STEP)? else {
        return Err(Failure::new(STEP, &io::ErrorKind::UnexpectedEof.into()));
    };
    let disk = fds.into_iter().next();
    if disk.is_some() != plan.disk {
        return Err(Failure::new(STEP, &io::ErrorKind::InvalidData.into()));
    }
    Ok(disk)
}

/// Builds the tree, gives everything up, and executes the program.
fn become_program(plan: &Plan, fds: &Descriptors, socket: &OwnedFd) -> Result<(), Failure> {
    let lowers = root::open(plan)?;
    let folders = binds::open(plan)?;
    identity::take(plan.mode)?;
    // After the ids changed, because a change of ids clears it.
    die_with_parent()?;
    rustix::system::sethostname(plan.hostname.as_bytes()).at("set the host name")?;
    loopback()?;
    rustix::process::umask(Permissions::from_raw_mode(0o022));
    root::seclude()?;
    let covered = cover::lay(plan, fds.cover.as_ref())?;
    let disk = wait_for_layer(plan, socket)?;
    let lowers = covered.iter().chain(&lowers).map(OwnedFd::as_fd);
    root::build(plan, &lowers.collect::<Vec<_>>(), disk.as_ref())?;
    binds::show(plan, &folders)?;
    cover::show(plan, covered.as_ref())?;
    root::enter()?;
    proc::bound_ipc(plan.limits.memory_bytes);
    proc::mask()?;
    dev::seal()?;
    identity::limit(&plan.limits)?;
    let argv = arguments(&plan.argv)?;
    place(fds)?;
    identity::drop_capabilities(plan.mode)?;
    seccomp::install(plan.purpose).map_err(|error| {
        let step = format!("install the system call filter ({error})");
        Failure::new(step, &io::ErrorKind::Other.into())
    })?;
    Err(Failure::new(
        step::EXECUTE,
        &raw::execute(fds.program.as_fd(), &argv),
    ))
}

/// Brings up the only interface there is.
fn loopback() -> Result<(), Failure> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .at("open a socket for the loopback interface")?;
    raw::bring_loopback_up(socket.as_fd()).at("bring up the loopback interface")
}

/// Turns the arguments into what `execve` takes.
fn arguments(argv: &[String]) -> Result<Vec<CString>, Failure> {
    argv.iter()
        .map(|arg| CString::new(arg.as_bytes()).map_err(io::Error::from))
        .collect::<Result<_, _>>()
        .at("read the program's arguments")
}

/// Leaves the channel, the door or `/dev/null`, and `/dev/null` as 0 to 2; everything else closes when the
/// program is executed.
fn place(fds: &Descriptors) -> Result<(), Failure> {
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .at("open /dev/null")?;
    rustix::stdio::dup2_stdin(&fds.channel).at("place the channel")?;
    let door = fds
        .door
        .as_ref()
        .map_or_else(|| null.as_fd(), OwnedFd::as_fd);
    rustix::stdio::dup2_stdout(door).at("place the door of the commands' control group")?;
    rustix::stdio::dup2_stderr(&null).at("place /dev/null")?;
    raw::close_on_exec_from(3).at("close descriptors")
}
