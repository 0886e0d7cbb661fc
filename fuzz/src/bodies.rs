//! Bodies of requests to the API.

use std::fmt::Debug;

use outlast_protocol::{
    Micros, Problem,
    agent::{Agent, CreateAgent, Effort, UpdateAgent},
    credential::{CreateCredential, Credential, UpdateCredential},
    deadlines::UpdateDeadlines,
    environment::{CreateEnvironment, Environment, UpdateEnvironment},
    event::{ClientEvent, parse_send},
    facts::{ModelFacts, Models},
    key::CreateKey,
    query::Query,
    read,
    redaction::RedactSession,
    session::{AddFile, CreateSession, UpdateSession, parse_rotation},
    vault::{CreateVault, UpdateVault, Vault},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Takes every model, with every setting.
#[derive(Debug)]
struct Every;

impl Models for Every {
    fn facts(&self, _model: &str) -> Option<ModelFacts> {
        Some(ModelFacts {
            default_effort: Effort::High,
            efforts: vec![Effort::Low, Effort::Medium, Effort::High, Effort::Max],
            supports_speed: true,
            supports_inference_geo: true,
            mid_conversation_system: true,
        })
    }
}

const NOW: Micros = Micros(1_800_000_000_000_000);

/// Reads a letter, which says of what, and a body. Nothing is refused without words, what is accepted can
/// be shown, and what is shown can be sent again and means the same.
pub fn bodies(data: &[u8]) {
    let Some((letter, body)) = data.split_first() else {
        return;
    };
    if *letter == b'q' {
        return query(body);
    }
    let Some(body) = said(read::body(body)) else {
        return;
    };
    match letter {
        b'a' => agent(&body),
        b'A' => agent_changed(&body),
        b'e' => environment(&body),
        b'E' => environment_changed(&body),
        b'v' => vault(&body),
        b'V' => vault_changed(&body),
        b'c' => drop(credential(&body)),
        b'C' => credential_changed(&body),
        b'm' => events(&body),
        b's' => same(&body, CreateSession::parse),
        b'S' => same(&body, UpdateSession::parse),
        b'f' => same(&body, AddFile::parse),
        b'k' => same(&body, CreateKey::parse),
        b'd' => same(&body, UpdateDeadlines::parse),
        b'r' => same(&body, RedactSession::parse),
        _ => same(&body, parse_rotation),
    }
}

/// Returns what was read; a refusal says something, in words that can be shown.
fn said<T>(read: Result<T, Problem>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(problem) => {
            let words = &problem.message;
            assert!(!words.is_empty() && words.len() < 16_384, "{words}");
            assert!(!words.contains(['\0', '\u{1b}']), "{words:?}");
            None
        }
    }
}

fn id<T: std::str::FromStr<Err: Debug>>(prefix: &str) -> T {
    format!("{prefix}01{}", "1".repeat(22)).parse().unwrap()
}

/// Reads a body, and once more what it is when it is written and read.
fn same<T: Debug + PartialEq>(body: &Value, parse: impl Fn(&Value) -> Result<T, Problem>) {
    if let Some(first) = said(parse(body)) {
        let text = serde_json::to_vec(body).unwrap();
        let again = parse(&read::body(&text).unwrap()).unwrap();
        assert_eq!(first, again);
    }
}

/// Writes a thing and reads it.
fn again<T: Debug + DeserializeOwned + PartialEq + Serialize>(thing: &T) -> Value {
    let text = serde_json::to_string(thing).unwrap();
    let read: T = serde_json::from_str(&text).unwrap();
    let value = serde_json::to_value(thing).unwrap();
    // Decimal numbers of a client's own schemas may lose their last digit.
    assert!(has_decimals(&value) || read == *thing, "{text}");
    value
}

fn has_decimals(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(list) => list.iter().any(has_decimals),
        Value::Object(map) => map.values().any(has_decimals),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Returns those fields of what is shown that can be sent.
fn fields(shown: &Value, names: &[&str]) -> Value {
    let shown = shown.as_object().unwrap();
    let fields = names.iter();
    let fields = fields.map(|name| ((*name).to_owned(), shown[*name].clone()));
    Value::Object(fields.collect())
}

fn agent(body: &Value) {
    let make = |body: &Value| CreateAgent::parse(body)?.resolve(id("agent_"), NOW, &Every);
    let Some(made) = said(make(body)) else { return };
    let shown = again(&made);
    let sent = fields(
        &shown,
        &[
            "name",
            "model",
            "description",
            "system",
            "tools",
            "execution_identity",
            "metadata",
        ],
    );
    let second = make(&sent).unwrap_or_else(|problem| panic!("{sent}: {problem:?}"));
    assert_eq!(second, made);
}

fn agent_changed(body: &Value) {
    let first = json!({"name": "a", "model": "m", "metadata": {"k": "v"}, "system": "s",
        "tools": [{"type": "agent_toolset_20260401"}]});
    let first = CreateAgent::parse(&first).unwrap();
    let first: Agent = first.resolve(id("agent_"), NOW, &Every).unwrap();
    let Some(update) = said(UpdateAgent::parse(body)) else {
        return;
    };
    let Some(Some(next)) = said(update.clone().apply(&first, NOW, &Every)) else {
        return;
    };
    again(&next);
    assert_eq!(next.version, 2);
    if let Ok(more) = update.apply(&next, NOW, &Every) {
        assert_eq!(more, None, "the same change changes nothing more");
    }
}

fn environment(body: &Value) {
    let make = |body: &Value| {
        let create = CreateEnvironment::parse(body)?;
        Ok(create.resolve(id("env_"), NOW))
    };
    let Some(made) = said(make(body)) else { return };
    let shown = again(&made);
    let sent = fields(
        &shown,
        &["name", "description", "metadata", "scope", "config"],
    );
    let second: Result<Environment, Problem> = make(&sent);
    let second = second.unwrap_or_else(|problem| panic!("{sent}: {problem:?}"));
    assert_eq!(second, made);
}

fn environment_changed(body: &Value) {
    let first = json!({"name": "a", "metadata": {"k": "v"}, "config": {"type": "cloud",
        "networking": {"type": "limited", "allowed_hosts": ["a.example"]}}});
    let first = CreateEnvironment::parse(&first).unwrap();
    let first = first.resolve(id("env_"), NOW);
    let Some(update) = said(UpdateEnvironment::parse(body)) else {
        return;
    };
    let Some(Some(next)) = said(update.clone().apply(&first, NOW)) else {
        return;
    };
    again(&next);
    assert_eq!(update.apply(&next, NOW), Ok(None));
}

fn vault(body: &Value) {
    let make = |body: &Value| Ok(CreateVault::parse(body)?.resolve(id("vlt_"), NOW));
    let Some(made) = said(make(body)) else { return };
    let sent = fields(&again(&made), &["display_name", "metadata"]);
    assert_eq!(make(&sent), Ok(made));
}

fn vault_changed(body: &Value) {
    let first = json!({"display_name": "a", "metadata": {"k": "v"}});
    let first: Vault = CreateVault::parse(&first).unwrap().resolve(id("vlt_"), NOW);
    let Some(update) = said(UpdateVault::parse(body)) else {
        return;
    };
    let Some(Some(next)) = said(update.clone().apply(&first, NOW)) else {
        return;
    };
    again(&next);
    assert_eq!(update.apply(&next, NOW), Ok(None));
}

/// What stands for every secret, and nowhere else.
const SECRET: &str = "5ecret-5ecret-5ecret";

/// Puts [`SECRET`] in the place of each secret.
fn marked(body: &Value) -> Value {
    const NAMES: [&str; 5] = [
        "token",
        "access_token",
        "refresh_token",
        "client_secret",
        "secret_value",
    ];
    match body {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, value)| match value {
                    Value::String(_) if NAMES.contains(&name.as_str()) => {
                        (name.clone(), SECRET.into())
                    }
                    other => (name.clone(), marked(other)),
                })
                .collect(),
        ),
        other => other.clone(),
    }
}

fn credential(body: &Value) -> Option<Credential> {
    if body.to_string().contains(SECRET) {
        return None;
    }
    let body = &marked(body);
    let make = |body: &Value| {
        let create = CreateCredential::parse(body)?;
        let made = create.resolve(id("vcrd_"), id("vlt_"), NOW)?;
        Ok((create, made))
    };
    let (create, made) = said(make(body))?;
    let shown = again(&made).to_string();
    assert!(
        !format!("{create:?}{shown}").contains(SECRET),
        "a secret is shown"
    );
    Some(made)
}

/// Reads what was there before, and the change: `[before, change]`.
fn credential_changed(body: &Value) {
    let Some([before, change]) = body.as_array().map(Vec::as_slice) else {
        return;
    };
    let Some(before) = credential(before) else {
        return;
    };
    let Some(update) = said(UpdateCredential::parse(change)) else {
        return;
    };
    if let Some(next) = said(update.clone().apply(&before, NOW)) {
        again(&next);
        assert_eq!(update.apply(&next, NOW), Ok(next));
    }
}

fn events(body: &Value) {
    let Some(events) = said(parse_send(body)) else {
        return;
    };
    let sent: Vec<Value> = events.iter().map(sent).collect();
    let second = parse_send(&json!({ "events": sent }));
    let second = second.unwrap_or_else(|problem| panic!("{sent:?}: {problem:?}"));
    assert_eq!(second, events);
}

/// Returns an event as it can be sent, from what is kept of it.
fn sent(event: &ClientEvent) -> Value {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), event.kind().as_str().into());
    let kept: Map<String, Value> = serde_json::from_str(event.to_raw().get()).unwrap();
    fields.extend(kept);
    Value::Object(fields)
}

fn query(raw: &[u8]) {
    let Ok(raw) = std::str::from_utf8(raw) else {
        return;
    };
    let read = || -> Result<_, Problem> {
        let mut query = Query::parse(raw)?;
        let words = query.words("types[]", 20, outlast_protocol::event::Kind::TABLE)?;
        let limit = query.limit(20, 100)?;
        let page = query.page()?;
        let range = query.range("created_at")?;
        query.flag("include_archived")?;
        query.finish()?;
        Ok((words.len(), limit, page, range))
    };
    if let Some((words, limit, page, range)) = said(read()) {
        assert!(words <= 20 && (1..=100).contains(&limit));
        assert!(page.is_none_or(|page| page.len() <= outlast_protocol::limits::CURSOR));
        range.contains(NOW);
    }
}
