//! How a host leaves the process that started it.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use rustix::{
    process::setsid,
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

/// Our own file, also if another one has its name by now.
const OURSELVES: &str = "/proc/self/exe";

/// Starts this program again with these arguments, in a session of its own and with nothing of this
/// process, and returns when it has said that it is ready. Blocks; must run before any thread.
///
/// The new process is nobody's child once this one ends.
///
/// # Errors
///
/// What the new process said before it ended.
pub(crate) fn detach(arguments: impl IntoIterator<Item = OsString>) -> io::Result<()> {
    close_inherited()?;
    // Fails only for the first of a process group, as under a shell: then it stays in that session.
    let _ = setsid();
    let mut child = Command::new(OURSELVES)
        .arg0("outlast")
        .args(arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (Some(out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let mut line = String::new();
    if BufReader::new(out).read_line(&mut line)? > 0 {
        return Ok(());
    }
    let mut words = String::new();
    err.read_to_string(&mut words)?;
    Err(super::unready(&words, child.wait()?))
}

/// Closes every descriptor but the standard ones: whatever it is, it is not ours.
fn close_inherited() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        open.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The folder that was just read is among them and closed already.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// Lets go of the standard descriptors: whoever started the host reads no more.
pub(crate) fn quiet() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}
