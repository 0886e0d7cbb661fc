//! What this process knows of a store that takes nothing.

use outlast_protocol::{Micros, diagnosis::StoreFailure};
use outlast_store::Lack;

/// The newest failure, and since when there was nothing else.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    last: Option<(Lack, Micros)>,
    /// Since when appends have failed, one after another.
    since: Option<Micros>,
}

impl Failing {
    pub(crate) fn failed(&mut self, lack: Lack, at: Micros) {
        self.last = Some((lack, at));
        self.since.get_or_insert(at);
    }

    /// Notes what was missing elsewhere than for an append.
    pub(crate) fn met(&mut self, lack: Lack, at: Micros) {
        self.last = Some((lack, at));
    }

    /// Notes that an append succeeded.
    pub(crate) fn ended(&mut self) {
        self.since = None;
    }

    /// Returns what an operator is told.
    pub(crate) fn told(&self) -> Option<StoreFailure> {
        let (lack, at) = self.last?;
        let kind = match lack {
            Lack::Room => StoreFailure::FULL,
            Lack::Other => "unavailable",
        };
        Some(StoreFailure {
            kind: kind.to_owned(),
            at,
            since: self.since,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_failure_is_told_and_since_when_nothing_else_happened() {
        let mut failing = Failing::default();
        assert_eq!(failing.told(), None);
        failing.failed(Lack::Other, Micros(1));
        failing.failed(Lack::Room, Micros(2));
        let told = |since: Option<i64>| {
            Some(StoreFailure {
                kind: "disk_full".to_owned(),
                at: Micros(2),
                since: since.map(Micros),
            })
        };
        assert_eq!(failing.told(), told(Some(1)));
        failing.ended();
        assert_eq!(failing.told(), told(None));
        failing.met(Lack::Other, Micros(3));
        let met = failing.told().unwrap();
        assert_eq!((&*met.kind, met.since), ("unavailable", None));
    }
}
