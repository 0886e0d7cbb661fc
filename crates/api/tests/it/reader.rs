//! A reader of server-sent events.

use axum::{body::BodyDataStream, response::Response};
use futures::{FutureExt as _, StreamExt as _};
use http::HeaderMap;
use serde_json::Value;
use tokio::time::timeout;

use crate::bench::PATIENCE;

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

impl Frame {
    /// Reads the text of a frame, which must have exactly the form that every SDK accepts.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let name = lines
            .next()
            .unwrap()
            .strip_prefix("event: ")
            .unwrap()
            .to_owned();
        let mut next = lines.next().unwrap();
        let id = next.strip_prefix("id: ").map(|id| id.parse().unwrap());
        if id.is_some() {
            next = lines.next().unwrap();
        }
        let data: Value = serde_json::from_str(next.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(lines.next(), None, "{text}");
        assert!(name == "error" || data["type"] == name.as_str(), "{text}");
        Self { name, id, data }
    }

    /// Returns the id of the event.
    pub(crate) fn event(&self) -> &str {
        self.data["id"].as_str().unwrap()
    }
}

/// Reads frames as they come.
pub(crate) struct Reader {
    pub(crate) headers: HeaderMap,
    body: BodyDataStream,
    text: String,
    /// How much of the text was taken.
    read: usize,
}

impl Reader {
    pub(crate) fn new(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            headers: parts.headers,
            body: body.into_data_stream(),
            text: String::new(),
            read: 0,
        }
    }

    /// Waits for the next frame; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.buffered() {
                return Some(frame);
            }
            let Some(chunk) = timeout(PATIENCE, self.body.next())
                .await
                .expect("nothing comes")
            else {
                assert_eq!(
                    &self.text[self.read..],
                    "",
                    "the stream ends in the middle of a frame"
                );
                return None;
            };
            self.text
                .push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
    }

    /// Returns the frames that are there now.
    pub(crate) fn ready(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(Some(chunk)) = self.body.next().now_or_never() {
            self.text
                .push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
        frames.extend(std::iter::from_fn(|| self.buffered()));
        frames
    }

    /// Reads up to and including the first frame of this name.
    pub(crate) async fn until(&mut self, name: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame = self
                .next()
                .await
                .unwrap_or_else(|| panic!("ended before {name}"));
            let found = frame.name == name;
            frames.push(frame);
            if found {
                return frames;
            }
        }
    }

    /// Reads to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    fn buffered(&mut self) -> Option<Frame> {
        let (frame, _) = self.text[self.read..].split_once("\n\n")?;
        self.read += frame.len() + 2;
        let frame = Frame::parse(frame);
        if self.read == self.text.len() {
            self.text.clear();
            self.read = 0;
        }
        Some(frame)
    }
}

/// Returns the names of frames.
pub(crate) fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| &*frame.name).collect()
}
