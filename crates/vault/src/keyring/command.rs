//! Master keys that a command prints, so that any key service fits.

use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    time::timeout,
};
use zeroize::Zeroizing;

use super::NoMasterKey;

/// How long a command may take.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// More than any list of keys has.
const MOST: usize = 16_384;

/// Runs a line in a shell and returns what it prints. What it says besides is dropped: it may say too
/// much.
///
/// # Errors
///
/// If it cannot be run, fails, prints no text or too much, or takes too long; then all of it is killed.
pub(super) async fn run(line: &str, within: Duration) -> Result<Zeroizing<String>, NoMasterKey> {
    let child = shell(line).spawn();
    let mut child = child.map_err(|error| said(&format!("cannot be run: {error}")))?;
    let mut text = Zeroizing::new(Vec::with_capacity(MOST));
    let ended = timeout(within, read(&mut child, &mut text)).await;
    // Whoever still runs has a group of its own, which is that of all that it started.
    if let Some(group) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let late = |_| said(&format!("took longer than {} s", within.as_secs()));
    let status = ended.map_err(late)?.map_err(said)?;
    if !status.success() {
        return Err(said(&format!("failed ({status})")));
    }
    let text = std::str::from_utf8(&text).map_err(|_| said("printed no text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Returns the shell that runs a line. Secrets of ours are none of its business.
fn shell(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0).kill_on_drop(true);
    let ours = |name: &str| name.starts_with("OUTLAST_") || name.starts_with("ANTHROPIC_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(ours) {
            command.env_remove(name);
        }
    }
    command
}

/// Reads all that it prints, then waits for its end.
async fn read(child: &mut Child, text: &mut Vec<u8>) -> Result<ExitStatus, &'static str> {
    let out = child.stdout.take().ok_or("has no output")?;
    let read = out.take(MOST as u64).read_to_end(text).await;
    read.map_err(|_| "has an output that cannot be read")?;
    if text.len() == MOST {
        // It may wait for a reader for ever.
        return Err("printed too much");
    }
    child.wait().await.map_err(|_| "was lost")
}

fn said(words: &str) -> NoMasterKey {
    NoMasterKey::new(format!(
        "the command of `vault.master_key_command` {words}; what it prints is never shown here, run \
         it by hand to see more"
    ))
}
