//! Previews: what a client may rely on.

use std::collections::HashMap;

use outlast_session::Step;
use outlast_testkit::random::Seeded;
use serde_json::{Value, json};

use crate::{
    bench::{Bench, Setup},
    brain::{Brain, said},
    reader::{Frame, Reader, names},
};

const BOTH: &str = "?event_deltas[]=agent.message&event_deltas[]=agent.thinking";

async fn open(bench: &Bench, session: &str, query: &str) -> Reader {
    bench
        .open(&format!("/v1/sessions/{session}/events/stream{query}"), &[])
        .await
}

/// A session whose turn was begun.
async fn begun(bench: &Bench) -> (String, Brain) {
    let session = bench.session().await;
    bench.say(&session, "hi").await;
    let brain = Brain::new(bench.lease().await);
    brain.take_in().await;
    (session, brain)
}

/// Plays the client: fails wherever a promise is broken.
#[derive(Default)]
struct Accumulator {
    open: HashMap<String, Vec<String>>,
    over: Vec<String>,
    requests: Vec<String>,
    pieces: usize,
}

impl Accumulator {
    fn take(&mut self, frame: &Frame) {
        match &*frame.name {
            "event_start" => {
                assert_eq!(frame.id, None);
                let id = frame.data["event"]["id"].as_str().unwrap().to_owned();
                assert!(
                    !self.over.contains(&id),
                    "a start after the event or its request"
                );
                assert!(self.open.insert(id, Vec::new()).is_none(), "two starts");
            }
            "event_delta" => {
                assert_eq!(frame.id, None);
                let id = frame.data["event_id"].as_str().unwrap();
                let texts = self.open.get_mut(id).expect("a piece without a start");
                let index =
                    usize::try_from(frame.data["delta"]["index"].as_u64().unwrap()).unwrap();
                assert!(index <= texts.len(), "a gap in the blocks");
                if index == texts.len() {
                    texts.push(String::new());
                }
                texts[index].push_str(frame.data["delta"]["content"]["text"].as_str().unwrap());
                self.pieces += 1;
            }
            "agent.message" => {
                let id = frame.event().to_owned();
                let shown = self.open.remove(&id).unwrap_or_default();
                let whole: Vec<_> = frame.data["content"].as_array().unwrap().iter().collect();
                for (index, text) in shown.iter().enumerate() {
                    let full = whole[index]["text"].as_str().unwrap();
                    let last = index + 1 == shown.len();
                    assert!(
                        full.starts_with(text) && (last || full == text),
                        "no prefix"
                    );
                }
                self.over.push(id);
            }
            "agent.thinking" => {
                let id = frame.event().to_owned();
                self.open.remove(&id);
                self.over.push(id);
            }
            "span.model_request_end" => {
                self.over.extend(self.open.drain().map(|(id, _)| id));
                self.requests.push(frame.event().to_owned());
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_message_is_previewed_between_its_requests_start_and_itself() {
    let bench = Bench::new().await;
    let (session, brain) = begun(&bench).await;
    let mut reader = open(&bench, &session, BOTH).await;
    let (request, at) = brain.begin().await;
    let thought = brain.think(at);
    let message = brain.start(at);
    for (index, text) in [(0, "He"), (0, "llo"), (1, "you")] {
        brain.delta(message, index, text);
    }
    // The first piece is there before the event is.
    let early = reader.ready();
    assert_eq!(
        names(&early),
        [
            "span.model_request_start",
            "event_start",
            "event_start",
            "event_delta",
            "event_delta",
            "event_delta"
        ]
    );
    assert_eq!(
        early[1].data["event"],
        json!({ "type": "agent.thinking", "id": thought })
    );
    assert_eq!(
        early[2].data["event"],
        json!({ "type": "agent.message", "id": message })
    );
    assert_eq!(
        early[3].data,
        json!({ "type": "event_delta", "event_id": message, "delta": {
            "type": "content_delta", "index": 0, "content": { "type": "text", "text": "He" } } })
    );
    let events = vec![
        outlast_session::Said::Thinking(thought),
        said(message, &["Hello", "you"]),
    ];
    brain.respond(request, events).await;
    brain.finish(request).await;
    let rest = reader.until("span.model_request_end").await;
    assert_eq!(
        names(&rest),
        ["agent.thinking", "agent.message", "span.model_request_end"]
    );
    assert_eq!(rest[1].event(), message.to_string());
    let mut client = Accumulator::default();
    early
        .iter()
        .chain(&rest)
        .for_each(|frame| client.take(frame));
}

#[tokio::test]
async fn a_reader_that_comes_to_it_late_still_gets_everything_in_order() {
    let bench = Bench::new().await;
    let (session, brain) = begun(&bench).await;
    let mut reader = open(&bench, &session, BOTH).await;
    // Nothing is read until all of it happened, twice over.
    for _ in 0..2 {
        let (request, at) = brain.begin().await;
        let message = brain.start(at);
        for piece in ["a", "b", "c"] {
            brain.delta(message, 0, piece);
        }
        brain.respond(request, vec![said(message, &["abc"])]).await;
        brain.finish(request).await;
        bench.say(&session, "more").await;
        brain.take_in().await;
    }
    let frames = reader.ready();
    let turn = [
        "span.model_request_start",
        "event_start",
        "event_delta",
        "event_delta",
        "event_delta",
        "agent.message",
        "span.model_request_end",
        "user.message",
        "user.message",
    ];
    assert_eq!(names(&frames), [turn, turn].concat());
}

#[tokio::test]
async fn only_what_was_asked_for_is_previewed() {
    let bench = Bench::new().await;
    let (session, brain) = begun(&bench).await;
    let mut none = open(&bench, &session, "").await;
    let mut messages = open(&bench, &session, "?event_deltas[]=agent.message").await;
    let mut thoughts = open(&bench, &session, "?event_deltas=agent.thinking").await;
    let (_, at) = brain.begin().await;
    brain.think(at);
    let message = brain.start(at);
    brain.delta(message, 0, "x");
    assert_eq!(names(&none.ready()), ["span.model_request_start"]);
    let start = "span.model_request_start";
    assert_eq!(
        names(&messages.ready()),
        [start, "event_start", "event_delta"]
    );
    assert_eq!(names(&thoughts.ready()), [start, "event_start"]);
    for (query, words) in [
        (
            "?event_deltas[]=agent.tool_use",
            "event_deltas: must be `agent.message` or `agent.thinking`",
        ),
        ("?event_deltas[]=", "event_deltas: must be"),
    ] {
        let path = format!("/v1/sessions/{session}/events/stream{query}");
        let told = bench.get(&path).await.refused(400);
        assert!(told.starts_with(words), "{told}");
    }
    let many = format!("?{}", vec!["event_deltas[]=agent.message"; 100].join("&"));
    drop(open(&bench, &session, &many).await);
}

#[tokio::test]
async fn whoever_comes_in_the_middle_of_a_message_gets_the_message_alone() {
    let bench = Bench::new().await;
    let (session, brain) = begun(&bench).await;
    let (request, at) = brain.begin().await;
    let message = brain.start(at);
    brain.delta(message, 0, "He");
    let mut late = open(&bench, &session, BOTH).await;
    let mut again = bench
        .open(
            &format!("/v1/sessions/{session}/events/stream{BOTH}"),
            &[("last-event-id", "0")],
        )
        .await;
    brain.delta(message, 0, "llo");
    brain
        .respond(request, vec![said(message, &["Hello"])])
        .await;
    brain.finish(request).await;
    assert_eq!(
        names(&late.ready()),
        ["agent.message", "span.model_request_end"]
    );
    let replayed = again.ready();
    assert!(!names(&replayed).contains(&"event_delta"), "{replayed:?}");
    // The next message is previewed to both.
    bench.say(&session, "more").await;
    brain.take_in().await;
    let (_, at) = brain.begin().await;
    let next = brain.start(at);
    brain.delta(next, 0, "x");
    for reader in [&mut late, &mut again] {
        assert!(names(&reader.ready()).ends_with(&["event_start", "event_delta"]));
    }
}

#[tokio::test]
async fn the_end_of_a_request_closes_its_previews() {
    let bench = Bench::new().await;
    let (session, brain) = begun(&bench).await;
    let mut reader = open(&bench, &session, BOTH).await;
    let (_, at) = brain.begin().await;
    let message = brain.start(at);
    brain.delta(message, 0, "cut o");
    let path = format!("/v1/sessions/{session}/events");
    bench
        .post(&path, json!({ "events": [{ "type": "user.interrupt" }] }))
        .await
        .ok();
    brain.propose(Step::Interrupt).await;
    let mut frames = reader.ready();
    // A brain that has not heard of it yet.
    brain.delta(message, 0, "ff");
    let late = brain.start(at);
    brain.delta(late, 0, "x");
    frames.extend(reader.ready());
    let mut client = Accumulator::default();
    frames.iter().for_each(|frame| client.take(frame));
    assert_eq!((client.pieces, client.requests.len()), (1, 1), "{frames:?}");
}

#[tokio::test]
async fn under_load_the_tail_is_dropped_and_never_the_middle() {
    let bench = Bench::new().await;
    let (session, brain) = begun(&bench).await;
    let mut reader = open(&bench, &session, BOTH).await;
    let mut whole = String::new();
    let (request, at) = brain.begin().await;
    let message = brain.start(at);
    let mut frames = Vec::new();
    for piece in 0..10_000 {
        let text = format!("{piece} ");
        brain.delta(message, 0, &text);
        whole.push_str(&text);
        if piece == 10 {
            frames.extend(reader.ready());
        }
    }
    brain.respond(request, vec![said(message, &[&whole])]).await;
    brain.finish(request).await;
    frames.extend(reader.ready());
    let mut client = Accumulator::default();
    frames.iter().for_each(|frame| client.take(frame));
    assert!((11..10_000).contains(&client.pieces), "{}", client.pieces);
    assert_eq!(client.over, [message.to_string()]);
}

#[tokio::test]
async fn a_gap_in_the_blocks_ends_the_preview() {
    let bench = Bench::new().await;
    let (session, brain) = begun(&bench).await;
    let mut reader = open(&bench, &session, BOTH).await;
    let (_, at) = brain.begin().await;
    let message = brain.start(at);
    for (index, text) in [(0, "a"), (2, "c"), (1, "b"), (0, "a")] {
        brain.delta(message, index, text);
    }
    let start = "span.model_request_start";
    assert_eq!(
        names(&reader.ready()),
        [start, "event_start", "event_delta"]
    );
}

/// Plays turns at random with readers that look now and then; no promise may break.
async fn play(seed: u64) {
    let bench = Bench::with(Setup {
        seed,
        ..Default::default()
    })
    .await;
    let random = Seeded::new(seed);
    let (session, brain) = begun(&bench).await;
    let mut readers = vec![(open(&bench, &session, BOTH).await, Accumulator::default())];
    for _ in 0..6 {
        let (request, at) = brain.begin().await;
        let message = brain.start(at);
        let mut texts = vec![String::new()];
        for piece in 0..random.below(1_500) {
            if random.below(40) == 0 {
                texts.push(String::new());
            }
            let index = texts.len() - 1;
            texts[index].push_str(&format!("{piece},"));
            brain.delta(message, u32::try_from(index).unwrap(), &format!("{piece},"));
            if random.below(20) == 0 {
                look(&random, &mut readers);
            }
            if random.below(400) == 0 {
                bench.say(&session, "meanwhile").await;
            }
            if random.below(600) == 0 {
                readers.push((open(&bench, &session, BOTH).await, Accumulator::default()));
            }
        }
        if random.below(3) == 0 {
            let path = format!("/v1/sessions/{session}/events");
            let events =
                json!({ "events": [{ "type": "user.interrupt" }, crate::bench::message("x")] });
            bench.post(&path, events).await.ok();
            brain.propose(Step::Interrupt).await;
            brain.delta(message, 0, "late");
            continue;
        }
        let texts: Vec<_> = texts.iter().map(|text| &**text).collect();
        brain.respond(request, vec![said(message, &texts)]).await;
        look(&random, &mut readers);
        brain.finish(request).await;
        bench.say(&session, "more").await;
        brain.take_in().await;
    }
    for (reader, client) in &mut readers {
        reader.ready().iter().for_each(|frame| client.take(frame));
    }
}

fn look(random: &Seeded, readers: &mut [(Reader, Accumulator)]) {
    for (reader, client) in readers {
        if random.below(2) == 0 {
            reader.ready().iter().for_each(|frame| client.take(frame));
        }
    }
}

#[tokio::test]
async fn no_order_of_things_breaks_a_promise() {
    for seed in 0..5 {
        play(seed).await;
    }
}

#[tokio::test]
async fn a_reader_that_left_watches_no_more() {
    let bench = Bench::new().await;
    let (session, brain) = begun(&bench).await;
    assert!(!brain.lease.is_watched());
    let reader = open(&bench, &session, BOTH).await;
    assert!(brain.lease.is_watched());
    drop(reader);
    assert!(!brain.lease.is_watched());
    drop(Value::Null);
}
