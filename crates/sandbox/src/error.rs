//! Why a confined process could not be started.

use std::io;

use crate::mend::Mender;

/// A step on the way to a confined process failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}{}", hint(.mend.as_deref()))]
pub struct StartError {
    /// The step, in words, such as `mount a new /proc`.
    pub step: String,
    /// What the system said.
    #[source]
    pub source: io::Error,
    /// What an operator could do about it, where that is known.
    pub mend: Option<String>,
}

/// Puts the advice behind the message.
fn hint(mend: Option<&str>) -> String {
    mend.map(|mend| format!("; {mend}")).unwrap_or_default()
}

impl StartError {
    /// Names the step that failed.
    pub(crate) fn new(step: impl Into<String>, source: io::Error) -> Self {
        let step = step.into();
        let mend = Mender::of_host().mend(&step, &source);
        Self { step, source, mend }
    }

    /// Makes a closure for `map_err`.
    pub(crate) fn at(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::new(step, source)
    }
}

/// The names of steps whose failure has a known cause.
pub(crate) mod step {
    pub(crate) const USER_NAMESPACE: &str = "make a user namespace";
    pub(crate) const NAMESPACES: &str = "make the other namespaces";
    pub(crate) const OVERLAY: &str = "mount the overlay";
    pub(crate) const WRITE: &str = "write to the overlay";
    pub(crate) const DISK: &str = "mount a disk of its own";
    pub(crate) const PROC: &str = "mount a new /proc";
    pub(crate) const READ_ONLY: &str = "make host folders read-only";
    pub(crate) const EXECUTE: &str = "execute the program";
    pub(crate) const HELPER: &str = "start the confinement helper";
}
