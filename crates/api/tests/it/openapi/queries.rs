//! What is read of a query is what is described, and the other way round.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::{Document, document::Operation, mutated::NOBODY, scene::Scene, words};
use crate::bench::request;

/// Operations of these take queries that another room reads, or none at all.
const OTHERS: [&str; 4] = [
    "/v1/messages",
    "/v1/models",
    "/outlast/v1/brains",
    "/metrics",
];

fn is_ours(operation: &Operation<'_>) -> bool {
    let open = operation.of["security"] == json!([]);
    !open && !OTHERS.iter().any(|path| operation.path.starts_with(path))
}

/// Asks with a query and without a body; returns the words of the refusal.
async fn refused(scene: &Scene, operation: Operation<'_>, query: &str) -> String {
    let method: Method = operation.method.to_uppercase().parse().unwrap();
    let path = format!("{}?{query}", scene.path(operation.path, ""));
    let reply = scene.bench.ask(request(method, &path, &[], "")).await;
    assert_eq!(
        reply.status, 400,
        "{} {path}: {}",
        operation.method, reply.text
    );
    reply.refused(400)
}

fn named(parameter: &Value) -> &str {
    let name = parameter["name"].as_str().unwrap();
    name.strip_suffix("[]").unwrap_or(name)
}

#[tokio::test]
async fn queries_are_read_as_they_are_described() {
    let (document, scene) = (Document::get(), Scene::new().await);
    for operation in document.operations().into_iter().filter(is_ours) {
        let all = operation.parameters(document);
        let taken = all.into_iter().filter(|one| one["in"] == "query");
        let taken: Vec<_> = taken.collect();
        let told = refused(&scene, operation, &format!("{NOBODY}=1")).await;
        let described: BTreeSet<String> = taken.iter().map(|one| named(one).to_owned()).collect();
        let (method, path) = (operation.method, operation.path);
        assert_eq!(
            words::allowed(&told),
            Some(described),
            "{method} {path}: {told}"
        );
        for parameter in taken {
            bounded(&scene, operation, parameter).await;
        }
    }
}

/// What a parameter may be is what is described.
async fn bounded(scene: &Scene, operation: Operation<'_>, parameter: &Value) {
    let document = Document::get();
    let (name, schema) = (named(parameter), document.resolve(&parameter["schema"]));
    let ask = async |value: &str| refused(scene, operation, &format!("{name}={value}")).await;
    let what = format!("{} {}: {name}", operation.method, operation.path);
    match schema["type"].as_str() {
        Some("integer") => {
            let told = ask(NOBODY).await;
            let (least, most) = (&schema["minimum"], &schema["maximum"]);
            let words = format!("must be an integer from {least} to {most}");
            assert!(told.contains(&words), "{what}: {told}");
        }
        Some("boolean") => {
            let told = ask(NOBODY).await;
            assert!(told.contains("must be `true` or `false`"), "{what}: {told}");
        }
        Some("array") => {
            let most = schema["maxItems"].as_u64().unwrap();
            let items = document.resolve(&schema["items"]);
            if items.get("enum").is_some() {
                assert_eq!(words::choices(&ask(NOBODY).await), choices(items), "{what}");
            }
            let one = items["enum"][0].as_str().unwrap_or(NOBODY);
            let many = vec![format!("{name}={one}"); usize::try_from(most).unwrap() + 1].join("&");
            let told = refused(scene, operation, &many).await;
            assert!(
                told.contains(&format!("at most {most} values")),
                "{what}: {told}"
            );
        }
        None => assert_eq!(
            words::choices(&ask(NOBODY).await),
            choices(schema),
            "{what}"
        ),
        Some(_) if schema["format"] == "date-time" => {
            let told = ask(NOBODY).await;
            assert!(told.contains("must be an RFC 3339 time"), "{what}: {told}");
        }
        Some(_) => {
            if let Some(most) = schema["maxLength"].as_u64() {
                let told = ask(&"x".repeat(usize::try_from(most).unwrap() + 1)).await;
                assert!(
                    told.contains(&format!("at most {most} characters")),
                    "{what}: {told}"
                );
            }
            let told = refused(scene, operation, &format!("{name}=a&{name}=b")).await;
            assert!(told.contains("at most once"), "{what}: {told}");
        }
    }
}

fn choices(schema: &Value) -> BTreeSet<String> {
    let words = schema["enum"].as_array().unwrap().iter();
    words
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}
