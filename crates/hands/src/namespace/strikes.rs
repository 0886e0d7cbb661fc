//! Which bounds of a sandbox struck, and which result says so.

use std::collections::HashMap;

use outlast_init::words::processes;
use outlast_protocol::id::EventId;
use outlast_sandbox::Pressure;

use super::words;
use crate::Limits;

/// The tool whose calls make processes; file tools are outside their bound.
const SHELL: &str = "bash";

/// What is known of the bounds of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    /// How often they had struck when last no call ran.
    seen: Pressure,
    /// How often they had when each of the calls that run began, and whether it makes processes.
    began: HashMap<EventId, (Pressure, bool)>,
    /// What the next result says of a bound that struck while no call ran.
    earlier: Option<String>,
}

impl Strikes {
    /// Notes that a call begins.
    pub(super) fn begin(&mut self, call: EventId, tool: &str, now: Pressure, limits: &Limits) {
        if self.began.is_empty() {
            if let Some(words) = words::struck(self.seen, now, limits) {
                self.note(&words);
            }
            self.seen = now;
        }
        self.began.insert(call, (now, tool == SHELL));
    }

    /// Notes that a call is over; returns how often they had struck when it began, leaving out what it
    /// has no part in.
    pub(super) fn end(&mut self, call: EventId, now: Pressure, limits: &Limits) -> Pressure {
        let (mut before, makes) = self.began.remove(&call).unwrap_or((now, false));
        let refused = self.seen.pids_refused..now.pids_refused;
        let others = self.began.values().any(|(_, makes)| *makes);
        if !makes {
            before.pids_refused = now.pids_refused;
            if !others && !refused.is_empty() {
                // By something that was left running, beside this call.
                self.note(&processes(limits.pids));
            }
        }
        if !others {
            self.seen.pids_refused = now.pids_refused;
        }
        if self.began.is_empty() {
            self.seen = now;
        }
        before
    }

    /// Notes that a bound struck while no call ran.
    pub(super) fn note(&mut self, words: &str) {
        self.earlier.get_or_insert_with(|| words::earlier(words));
    }

    /// Takes what the next result says of earlier.
    pub(super) const fn take(&mut self) -> Option<String> {
        self.earlier.take()
    }

    /// Says which struck since no call ran, if one did.
    pub(super) fn last(&self, now: Pressure, limits: &Limits) -> Option<String> {
        words::struck(self.seen, now, limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::testing::call;

    fn refused(pids_refused: u64) -> Pressure {
        Pressure {
            pids_refused,
            ..Pressure::default()
        }
    }

    #[test]
    fn each_call_is_told_of_its_own_time_and_the_next_of_what_was_between() {
        let (mut strikes, limits) = (Strikes::default(), Limits::default());
        let told = |before: Pressure, now| words::struck(before, refused(now), &limits).is_some();
        strikes.begin(call(1), SHELL, refused(0), &limits);
        strikes.begin(call(2), "read", refused(3), &limits);
        // What a command did beside a file tool is the command's, whichever is over first.
        let before = strikes.end(call(2), refused(4), &limits);
        assert!(!told(before, 4));
        let before = strikes.end(call(1), refused(4), &limits);
        assert!(told(before, 4));
        assert_eq!(strikes.take(), None);
        // Nothing new, then something that was left running.
        strikes.begin(call(3), "read", refused(4), &limits);
        strikes.end(call(3), refused(4), &limits);
        assert_eq!(strikes.take(), None);
        // Beside a file tool that call tells, since nobody else does; and once.
        strikes.begin(call(5), "read", refused(4), &limits);
        strikes.end(call(5), refused(6), &limits);
        assert!(strikes.take().is_some());
        strikes.begin(call(4), SHELL, refused(9), &limits);
        let earlier = strikes.take().unwrap();
        assert!(
            earlier.starts_with("[before this call, the sandbox's limit of"),
            "{earlier}"
        );
        let before = strikes.end(call(4), refused(9), &limits);
        assert!(!told(before, 9), "it is not this call's");
    }

    #[test]
    fn a_call_that_never_began_is_told_of_nothing() {
        let (mut strikes, limits) = (Strikes::default(), Limits::default());
        assert_eq!(strikes.end(call(1), refused(0), &limits), refused(0));
        assert_eq!(strikes.take(), None);
    }
}
