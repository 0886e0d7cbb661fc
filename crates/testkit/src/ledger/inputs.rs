//! Inputs arrive once and are placed at most once, in order.

use outlast_protocol::id::EventId;
use outlast_session::{Entry, Kind};

use super::Ledger;

impl Ledger {
    pub(super) fn inputs(&mut self, kept: &Entry<'_>) {
        if let Some(kind) = kept
            .kind
            .announces()
            .filter(|kind| *kind != Kind::AgentToolResult)
        {
            self.waiting.push((kept.event.unwrap(), kind));
        }
        if matches!(
            kept.kind,
            Kind::UserMessage | Kind::UserInterrupt | Kind::SystemMessage
        ) {
            let before = self.last.as_ref().map(|(kind, _)| *kind);
            let goes_with = [Some(Kind::UserMessage), Some(Kind::UserCustomToolResult)];
            let is_alone = kept.kind == Kind::SystemMessage && !goes_with.contains(&before);
            assert!(!is_alone, "an operator's turn without its companion");
            let id = kept.event.unwrap();
            assert!(self.placed.insert(id), "placed twice");
            let arrived = self.waiting.iter().position(|(waiting, _)| *waiting == id);
            let behind_result = kept.kind == Kind::SystemMessage;
            assert!(
                arrived.is_some() || behind_result,
                "{} never arrived",
                kept.kind
            );
            if let Some(index) = arrived {
                assert_eq!(index, self.first(kept.kind), "placed out of order");
                assert_eq!(self.waiting.remove(index).1, kept.kind);
            }
        }
    }

    /// Inputs are placed in order of arrival, but interrupts go first.
    fn first(&self, kind: Kind) -> usize {
        let skip = |(_, waiting): &&(EventId, Kind)| {
            (*waiting == Kind::UserInterrupt) != (kind == Kind::UserInterrupt)
        };
        self.waiting.iter().take_while(skip).count()
    }
}
