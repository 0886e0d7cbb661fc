//! Who is told what was decided.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use outlast_kernel::{Bound, Kernel};
use outlast_protocol::{
    Micros,
    audit::{Actor, AuditOutcome, Entry},
    seam::Clock,
};

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

    /// Tells the audit log of a kernel, which is made after what serves its hands: no hand asks before.
    pub fn of(kernel: Arc<OnceLock<Kernel>>) -> Self {
        Self::new(move |decided| {
            if let Some(kernel) = kernel.get() {
                kernel.audit_soon(entry(kernel.now(), decided));
            }
        })
    }

    /// Writes an entry of each, for an audit log that is elsewhere.
    pub fn noting(clock: Arc<dyn Clock>, tell: impl Fn(Entry) + Send + Sync + 'static) -> Self {
        Self::new(move |decided| tell(entry(clock.now(), decided)))
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

/// Returns what the audit log says of a decision.
fn entry(at: Micros, decided: Decided<'_>) -> Entry {
    let Decided {
        bound,
        place,
        rule,
        allowed,
        credential,
    } = decided;
    let (action, outcome) = if allowed {
        ("egress.allowed", AuditOutcome::Done)
    } else {
        ("egress.refused", AuditOutcome::Refused)
    };
    let mut entry = Entry::new(at, Actor::Session(bound.session), action)
        .of(bound.incarnation)
        .came_to(outcome)
        .with("rule", rule);
    if let Some(place) = place {
        entry = entry.with("host", place);
    }
    match credential {
        Some(credential) => entry.with("credential_id", credential),
        None => entry,
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::{
        environment::Networking,
        id::{EnvironmentId, IncarnationId, SessionId},
        seam::Entropy,
    };
    use serde_json::json;

    use super::*;

    #[derive(Debug)]
    struct Zeroes;

    impl Entropy for Zeroes {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(0);
        }
    }

    #[test]
    fn an_entry_names_host_rule_and_credential() {
        let at = Micros(0);
        let bound = Bound {
            session: SessionId::mint(at, &Zeroes),
            incarnation: IncarnationId::mint(at, &Zeroes),
            environment: EnvironmentId::mint(at, &Zeroes),
            networking: Networking::Unrestricted,
            vaults: Vec::new(),
            repositories: Vec::new(),
            mcp_hosts: Vec::new(),
        };
        let allowed = entry(
            at,
            Decided {
                bound: &bound,
                place: Some("a.example:443"),
                rule: "credential",
                allowed: true,
                credential: Some("vcrd_1"),
            },
        );
        assert_eq!(allowed.actor, Actor::Session(bound.session));
        assert_eq!(allowed.subject_id, Some(bound.incarnation.to_string()));
        let details = json!({
            "rule": "credential", "host": "a.example:443", "credential_id": "vcrd_1",
        });
        assert_eq!(json!(allowed.details), details);
        let refused = entry(
            at,
            Decided {
                bound: &bound,
                place: None,
                rule: "framing",
                allowed: false,
                credential: None,
            },
        );
        assert_eq!(refused.action, "egress.refused");
        assert_eq!(refused.outcome, Some(AuditOutcome::Refused));
        assert_eq!(json!(refused.details), json!({"rule": "framing"}));
    }
}
