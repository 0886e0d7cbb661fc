//! A driver in a folder of its own, and short ways to ask a hand for something.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use outlast_hands::{
    CallError, Fence, Hand, HandLost, Limits, Provisioner as _, Recipe,
    namespace::{Namespaces, Options},
};
use outlast_protocol::{
    CallResult, Micros, Outcome,
    content::Block,
    id::{EventId, IncarnationId},
    seam::Entropy,
};
use serde_json::{Value, json, value::RawValue};

/// Long enough for a machine that does ten other things.
pub(crate) const GENEROUS: Duration = Duration::from_secs(60);

/// Counts up: ids differ within a test process.
#[derive(Debug)]
pub(crate) struct Counter;

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Entropy for Counter {
    fn fill(&self, buffer: &mut [u8]) {
        let next = NEXT.fetch_add(1, Ordering::Relaxed) ^ (u64::from(std::process::id()) << 32);
        buffer.fill(0);
        buffer[..8].copy_from_slice(&next.to_be_bytes());
    }
}

pub(crate) fn call_id() -> EventId {
    EventId::mint(Micros(1_700_000_000_000_000), &Counter)
}

pub(crate) fn incarnation() -> IncarnationId {
    IncarnationId::mint(Micros(1_700_000_000_000_000), &Counter)
}

pub(crate) fn recipe() -> Recipe {
    Recipe::new(incarnation())
}

/// A driver whose folder goes with it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) driver: Namespaces,
    pub(crate) dir: tempfile::TempDir,
}

impl Node {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let driver = open(dir.path().join("hands")).await;
        Self { driver, dir }
    }

    pub(crate) fn hands(&self) -> PathBuf {
        self.dir.path().join("hands")
    }

    pub(crate) async fn provision(&self, recipe: &Recipe) -> Arc<dyn Hand> {
        self.driver.provision(recipe).await.unwrap()
    }

    pub(crate) async fn hand(&self) -> Arc<dyn Hand> {
        self.provision(&recipe()).await
    }

    pub(crate) async fn limited(&self, limits: Limits) -> Arc<dyn Hand> {
        self.provision(&Recipe { limits, ..recipe() }).await
    }
}

pub(crate) async fn open(dir: PathBuf) -> Namespaces {
    Namespaces::new(Options::at(dir)).await.unwrap()
}

pub(crate) fn raw(input: &Value) -> Box<RawValue> {
    RawValue::from_string(input.to_string()).unwrap()
}

/// Returns how a hand was lost with a call.
pub(crate) fn lost_of(result: Result<CallResult, CallError>) -> HandLost {
    match result {
        Err(CallError::Lost(lost)) => lost,
        other => panic!("not lost: {other:?}"),
    }
}

/// The only brain.
pub(crate) const FENCE: Fence = Fence {
    thread: 0,
    epoch: 1,
};

pub(crate) async fn ask(
    hand: &Arc<dyn Hand>,
    tool: &str,
    input: Value,
) -> Result<CallResult, CallError> {
    let input = raw(&input);
    let asked = hand.execute(FENCE, call_id(), tool, &input);
    tokio::time::timeout(GENEROUS, asked)
        .await
        .expect("an answer in a minute")
}

pub(crate) async fn call(hand: &Arc<dyn Hand>, tool: &str, input: Value) -> CallResult {
    ask(hand, tool, input).await.unwrap()
}

pub(crate) async fn bash(hand: &Arc<dyn Hand>, command: &str) -> CallResult {
    call(hand, "bash", json!({"command": command})).await
}

/// The texts of a result, and how it ended.
pub(crate) fn text(result: &CallResult) -> String {
    let texts = result.content.iter().map(|block| match block {
        Block::Text { text } => text.as_str(),
        Block::Image { .. } | Block::Document { .. } | Block::SearchResult { .. } => {
            panic!("not a text: {block:?}")
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[track_caller]
pub(crate) fn fine(result: &CallResult) -> String {
    assert!(
        !result.is_error && result.outcome == Outcome::Done,
        "{result:?}"
    );
    text(result)
}

#[track_caller]
pub(crate) fn failed(result: &CallResult) -> String {
    assert!(result.is_error, "{result:?}");
    text(result)
}

/// Runs a command that must succeed.
pub(crate) async fn sh(hand: &Arc<dyn Hand>, command: &str) -> String {
    fine(&bash(hand, command).await)
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        tokio::time::timeout(GENEROUS, waiting).await.is_ok(),
        "never: {what}"
    );
}
