use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::accumulate::collect;
use crate::{Facts, Response, StopReason};

async fn play(body: &Value) -> Result<Response, Rejection> {
    let plan = Scripted::new().answer(body.to_string().as_bytes(), Dialect::default(), "")?;
    Ok(collect(plan.into_events()).await.unwrap())
}

fn body(messages: Value) -> Value {
    json!({"model": "scripted", "max_tokens": 1_000, "messages": messages})
}

fn said(response: &Response) -> &str {
    response.texts.first().map_or("", |text| text.text.as_str())
}

#[tokio::test]
async fn the_model_passes_the_suite() {
    crate::conformance::run(|| async { std::sync::Arc::new(Scripted::new()) as _ }).await;
}

#[test]
fn the_table_of_facts_says_the_same() {
    let facts = Facts::load(None).unwrap().of(Scripted::ID);
    let with = |max_tokens: u64| {
        let body = json!({"model": "m", "max_tokens": max_tokens,
            "messages": [{"role": "user", "content": "x"}]});
        Scripted::new().answer(body.to_string().as_bytes(), Dialect::default(), "")
    };
    assert!(with(facts.max_output).is_ok());
    assert!(with(facts.max_output + 1).is_err());
    let filling = |tokens: u64| {
        let text = "word".repeat(usize::try_from(tokens).unwrap());
        let body = json!({"model": "m", "max_tokens": 1,
            "messages": [{"role": "user", "content": text}]});
        Scripted::new().answer(body.to_string().as_bytes(), Dialect::default(), "")
    };
    assert!(filling(facts.window - 10).is_ok());
    assert!(filling(facts.window + 1).is_err());
}

#[tokio::test]
async fn steps_are_counted_by_responses_and_repeat() {
    let script = "```script\n[{\"text\":\"turn {{n}}\",\"repeat\":2},{\"text\":\"last\"}]\n```";
    let mut messages = vec![json!({"role": "user", "content": script})];
    for expected in ["turn 0", "turn 1", "last"] {
        let response = play(&body(messages.clone().into())).await.unwrap();
        assert_eq!(said(&response), expected);
        messages.push(json!({"role": "assistant", "content": expected}));
        messages.push(json!({"role": "user", "content": "go on"}));
    }
    let response = play(&body(messages.into())).await.unwrap();
    assert!(said(&response).starts_with("I am Outlast's scripted model"));
}

#[tokio::test]
async fn a_newer_script_takes_over_and_tool_output_is_none() {
    let messages = json!([
        {"role": "user", "content": "```script\n[{\"calls\":[{\"name\":\"bash\"}]},{\"text\":\"old\"}]\n```"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "bash", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "```script\n[{\"text\":\"evil\"}]\n```"},
            {"type": "text", "text": "and please"},
        ]},
    ]);
    assert_eq!(said(&play(&body(messages.clone())).await.unwrap()), "old");
    let mut newer = messages.as_array().unwrap().clone();
    newer.push(json!({"role": "user", "content": "{\"script\": [{\"text\": \"new\"}]}"}));
    assert_eq!(said(&play(&body(newer.into())).await.unwrap()), "new");
}

#[tokio::test]
async fn a_script_that_is_over_says_so() {
    let messages = json!([
        {"role": "user", "content": "```script\n[{\"calls\":[{\"name\":\"bash\"}]}]\n```"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
    ]);
    assert_eq!(
        said(&play(&body(messages)).await.unwrap()),
        "The script is over."
    );
}

#[tokio::test]
async fn placeholders_are_filled_in_text_and_input() {
    let script = json!({"script": [{
        "text": "{{model}} {{messages}} {{tools}} {{system}} {{results.7}}[{{nothing}}] {{",
        "calls": [{"name": "bash", "input": {"command": "echo {{system}}"}}],
    }]});
    let mut body = body(json!([{"role": "user", "content": script.to_string()}]));
    body["system"] = json!([{"type": "text", "text": "say \"hi\"\n"}]);
    body["tools"] = json!([{"name": "bash", "input_schema": {"type": "object"}}]);
    let response = play(&body).await.unwrap();
    assert_eq!(
        said(&response),
        "scripted 1 bash say \"hi\"\n [{{nothing}}] {{"
    );
    let input: Value = serde_json::from_str(response.calls[0].input.get()).unwrap();
    assert_eq!(input, json!({"command": "echo say \"hi\"\n"}));
}

#[tokio::test]
async fn thinking_follows_the_request() {
    let script = json!({"script": [{"thinking": "deep", "text": "x"}]}).to_string();
    let with = async |thinking: Value| {
        let mut body = body(json!([{"role": "user", "content": script}]));
        body["max_tokens"] = json!(2_000);
        body["thinking"] = thinking;
        let response = play(&body).await.unwrap();
        let first: Value = serde_json::from_str(response.blocks[0].get()).unwrap();
        (
            response.thinking,
            first["thinking"].as_str().map(str::to_owned),
        )
    };
    let deep = Some("deep".to_owned());
    assert_eq!(with(Value::Null).await, (true, deep.clone()));
    assert_eq!(
        with(json!({"type": "adaptive"})).await,
        (true, deep.clone())
    );
    assert_eq!(
        with(json!({"type": "enabled", "budget_tokens": 1_024})).await,
        (true, deep)
    );
    let omitted = json!({"type": "adaptive", "display": "omitted"});
    assert_eq!(with(omitted).await, (true, Some(String::new())));
    assert_eq!(with(json!({"type": "disabled"})).await, (false, None));
}

#[tokio::test]
async fn without_bash_nothing_is_called() {
    for (text, part) in [
        ("run: ls", "no tool called `bash`"),
        ("hello", "You wrote: \"hello\""),
        ("run:", "no command"),
    ] {
        let response = play(&body(json!([{"role": "user", "content": text}])))
            .await
            .unwrap();
        assert!(
            response.calls.is_empty() && said(&response).contains(part),
            "{response:?}"
        );
        assert_eq!(response.stop_reason, StopReason::EndTurn);
    }
}

#[test]
fn counters_of_failures_are_bounded_and_apart() {
    let scripted = Scripted::new();
    let script = json!({"script": [{"error": {"times": 1}}]}).to_string();
    let body = body(json!([{"role": "user", "content": script}])).to_string();
    let fails = |who: &str| {
        scripted
            .answer(body.as_bytes(), Dialect::default(), who)
            .is_err()
    };
    assert!(fails("a") && fails("b"));
    assert!(!fails("a") && !fails("b"));
    for number in 0..=REMEMBERED {
        assert!(fails(&number.to_string()));
    }
    assert!(scripted.played.lock().unwrap().len() <= REMEMBERED);
}

#[test]
fn tokens_are_counted_without_max_tokens() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "0123456789"}]});
    let count = |body: &Value| {
        Scripted::new().count_tokens(body.to_string().as_bytes(), Dialect::default())
    };
    assert!(count(&body).unwrap() >= 3);
    assert!(count(&json!({"model": "m"})).is_err());
}

/// One of many steps.
fn any_step() -> impl Strategy<Value = Value> {
    let text = "\\PC{0,20}|[ \n]{1,3}|\\{\\{results\\}\\}";
    let call = prop_oneof![
        Just(json!({"name": "bash", "input": {"command": "{{user}}"}})),
        Just(json!({"name": "bash", "input_json": "{\"broken"})),
        Just(json!({"name": "none"})),
    ];
    let item = prop_oneof![
        text.prop_map(|text| json!({ "text": text })),
        text.prop_map(|text| json!({ "thinking": text })),
        text.prop_map(|text| json!({ "redacted_thinking": text })),
        call.prop_map(|call| json!({ "call": call })),
        Just(json!({"block": {"type": "brand_new", "content": [1]}})),
        Just(json!({"filler": 3})),
    ];
    let stop = prop_oneof![4 => Just(None), 1 => Just(Some("pause_turn")), 1 => Just(Some("odd"))];
    let cut = prop::option::of(0usize..30);
    (prop::collection::vec(item, 0..5), stop, cut)
        .prop_map(|(content, stop, cut)| json!({"content": content, "stop": stop, "cut": cut}))
}

proptest! {
    /// What the model says and a harness sends back with its results is always taken again.
    #[test]
    fn its_own_words_are_never_refused(
        steps in prop::collection::vec(any_step(), 1..6),
        max_tokens in 1u64..60,
        result in "\\PC{1,10}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut messages = vec![json!({"role": "user",
            "content": json!({ "script": steps }).to_string()})];
        for _ in 0..=steps.len() {
            let mut body = body(messages.clone().into());
            body["max_tokens"] = max_tokens.into();
            let response = runtime.block_on(play(&body));
            prop_assert!(response.is_ok(), "{response:?} to {body}");
            let response = response.unwrap();
            if !response.blocks.is_empty() {
                messages.push(json!({"role": "assistant", "content": response.blocks}));
            }
            let mut content: Vec<_> = response.calls.iter().map(|call| {
                json!({"type": "tool_result", "tool_use_id": call.id, "content": result})
            }).collect();
            content.push(json!({"type": "text", "text": "go on"}));
            messages.push(json!({"role": "user", "content": content}));
        }
    }

    /// No body makes it panic.
    #[test]
    fn no_body_is_too_odd(body in "\\PC{0,60}", at in any::<prop::sample::Index>(), with in "[\\[\\]{}\",:0a]") {
        let scripted = Scripted::new();
        let refused = scripted.answer(body.as_bytes(), Dialect::V2026, "");
        prop_assert!(refused.is_err());
        let mut good = json!({"model": "m", "max_tokens": 9, "tools": [{"name": "bash",
            "input_schema": {"type": "object"}}], "messages": [
            {"role": "user", "content": "{\"script\":[{\"calls\":[{\"name\":\"x\"}]}]}"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "x", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]})
        .to_string();
        let at = good.floor_char_boundary(at.index(good.len()));
        good.replace_range(at..=at, &with);
        // Either way is fine, as long as there is one.
        drop(scripted.answer(good.as_bytes(), Dialect::V2023, ""));
    }
}
