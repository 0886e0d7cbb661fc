//! Who is told what was decided.

use std::{fmt, sync::Arc};

use outlast_kernel::Bound;

/// One decision about a request or a tunnel; never a value of anything.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// Whose hand asked.
    pub bound: &'a Bound,
    /// For which host and port; none if the request did not say.
    pub place: Option<&'a str>,
    /// What decided.
    pub rule: &'a str,
    /// Whether it went on.
    pub allowed: bool,
    /// Whose secret was put into the request.
    pub credential: Option<&'a str>,
}

/// Is told of each decision, in the task that made it: it must not wait.
#[derive(Clone)]
pub struct Audit(Arc<dyn Fn(Decided<'_>) + Send + Sync>);

impl Audit {
    /// Makes one of a callback.
    pub fn new(tell: impl Fn(Decided<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, decided: Decided<'_>) {
        (self.0)(decided);
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}
