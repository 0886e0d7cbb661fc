//! Text on its way to a reader who does not want to wait for the end.

use crate::Event;
use crate::event::{Delta, Kind, Start};

/// Turns the events of an answer into pieces of its texts.
///
/// The pieces of one number, put together, are a prefix of that entry of
/// [`Response::texts`](crate::Response::texts), and numbers come up in order without a gap. Text
/// blocks without a visible character are held back, because the finished answer leaves them out.
/// A stream that begins its blocks out of order is not previewed from there on.
#[derive(Debug, Default)]
pub struct Preview {
    block: Option<u32>,
    held: String,
    shown: bool,
    texts: usize,
    lost: bool,
}

impl Preview {
    /// Makes one for a new answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event in and returns the number of the text it adds to, and what it adds.
    pub fn push(&mut self, event: &Event) -> Option<(usize, String)> {
        match &event.kind {
            Kind::BlockStart { index, block, .. } => self.begin(*index, block),
            Kind::BlockDelta {
                index,
                delta: Delta::Text(text),
            } if self.block == Some(*index) => self.add(text),
            Kind::BlockDelta {
                index,
                delta: Delta::Text(_),
            } => {
                // An earlier text grows again, but its number has been left behind.
                self.lost |= self.block.is_some_and(|last| last > *index);
                None
            }
            Kind::BlockDelta { .. }
            | Kind::BlockStop { .. }
            | Kind::MessageStart { .. }
            | Kind::MessageDelta { .. }
            | Kind::MessageStop
            | Kind::Ping
            | Kind::Other { .. } => None,
        }
    }

    fn begin(&mut self, index: u32, block: &Start) -> Option<(usize, String)> {
        let Start::Text { text } = block else {
            return None;
        };
        self.lost |= self.block.is_some_and(|last| last >= index);
        if self.shown {
            self.texts += 1;
        }
        self.block = Some(index);
        self.held.clear();
        self.shown = false;
        self.add(text)
    }

    fn add(&mut self, text: &str) -> Option<(usize, String)> {
        self.held.push_str(text);
        self.shown |= !self.held.trim().is_empty();
        let ready = self.shown && !self.held.is_empty() && !self.lost;
        ready.then(|| (self.texts, std::mem::take(&mut self.held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(events: &[&str]) -> Vec<(usize, String)> {
        let mut preview = Preview::new();
        let parse = |data: &&str| Event::parse(data).unwrap();
        events
            .iter()
            .map(parse)
            .filter_map(|event| preview.push(&event))
            .collect()
    }

    fn start(index: u32, text: &str) -> String {
        serde_json::json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "text", "text": text}})
        .to_string()
    }

    fn delta(index: u32, text: &str) -> String {
        serde_json::json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": text}})
        .to_string()
    }

    #[test]
    fn texts_are_numbered_and_blank_blocks_left_out() {
        let thinking =
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"thinking"}}"#;
        let events = [
            start(0, ""),
            delta(0, " \n"),
            start(1, ""),
            delta(1, "\n"),
            delta(1, "a"),
            delta(1, "b"),
            thinking.to_owned(),
            start(3, "c"),
        ];
        let pieces = feed(&events.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            pieces,
            [
                (0, "\na".to_owned()),
                (0, "b".to_owned()),
                (1, "c".to_owned())
            ]
        );
    }

    #[test]
    fn out_of_order_texts_are_not_previewed() {
        let events = [start(3, "later"), start(1, "earlier"), delta(1, "x")];
        let pieces = feed(&events.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(pieces, [(0, "later".to_owned())]);
    }
}
