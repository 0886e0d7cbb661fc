//! Which machines an image is for.

use std::io;

use serde::Deserialize;

use super::archive::bad;

/// What an image says of them; a word that it leaves out fits all.
#[derive(Debug, Deserialize)]
pub(super) struct Machine {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

impl Machine {
    /// Tells whether it is this one.
    pub(super) fn is_this(&self) -> bool {
        let fits = |said: &str, here: &str| said.is_empty() || said == here;
        fits(&self.os, "linux") && fits(&self.architecture, architecture())
    }

    /// Refuses what was made for another kind of machine: its programs would not even begin.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.is_this() {
            return Ok(());
        }
        let Self {
            architecture: made,
            os,
        } = self;
        let os = if os.is_empty() { "linux" } else { os };
        Err(bad(&format!(
            "it was made for {}/{}, and this machine is linux/{}; take the image for that",
            os.escape_debug(),
            made.escape_debug(),
            architecture()
        )))
    }
}

/// Returns what images call this kind of machine.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
