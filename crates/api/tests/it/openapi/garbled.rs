//! Bodies that were changed at random: nothing of them makes the server fail.

use outlast_protocol::read;
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

use super::{Document, document::Operation, scene::Scene, schema};

/// Bodies in one run.
const BODIES: usize = 1_000;

/// One change of a body.
#[derive(Clone, Debug)]
enum Change {
    /// Another value.
    Put(Value),
    /// The same value, so many times.
    Repeat(usize),
    /// What stands at another place.
    Copy(prop::sample::Index),
    /// A field of that name.
    Add(String, Value),
    /// Nothing.
    Remove,
}

/// Words that readers look at.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "\\PC{0,40}",
        "[a-z_.]{1,20}",
        prop::sample::select(vec![
            "type",
            "id",
            "name",
            "content",
            "metadata",
            "tools",
            "file",
            "text",
            "limited",
            "url",
            "\0",
            "\u{feff}",
            "__proto__",
            "-1",
            "1e400",
            "sesn_01",
            "file_01zzzzzzzzzzzzzzzzzzzzzz",
            "../..",
        ])
        .prop_map(str::to_owned),
        (1_usize..5_000).prop_map(|size| "\u{1f980}".repeat(size)),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaves = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        (-2_i64..3).prop_map(Value::from),
        words().prop_map(Value::from),
    ];
    leaves.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((words(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        values().prop_map(Change::Put),
        (2_usize..1_200).prop_map(Change::Repeat),
        any::<prop::sample::Index>().prop_map(Change::Copy),
        (words(), values()).prop_map(|(name, value)| Change::Add(name, value)),
        Just(Change::Remove),
    ]
}

/// Lists every place of a body.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(list) => {
            let items = list.iter().enumerate();
            items.for_each(|(n, item)| pointers(item, &format!("{at}/{n}"), found));
        }
        Value::Object(map) => map.iter().for_each(|(name, inner)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            pointers(inner, &format!("{at}/{name}"), found);
        }),
        _ => {}
    }
}

/// Changes a body at one of its places.
fn change(body: &mut Value, at: prop::sample::Index, change: Change) {
    let mut all = Vec::new();
    pointers(body, "", &mut all);
    let other = |index: prop::sample::Index| body.pointer(&all[index.index(all.len())]).cloned();
    let copied = match &change {
        Change::Copy(index) => other(*index),
        _ => None,
    };
    let pointer = &all[at.index(all.len())];
    if let (Change::Remove, Some((above, name))) = (&change, pointer.rsplit_once('/')) {
        match body.pointer_mut(above).unwrap() {
            Value::Object(map) => {
                drop(map.shift_remove(&name.replace("~1", "/").replace("~0", "~")))
            }
            Value::Array(list) => drop(list.remove(name.parse().unwrap())),
            _ => {}
        }
        return;
    }
    let place = body.pointer_mut(pointer).unwrap();
    match change {
        Change::Put(value) => *place = value,
        Change::Copy(_) => *place = copied.unwrap(),
        Change::Repeat(count) => match place {
            Value::Array(list) if !list.is_empty() => {
                *list = list.iter().cycle().take(count).cloned().collect()
            }
            Value::String(text) if text.len() * count < 1 << 20 => *text = text.repeat(count),
            _ => {}
        },
        Change::Add(name, value) => match place {
            Value::Object(map) => drop(map.insert(name, value)),
            Value::Array(list) => list.push(value),
            _ => {}
        },
        Change::Remove => {}
    }
}

type Drawn = (
    prop::sample::Index,
    Vec<(prop::sample::Index, Change)>,
    Option<(prop::sample::Index, u8)>,
);

/// Draws a body: which example, what changes, and maybe a byte of its text.
fn drawn() -> impl Strategy<Value = Drawn> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), changes()), 1..4);
    let byte = prop::option::weighted(0.1, (any::<prop::sample::Index>(), any::<u8>()));
    (any::<prop::sample::Index>(), changes, byte)
}

#[tokio::test]
async fn no_body_makes_the_server_fail() {
    let (document, scene) = (Document::get(), Scene::new().await);
    let mut examples: Vec<(Operation<'_>, &Value, &str, Value)> = Vec::new();
    for operation in document.operations() {
        if operation.path.contains("messages") {
            continue;
        }
        let Some((schema, named)) = operation.body() else {
            continue;
        };
        let named = named.into_iter();
        examples.extend(named.map(|(name, body)| (operation, schema, name, scene.fill(body))));
    }
    // The same bodies in every run.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut taken = 0;
    for _ in 0..BODIES {
        let (which, changes, byte) = drawn().new_tree(&mut runner).unwrap().current();
        let (operation, schema, name, body) = &examples[which.index(examples.len())];
        let mut body = body.clone();
        for (at, one) in changes {
            change(&mut body, at, one);
        }
        let mut text = body.to_string().into_bytes();
        if let Some((at, byte)) = byte {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let reply = scene.ask(*operation, name, text.clone()).await;
        let shown = String::from_utf8_lossy(&text);
        let shown: String = shown.chars().take(4_000).collect();
        let what = format!("{} {}: {shown}", operation.method, operation.path);
        assert!(reply.status.as_u16() < 500, "{what}: {}", reply.text);
        if reply.status == 200 {
            taken += 1;
            let read = read::body(&text).unwrap();
            let misfit = schema::misfit(document, schema, &read);
            assert_eq!(misfit, None, "{what} is taken, and does not fit");
        }
    }
    assert!(taken > BODIES / 50, "{taken} bodies were taken");
}
