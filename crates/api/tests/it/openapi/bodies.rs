//! What readers take of a body is what its schema says, and the other way round.
//!
//! Every example of the document is sent with one place changed: what does not fit the schema has to be
//! refused, and what fits it must not be refused for its form. Unknown fields and words are refused with
//! a list of the known ones, which has to be that of the schema.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    Document,
    document::Operation,
    mutated::{NOBODY, Place, places, variants, with},
    scene::Scene,
    schema, words,
};
use crate::bench::Reply;

/// An operation with an example of its body.
struct Case<'a> {
    scene: &'a Scene,
    operation: Operation<'a>,
    schema: &'a Value,
    example: &'a str,
    body: &'a Value,
}

impl Case<'_> {
    async fn ask(&self, body: &Value) -> Reply {
        let reply = self
            .scene
            .ask(self.operation, self.example, body.to_string().into())
            .await;
        let known = matches!(reply.status.as_u16(), 200 | 400 | 404 | 409 | 413 | 429);
        assert!(
            known,
            "{} of {}: {}",
            self.shown(body),
            self.operation.path,
            reply.text
        );
        reply
    }

    /// Asks, and compares what the schema says with what is answered.
    async fn compare(&self, body: &Value) {
        let misfit = schema::misfit(Document::get(), self.schema, body);
        let reply = self.ask(body).await;
        let what = self.shown(body);
        if let Some(misfit) = misfit {
            assert_ne!(
                reply.status, 200,
                "{what} is taken, and does not fit: {misfit}"
            );
            return;
        }
        if reply.status == 200 {
            return;
        }
        let told = reply.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            !words::is_form(&told),
            "{what} fits, and is refused: {told}"
        );
    }

    fn shown(&self, body: &Value) -> String {
        let text: String = body.to_string().chars().take(1_500).collect();
        format!(
            "{} {} ({}): {text}",
            self.operation.method, self.operation.path, self.example
        )
    }

    /// Compares one place of the example.
    async fn visit(&self, place: &Place<'_>) {
        for body in variants(self.body, place) {
            self.compare(&body).await;
        }
        if place.schema["additionalProperties"] == json!(false) {
            self.fields(place).await;
        }
        if place.value.is_string() && !place.own.is_empty() {
            self.words(place).await;
        }
    }

    /// The fields that a reader knows are those of the schema.
    async fn fields(&self, place: &Place<'_>) {
        let mut value = place.value.clone();
        value[NOBODY] = json!(1);
        let body = with(self.body, &place.pointer, value);
        let told = self.ask(&body).await.refused(400);
        let allowed =
            words::allowed(&told).unwrap_or_else(|| panic!("{}: {told}", self.shown(&body)));
        let known = place.schema["properties"].as_object().into_iter().flatten();
        let known: BTreeSet<String> = known.map(|(name, _)| name.clone()).collect();
        assert_eq!(allowed, known, "{}", self.shown(&body));
    }

    /// The words that a reader knows are those of the schema, or refused for another reason.
    async fn words(&self, place: &Place<'_>) {
        let body = with(self.body, &place.pointer, json!(NOBODY));
        let told = self.ask(&body).await.refused(400);
        let known = words::choices(&told);
        let set = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let (own, said): (BTreeSet<String>, BTreeSet<String>) =
            (set(&place.own), set(&place.words));
        assert!(known.is_superset(&own), "{}: {told}", self.shown(&body));
        for word in known.difference(&said) {
            let body = with(self.body, &place.pointer, json!(word));
            let reply = self.ask(&body).await;
            let told = reply.json()["error"]["message"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(!words::is_form(&told), "`{word}` is in no schema: {told}");
        }
    }
}

/// Compares all bodies of operations whose paths begin so.
async fn compare(below: &[&str]) {
    let (document, scene) = (Document::get(), Scene::new().await);
    let mut compared = 0;
    for operation in document.operations() {
        let asked = below.iter().any(|path| operation.path.starts_with(path));
        let Some((schema, examples)) = operation.body().filter(|_| asked) else {
            continue;
        };
        for (example, body) in examples {
            let body = &scene.fill(body);
            let case = Case {
                scene: &scene,
                operation,
                schema,
                example,
                body,
            };
            case.compare(body).await;
            for place in places(document, schema, body) {
                case.visit(&place).await;
                compared += 1;
            }
        }
    }
    assert!(compared > 10, "{compared} places");
}

#[tokio::test]
async fn agents_and_environments_are_read_as_they_are_described() {
    compare(&["/v1/agents", "/v1/environments"]).await;
}

#[tokio::test]
async fn sessions_are_read_as_they_are_described() {
    compare(&["/v1/sessions"]).await;
}

#[tokio::test]
async fn vaults_are_read_as_they_are_described() {
    compare(&["/v1/vaults"]).await;
}

#[tokio::test]
async fn what_is_ours_is_read_as_it_is_described() {
    compare(&["/outlast/v1/keys", "/outlast/v1/sessions"]).await;
}

/// Objects that requests may hold and no example has would never be compared.
#[test]
fn every_object_of_a_request_is_in_an_example() {
    let document = Document::get();
    let mut seen: BTreeSet<*const Value> = BTreeSet::new();
    let mut open = Vec::new();
    for operation in document.operations() {
        let Some((schema, examples)) = operation.body() else {
            continue;
        };
        open.push(schema);
        for (_, body) in examples {
            let found = places(document, schema, body);
            seen.extend(found.iter().map(|place| std::ptr::from_ref(place.schema)));
        }
    }
    let (mut passed, mut missing): (BTreeSet<*const Value>, _) = (BTreeSet::new(), Vec::new());
    while let Some(schema) = open.pop() {
        let schema = document.resolve(schema);
        if !passed.insert(schema) {
            continue;
        }
        let parts = [&schema["items"], &schema["additionalProperties"]];
        let properties = schema["properties"].as_object().into_iter().flatten();
        open.extend(properties.map(|(_, property)| property));
        open.extend(parts.into_iter().filter(|part| part.is_object()));
        open.extend(schema["oneOf"].as_array().into_iter().flatten());
        let closed = schema["additionalProperties"] == json!(false);
        let empty = schema["properties"].is_null();
        if closed && !empty && !seen.contains(&std::ptr::from_ref(schema)) {
            missing.push(schema.to_string());
        }
    }
    assert!(missing.is_empty(), "in no example: {missing:#?}");
}
