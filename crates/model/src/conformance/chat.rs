//! A conversation, as a harness keeps it.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use outlast_protocol::Micros;
use outlast_protocol::id::{EventId, SessionId};
use outlast_protocol::seam::Entropy;

use crate::accumulate::collect;
use crate::{BrainToken, Call, Error, Model, Response, Scripted};

/// Builds requests and keeps what was said.
#[derive(Clone, Debug)]
pub struct Chat {
    /// The messages so far.
    pub messages: Vec<Value>,
    /// The other fields of the request.
    pub fields: Map<String, Value>,
}

/// The ids of a suite need not differ.
#[derive(Debug)]
struct Zero;

impl Entropy for Zero {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(0);
    }
}

impl Chat {
    /// Begins a conversation with a text.
    pub fn new(text: &str) -> Self {
        let bash = json!({"name": "bash", "description": "Runs a command.",
            "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}});
        let fields = json!({"model": Scripted::ID, "max_tokens": 100_000, "stream": true,
            "tools": [bash]});
        let mut chat = Self {
            messages: Vec::new(),
            fields: fields.as_object().expect("an object").clone(),
        };
        chat.say(text);
        chat
    }

    /// Begins a conversation with a script.
    pub fn script(steps: &Value) -> Self {
        Self::new(&format!("Please play this.\n```script\n{steps:#}\n```"))
    }

    /// Says something as the user.
    pub fn say(&mut self, text: &str) {
        self.messages
            .push(json!({"role": "user", "content": [{"type": "text", "text": text}]}));
    }

    /// Takes an answer in as it is to be sent back.
    pub fn keep(&mut self, response: &Response) {
        let content = json!(response.blocks);
        self.messages
            .push(json!({"role": "assistant", "content": content}));
    }

    /// Answers every call of a response.
    pub fn results(&mut self, response: &Response, text: &str) {
        let result = |call: &crate::ToolUse| {
            json!({"type": "tool_result", "tool_use_id": call.id,
                "content": format!("{text} {}", call.index)})
        };
        let content: Vec<_> = response.calls.iter().map(result).collect();
        self.messages
            .push(json!({"role": "user", "content": content}));
    }

    /// Returns the request.
    pub fn call(&self) -> Call {
        let mut body = self.fields.clone();
        body.insert("messages".to_owned(), Value::from(self.messages.clone()));
        Self::call_with(to_raw_value(&body).expect("valid JSON"))
    }

    /// Returns a request with any body.
    pub fn call_with(body: Box<RawValue>) -> Call {
        Call {
            brain: BrainToken {
                session: SessionId::mint(Micros(0), &Zero),
                thread: 0,
                epoch: 1,
            },
            request: EventId::mint(Micros(0), &Zero),
            model: Scripted::ID.to_owned(),
            body: Arc::from(body),
        }
    }

    /// Sends the request and waits for the whole answer.
    ///
    /// # Errors
    /// Whatever the model comes to.
    pub async fn ask(&self, model: &dyn Model) -> Result<Response, Error> {
        collect(model.stream(self.call()).await?).await
    }

    /// Sends the request, which must be answered, and keeps the answer.
    pub async fn go(&mut self, model: &dyn Model) -> Response {
        let response = self.ask(model).await.expect("an answer");
        self.keep(&response);
        response
    }
}
