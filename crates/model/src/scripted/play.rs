//! From a step to the events of a response.

use std::time::Duration;

use serde_json::{Value, json};

use super::fill::{Form, fill};
use super::plan::{Cue, Plan};
use super::request::Thoughts;
use super::scene::Scene;
use super::script::{CallSpec, Item, Pace, Step, UsageSpec};
use super::{sign, tokens};

/// Plays a step; `turn` is how often it has been played before in a row.
pub(super) fn play(step: &Step, turn: usize, scene: &Scene<'_>) -> Plan {
    let mut writer = Writer {
        cues: vec![Cue::Wait(step.pause())],
        pace: step.pace,
        index: 0,
        left: scene.request.max_tokens,
        spent: 0,
        calls: 0,
        is_full: false,
    };
    let usage = input_usage(step.usage.as_ref(), scene);
    writer.send(
        "message_start",
        json!({"type": "message_start", "message": {
            "id": format!("msg_scripted_{}", short(scene)), "type": "message", "role": "assistant",
            "model": scene.request.model, "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": usage,
        }}),
    );
    writer.send("ping", json!({"type": "ping"}));
    let items = step.items();
    let last_call = items.iter().rposition(|item| matches!(item, Item::Call(_)));
    for (at, item) in items.iter().enumerate() {
        let cut = step.cut.filter(|_| last_call == Some(at));
        writer.item(item, cut, turn, scene);
    }
    writer.end(step, usage);
    Plan::new(writer.cues)
}

struct Writer {
    cues: Vec<Cue>,
    pace: Pace,
    index: u32,
    /// Output tokens that the request still allows.
    left: u64,
    spent: u64,
    calls: usize,
    is_full: bool,
}

impl Writer {
    fn send(&mut self, name: &'static str, data: Value) {
        self.cues.push(Cue::Send {
            name,
            data: data.to_string(),
        });
    }

    fn item(&mut self, item: &Item, cut: Option<usize>, turn: usize, scene: &Scene<'_>) {
        self.is_full |= self.left == 0;
        if self.is_full {
            return;
        }
        match item {
            Item::Text(text) => self.text(&fill(text, turn, scene, Form::Text)),
            Item::Filler(count) => self.text(&filler(*count)),
            Item::Thinking(text) => self.thinking(text, scene.request.thoughts),
            Item::RedactedThinking(text) => {
                if scene.request.thoughts != Thoughts::Off {
                    self.whole(
                        &json!({"type": "redacted_thinking", "data": sign::redact(text)})
                            .to_string(),
                    );
                }
            }
            Item::Call(call) => self.call(call, cut, turn, scene),
            Item::Block(block) => self.whole(block.get()),
            Item::PauseMs(ms) => self.cues.push(Cue::Wait(Duration::from_millis(*ms))),
        }
    }

    fn text(&mut self, text: &str) {
        self.open(&json!({"type": "text", "text": ""}).to_string());
        self.deltas("text_delta", "text", text);
        self.close();
    }

    fn thinking(&mut self, text: &str, thoughts: Thoughts) {
        if thoughts == Thoughts::Off {
            return;
        }
        self.open(&json!({"type": "thinking", "thinking": "", "signature": ""}).to_string());
        let shown = match thoughts {
            Thoughts::Shown => self.deltas("thinking_delta", "thinking", text),
            Thoughts::Omitted | Thoughts::Off => String::new(),
        };
        let signature = sign::signature(&shown);
        self.delta(json!({"type": "signature_delta", "signature": signature}));
        self.close();
    }

    fn call(&mut self, call: &CallSpec, cut: Option<usize>, turn: usize, scene: &Scene<'_>) {
        let id = match &call.id {
            Some(id) => fill(id, turn, scene, Form::Text),
            None => format!("toolu_scripted_{}_{}", short(scene), self.calls),
        };
        self.calls += 1;
        let written = match (&call.input, &call.input_json) {
            (Some(input), _) => input.get(),
            (None, Some(text)) => text,
            (None, None) => "{}",
        };
        let json = fill(written, turn, scene, Form::Json);
        let json: String = json.chars().take(cut.unwrap_or(usize::MAX)).collect();
        let name = &call.name;
        self.open(&json!({"type": "tool_use", "id": id, "name": name, "input": {}}).to_string());
        self.delta(json!({"type": "input_json_delta", "partial_json": ""}));
        self.deltas("input_json_delta", "partial_json", &json);
        self.close();
    }

    /// Sends a block that has no deltas.
    fn whole(&mut self, block: &str) {
        self.open(block);
        self.close();
        self.spent = self.spent.saturating_add(1);
    }

    fn open(&mut self, block: &str) {
        let index = self.index;
        self.cues.push(Cue::Send {
            name: "content_block_start",
            // Written by hand so that a scripted block keeps its bytes.
            data: format!(
                r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#
            ),
        });
    }

    fn close(&mut self) {
        let index = self.index;
        self.send(
            "content_block_stop",
            json!({"type": "content_block_stop", "index": index}),
        );
        self.index += 1;
    }

    fn delta(&mut self, delta: Value) {
        let index = self.index;
        self.send(
            "content_block_delta",
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
        );
    }

    /// Sends a text in pieces, as far as `max_tokens` allows, and returns what was sent.
    fn deltas(&mut self, kind: &str, field: &str, text: &str) -> String {
        let mut sent = String::new();
        let mut rest = text.chars().peekable();
        while rest.peek().is_some() {
            let allowed = usize::try_from(self.left).unwrap_or(usize::MAX);
            if allowed == 0 {
                self.is_full = true;
                break;
            }
            let most = self.pace.tokens.min(allowed).saturating_mul(tokens::CHARS);
            let piece: String = rest.by_ref().take(most).collect();
            let cost = tokens::of_text(&piece);
            self.left = self.left.saturating_sub(cost);
            self.spent = self.spent.saturating_add(cost);
            if self.pace.ms > 0 {
                self.cues
                    .push(Cue::Wait(Duration::from_millis(self.pace.ms)));
            }
            self.delta(json!({"type": kind, field: piece}));
            sent.push_str(&piece);
        }
        sent
    }

    fn end(&mut self, step: &Step, mut usage: Value) {
        let reason = match (&step.stop, &step.refusal) {
            _ if self.is_full => "max_tokens",
            (Some(word), _) => word,
            (None, Some(_)) => "refusal",
            (None, None) if step.cut.is_some() => "max_tokens",
            (None, None) if self.calls > 0 => "tool_use",
            (None, None) => "end_turn",
        };
        let details = step
            .refusal
            .as_ref()
            .filter(|_| reason == "refusal")
            .map(|refusal| {
                json!({"type": "refusal", "category": refusal.category,
                "explanation": refusal.explanation})
            });
        let spec = step.usage.as_ref();
        let output = spec
            .and_then(|spec| spec.output_tokens)
            .unwrap_or_else(|| self.spent.max(1));
        if let Some(fields) = usage.as_object_mut() {
            fields.insert("output_tokens".to_owned(), output.into());
            if let Some(searches) = spec.and_then(|spec| spec.web_search_requests) {
                let figures = json!({"web_search_requests": searches, "web_fetch_requests": 0});
                fields.insert("server_tool_use".to_owned(), figures);
            }
        }
        let delta = json!({"stop_reason": reason, "stop_sequence": step.stop_sequence,
            "stop_details": details});
        self.send(
            "message_delta",
            json!({"type": "message_delta", "delta": delta, "usage": usage}),
        );
        self.send("message_stop", json!({"type": "message_stop"}));
    }
}

/// Returns the figures of the input.
fn input_usage(spec: Option<&UsageSpec>, scene: &Scene<'_>) -> Value {
    let none = UsageSpec::default();
    let spec = spec.unwrap_or(&none);
    let written_5m = spec.ephemeral_5m_input_tokens.unwrap_or(0);
    let written_1h = spec.ephemeral_1h_input_tokens.unwrap_or(0);
    let written = spec
        .cache_creation_input_tokens
        .unwrap_or(written_5m + written_1h);
    let mut usage = json!({
        "input_tokens": spec.input_tokens.unwrap_or(scene.request.input_tokens),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": spec.cache_read_input_tokens.unwrap_or(0),
        "cache_creation": {
            "ephemeral_5m_input_tokens": written.saturating_sub(written_1h),
            "ephemeral_1h_input_tokens": written_1h,
        },
        "output_tokens": 1,
        "service_tier": "standard",
    });
    if let Some(fields) = usage.as_object_mut() {
        if scene.request.fast {
            fields.insert("speed".to_owned(), "fast".into());
        }
        if let Some(geo) = &scene.request.inference_geo {
            fields.insert("inference_geo".to_owned(), geo.as_str().into());
        }
    }
    usage
}

/// Makes `count` tokens of text that mean nothing.
fn filler(count: u64) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    "la, "
        .chars()
        .cycle()
        .take(count.saturating_mul(tokens::CHARS))
        .collect()
}

/// Names the request in an id.
fn short(scene: &Scene<'_>) -> String {
    scene.request.body.to_hex().chars().take(24).collect()
}
