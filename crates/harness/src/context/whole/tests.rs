//! Conversations from records: always paired, results in order, the same from any restart.

use outlast_protocol::{Micros, id::EventId};
use outlast_session::{Body, Kind, Origin, Record};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Role, Whole};

/// Makes the `n`th event id.
fn id(n: u64) -> EventId {
    EventId::parse(&format!("sevt_01{n:022}")).unwrap()
}

/// Makes a record; the position is given later.
fn record(kind: Kind, event: u64, body: &Value) -> Record {
    Record {
        position: 0,
        thread: 0,
        at: Micros(0),
        origin: Origin::Server,
        kind,
        version: 1,
        event: Some(id(event)),
        digest: [0; 32],
        hash: [0; 32],
        salt: None,
        body: Body::Json(outlast_session::json(body)),
    }
}

fn user(event: u64, text: &str) -> Record {
    record(
        Kind::UserMessage,
        event,
        &json!({"content": [{"type": "text", "text": text}]}),
    )
}

fn response(calls: &[u64], text: &str) -> Record {
    let mut blocks = vec![json!({"type": "text", "text": text})];
    blocks.extend(calls.iter().map(
        |call| json!({"type": "tool_use", "id": format!("toolu_{call}"), "name": "t", "input": {}}),
    ));
    let called = |call: &u64| json!({"call": id(*call), "tool_use": format!("toolu_{call}")});
    let calls: Vec<_> = calls.iter().map(called).collect();
    let after = if calls.is_empty() { "answer" } else { "calls" };
    let body = json!({"request": id(0), "blocks": blocks, "stop": "x", "after": after,
        "calls": calls});
    record(Kind::Response, 0, &body)
}

fn result(call: u64) -> Record {
    let body = json!({"tool_use_id": id(call), "is_error": false,
        "content": [{"type": "text", "text": format!("result {call}")}]});
    record(Kind::AgentToolResult, 1_000 + call, &body)
}

/// Feeds records and returns the messages as JSON.
fn messages(records: &[Record]) -> Vec<Value> {
    let mut whole = Whole::default();
    for (record, position) in records.iter().zip(1..) {
        whole
            .push(&Record {
                position,
                ..record.clone()
            })
            .unwrap();
    }
    shown(&mut whole)
}

fn shown(whole: &mut Whole) -> Vec<Value> {
    whole
        .messages()
        .iter()
        .map(|message| serde_json::to_value(message).unwrap())
        .collect()
}

/// Checks what the Messages API demands: each call answered once, at once, results first.
fn check(messages: &[Value]) {
    for (index, message) in messages.iter().enumerate() {
        let blocks = message["content"].as_array().unwrap();
        let calls: Vec<_> = blocks
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|block| block["id"].clone())
            .collect();
        if message["role"] != "assistant" || calls.is_empty() {
            continue;
        }
        let next = messages[index + 1]["content"].as_array().unwrap();
        let answered: Vec<_> = next
            .iter()
            .take(calls.len())
            .map(|block| block["tool_use_id"].clone())
            .collect();
        assert_eq!(messages[index + 1]["role"], "user");
        assert_eq!(calls, answered);
    }
}

#[test]
fn results_stand_in_the_models_order() {
    let records = [
        user(1, "go"),
        response(&[10, 11], "ok"),
        result(11),
        result(10),
    ];
    let messages = messages(&records);
    check(&messages);
    assert_eq!(messages[2]["content"][0]["tool_use_id"], "toolu_10");
    assert_eq!(messages[2]["content"][1]["content"][0]["text"], "result 11");
}

#[test]
fn neighbours_of_a_role_are_one_message() {
    let messages = messages(&[user(1, "a"), user(2, "b")]);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn a_missing_result_is_answered_in_words() {
    let messages = messages(&[user(1, "go"), response(&[10], "ok"), user(2, "again")]);
    check(&messages);
    assert_eq!(messages[2]["content"][0]["is_error"], true);
    assert_eq!(messages[2]["content"][1]["text"], "again");
}

#[test]
fn an_operators_turn_waits_for_the_results_before_it() {
    let system = record(
        Kind::SystemMessage,
        5,
        &json!({"content": [{"type": "text", "text": "careful"}]}),
    );
    let messages = messages(&[
        user(1, "go"),
        response(&[10, 11], "ok"),
        result(10),
        system,
        result(11),
    ]);
    check(&messages);
    let roles: Vec<_> = messages
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "system"]);
}

#[test]
fn an_operators_turn_stays_before_the_answer() {
    let system = |event| {
        record(
            Kind::SystemMessage,
            event,
            &json!({"content": [{"type": "text", "text": "s"}]}),
        )
    };
    let log = [
        user(1, "a"),
        system(2),
        user(3, "b"),
        system(4),
        response(&[], "ok"),
        user(5, "c"),
    ];
    let messages = messages(&log);
    let roles: Vec<_> = messages
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "system", "assistant", "user"]);
    assert_eq!(messages[0]["content"].as_array().unwrap().len(), 2);
    assert_eq!(messages[1]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn an_input_that_was_read_ahead_is_not_read_twice() {
    let arrival = Record {
        kind: Kind::ArrivedMessage,
        position: 3,
        ..user(7, "early")
    };
    let mut whole = Whole::default();
    whole.push_ahead(&arrival).unwrap();
    whole
        .push(&Record {
            position: 4,
            ..user(7, "early")
        })
        .unwrap();
    assert_eq!(shown(&mut whole).len(), 1);
    assert_eq!(whole.messages()[0].content.len(), 1);
    assert_eq!(whole.messages()[0].role, Role::User);
}

#[test]
fn empty_content_is_left_out_of_a_result() {
    let body = json!({"custom_tool_use_id": id(10), "content": []});
    let custom = record(Kind::UserCustomToolResult, 20, &body);
    let messages = messages(&[user(1, "go"), response(&[10], "ok"), custom]);
    assert_eq!(
        messages[2]["content"][0],
        json!({"type": "tool_result", "tool_use_id": "toolu_10"})
    );
}

/// What may happen next in a random log.
#[derive(Clone, Debug)]
enum Next {
    User,
    Respond(usize),
    Result(usize),
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        Just(Next::User),
        (0..4_usize).prop_map(Next::Respond),
        (0..8_usize).prop_map(Next::Result),
    ]
}

/// Builds a log in which responses follow users or results, and results come in any order.
fn log(script: &[Next]) -> Vec<Record> {
    let mut records = vec![user(1, "start")];
    let mut open: Vec<u64> = Vec::new();
    for (step, number) in script.iter().zip(100_u64..) {
        match step {
            Next::User => records.push(user(number, "more")),
            Next::Respond(count) => {
                open = (0..*count as u64).map(|n| number * 10 + n).collect();
                records.push(response(&open, "said"));
            }
            Next::Result(which) if !open.is_empty() => {
                records.push(result(open.remove(which % open.len())));
            }
            Next::Result(_) => {}
        }
    }
    records
}

proptest! {
    #[test]
    fn any_log_is_paired(script in prop::collection::vec(next(), 0..40)) {
        let mut whole = Whole::default();
        for (record, position) in log(&script).iter().zip(1..) {
            whole.push(&Record { position, ..record.clone() }).unwrap();
        }
        check(&shown(&mut whole));
    }

    #[test]
    fn a_snapshot_anywhere_changes_nothing(
        script in prop::collection::vec(next(), 0..30),
        cut in 0..30_usize,
    ) {
        let records = log(&script);
        let mut whole = Whole::default();
        for (record, position) in records.iter().zip(1..) {
            if usize::try_from(position).unwrap() == cut {
                let bytes = serde_json::to_vec(&whole).unwrap();
                whole = serde_json::from_slice(&bytes).unwrap();
            }
            whole.push(&Record { position, ..record.clone() }).unwrap();
        }
        prop_assert_eq!(shown(&mut whole), messages(&records));
    }
}
