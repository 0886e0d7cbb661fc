use proptest::prelude::*;
use serde_json::json;

use super::*;

fn accumulate(events: &[serde_json::Value]) -> Result<Response, Error> {
    let mut accumulator = Accumulator::new();
    for event in events {
        accumulator.push(&Event::parse(&event.to_string())?)?;
    }
    accumulator.finish()
}

fn start() -> serde_json::Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "model": "m",
        "usage": {"input_tokens": 7, "output_tokens": 1}}})
}

fn block(index: u32, block: serde_json::Value) -> serde_json::Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u32, delta: serde_json::Value) -> serde_json::Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text(index: u32, text: &str) -> serde_json::Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn input(index: u32, json: &str) -> serde_json::Value {
    delta(
        index,
        json!({"type": "input_json_delta", "partial_json": json}),
    )
}

fn stop(index: u32) -> serde_json::Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [serde_json::Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 42}}),
        json!({"type": "message_stop"}),
    ]
}

fn tool(id: &str) -> serde_json::Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})
}

fn answer(blocks: &[serde_json::Value], reason: &str) -> Result<Response, Error> {
    accumulate(&[&[start()], blocks, &end(reason)].concat())
}

fn raws(response: &Response) -> Vec<&str> {
    response.blocks.iter().map(|block| block.get()).collect()
}

#[test]
fn a_whole_answer_comes_out_as_it_is_to_be_sent_back() {
    let response = answer(
        &[
            block(
                0,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
            ),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            delta(0, json!({"type": "thinking_delta", "thinking": "m"})),
            delta(0, json!({"type": "signature_delta", "signature": "sig=="})),
            stop(0),
            block(1, json!({"type": "redacted_thinking", "data": "AAAA"})),
            stop(1),
            block(2, json!({"type": "text", "text": ""})),
            text(2, "Hello "),
            text(2, "world"),
            stop(2),
            block(3, tool("toolu_1")),
            input(3, ""),
            input(3, r#"{"n": 1.000000000000000000001,"#),
            input(3, r#" "s":"\u00e9"}"#),
            stop(3),
            block(4, json!({"type": "brand_new", "deep": {"x": [1, 2.50]}})),
            stop(4),
        ],
        "tool_use",
    )
    .unwrap();
    assert_eq!(
        raws(&response),
        [
            r#"{"type":"thinking","thinking":"hmm","signature":"sig=="}"#,
            r#"{"type":"redacted_thinking","data":"AAAA"}"#,
            r#"{"type":"text","text":"Hello world"}"#,
            r#"{"type":"tool_use","id":"toolu_1","name":"bash","input":{"n": 1.000000000000000000001, "s":"\u00e9"}}"#,
            r#"{"type":"brand_new","deep":{"x":[1,2.5]}}"#,
        ]
    );
    let [call] = response.calls.as_slice() else {
        panic!("{response:?}");
    };
    assert_eq!(
        (call.index, call.name.as_str(), call.cut),
        (3, "bash", false)
    );
    assert_eq!(
        call.input.get(),
        r#"{"n": 1.000000000000000000001, "s":"\u00e9"}"#
    );
    assert_eq!(
        response.texts,
        [Text {
            index: 2,
            text: "Hello world".to_owned()
        }]
    );
    assert!(response.thinking);
    assert_eq!(response.stop_reason, StopReason::ToolUse);
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (7, 42)
    );
    assert_eq!(
        (response.id.as_str(), response.model.as_str()),
        ("msg_1", "m")
    );
}

#[test]
fn blocks_may_interleave_and_begin_in_any_order() {
    let response = answer(
        &[
            block(2, json!({"type": "text", "text": "c"})),
            block(0, json!({"type": "text", "text": "a"})),
            text(2, "C"),
            text(0, "A"),
            stop(2),
            block(1, tool("t")),
            stop(0),
            stop(1),
        ],
        "tool_use",
    )
    .unwrap();
    assert_eq!(
        response.texts,
        [
            Text {
                index: 0,
                text: "aA".to_owned()
            },
            Text {
                index: 2,
                text: "cC".to_owned()
            },
        ]
    );
    assert_eq!(response.calls[0].index, 1);
    assert_eq!(response.calls[0].input.get(), "{}");
}

#[test]
fn unusable_input_is_marked_and_replaced() {
    for (json, reason) in [
        (r#"{"command":"rm -rf /tm"#, "max_tokens"),
        (r#"{"command":"rm -rf /tm"#, "tool_use"),
        (r#"["not an object"]"#, "tool_use"),
        ("nonsense", "tool_use"),
        (r#"{"a":1} trailing"#, "tool_use"),
        (r#"{"lone":"\ud800"}"#, "tool_use"),
    ] {
        let response = answer(&[block(0, tool("t")), input(0, json), stop(0)], reason).unwrap();
        let call = &response.calls[0];
        assert_eq!((call.cut, call.input.get()), (true, "{}"), "{json}");
        assert_eq!(
            raws(&response),
            [r#"{"type":"tool_use","id":"t","name":"bash","input":{}}"#]
        );
    }
}

#[test]
fn a_call_that_was_cut_before_its_input_is_no_call_without_input() {
    let bare = [block(0, tool("t")), input(0, ""), stop(0)];
    assert!(answer(&bare, "max_tokens").unwrap().calls[0].cut);
    assert!(!answer(&bare, "tool_use").unwrap().calls[0].cut);
}

#[test]
fn input_in_the_first_event_counts_where_no_delta_follows() {
    let whole = json!({"type": "tool_use", "id": "t", "name": "bash", "input": {"a": 1}});
    let response = answer(&[block(0, whole), stop(0)], "tool_use").unwrap();
    assert_eq!(response.calls[0].input.get(), r#"{"a":1}"#);
    let bare = json!({"type": "tool_use", "id": "t", "name": "bash"});
    let response = answer(&[block(0, bare), stop(0)], "tool_use").unwrap();
    assert!(!response.calls[0].cut);
    assert_eq!(
        raws(&response),
        [r#"{"type":"tool_use","id":"t","name":"bash","input":{}}"#]
    );
}

#[test]
fn citations_compaction_and_unknown_deltas_are_kept() {
    let response = answer(
        &[
            block(0, json!({"type": "text", "text": "x", "citations": []})),
            delta(0, json!({"type": "citations_delta", "citation": {"n": 1}})),
            delta(0, json!({"type": "citations_delta", "citation": {"n": 2}})),
            stop(0),
            block(1, json!({"type": "compaction", "content": null})),
            delta(
                1,
                json!({"type": "compaction_delta", "content": "sum", "signature": "s"}),
            ),
            delta(1, json!({"type": "compaction_delta", "content": "mary"})),
            stop(1),
            block(
                2,
                json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            ),
            input(2, r#"{"query":"x"}"#),
            stop(2),
        ],
        "compaction",
    )
    .unwrap();
    assert_eq!(
        raws(&response),
        [
            r#"{"type":"text","text":"x","citations":[{"n":1},{"n":2}]}"#,
            r#"{"type":"compaction","content":"summary","signature":"s"}"#,
            r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"x"}}"#,
        ]
    );
    assert!(response.calls.is_empty());
}

#[test]
fn blank_texts_are_left_out_and_an_empty_answer_is_one() {
    let response = answer(
        &[
            block(0, json!({"type": "text", "text": ""})),
            text(0, " \n"),
            stop(0),
        ],
        "end_turn",
    )
    .unwrap();
    assert!(response.blocks.is_empty() && response.texts.is_empty());
    assert!(answer(&[], "end_turn").unwrap().blocks.is_empty());
}

#[test]
fn a_refusal_keeps_its_details() {
    let response = accumulate(&[
        start(),
        json!({"type": "message_delta", "delta": {"stop_reason": "refusal",
            "stop_details": {"type": "refusal", "category": "cyber"}}}),
        json!({"type": "message_stop"}),
    ])
    .unwrap();
    assert_eq!(response.stop_reason, StopReason::Refusal);
    assert_eq!(
        response.stop_details.unwrap().get(),
        r#"{"type":"refusal","category":"cyber"}"#
    );
}

#[test]
fn broken_streams_are_retryable() {
    let open = block(0, json!({"type": "text", "text": ""}));
    let [delta_end, message_stop] = end("end_turn");
    let cases: Vec<(&str, Vec<serde_json::Value>)> = vec![
        ("nothing", vec![]),
        ("no start", vec![open.clone()]),
        ("two starts", vec![start(), start()]),
        (
            "no stop",
            vec![start(), open.clone(), stop(0), delta_end.clone()],
        ),
        ("no reason", vec![start(), message_stop.clone()]),
        ("never begun", vec![start(), text(0, "x")]),
        ("begun twice", vec![start(), open.clone(), open.clone()]),
        (
            "after its stop",
            vec![start(), open.clone(), stop(0), text(0, "x")],
        ),
        ("stopped twice", vec![start(), open, stop(0), stop(0)]),
        (
            "past the end",
            vec![start(), delta_end, message_stop.clone(), message_stop],
        ),
        (
            "mixed",
            vec![start(), block(0, json!({"type": "thinking"})), text(0, "x")],
        ),
        ("no object", vec![start(), block(0, json!("text"))]),
    ];
    for (name, events) in cases {
        assert!(accumulate(&events).unwrap_err().is_retryable(), "{name}");
    }
    let twins = answer(
        &[block(0, tool("t")), stop(0), block(1, tool("t")), stop(1)],
        "tool_use",
    );
    assert!(twins.unwrap_err().is_retryable());
}

#[test]
fn usage_is_known_before_the_end() {
    let mut accumulator = Accumulator::new();
    accumulator
        .push(&Event::parse(&start().to_string()).unwrap())
        .unwrap();
    assert_eq!(accumulator.usage().input_tokens, 7);
}

proptest! {
    /// However a tool's JSON and a text are cut into deltas, they come out whole.
    #[test]
    fn pieces_come_together(
        value in "\\PC{0,40}",
        words in "\\PC{1,40}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let json = json!({ "value": value }).to_string();
        let mut events = vec![block(0, json!({"type": "text", "text": ""})), block(1, tool("t"))];
        for piece in pieces(&words, &cuts) {
            events.push(text(0, piece));
        }
        for piece in pieces(&json, &cuts) {
            events.push(input(1, piece));
        }
        events.extend([stop(1), stop(0)]);
        let response = answer(&events, "tool_use").unwrap();
        prop_assert_eq!(response.calls[0].input.get(), json.as_str());
        let shown: Vec<_> = response.texts.iter().map(|text| text.text.as_str()).collect();
        if words.trim().is_empty() {
            prop_assert!(shown.is_empty());
        } else {
            prop_assert_eq!(shown, [words.as_str()]);
        }
    }

    /// No order of events panics, and what comes out can be sent back.
    #[test]
    fn any_order_of_events_is_survived(order in prop::collection::vec(0usize..12, 0..24)) {
        let pool = [
            start(),
            block(0, json!({"type": "text", "text": "x"})),
            block(1, json!({"type": "thinking", "thinking": "x"})),
            block(2, tool("a")),
            block(3, tool("b")),
            text(0, "y"),
            input(2, "{"),
            input(3, "}"),
            stop(0),
            stop(2),
            end("end_turn")[0].clone(),
            end("end_turn")[1].clone(),
        ];
        let events: Vec<_> = order.iter().map(|at| pool[*at].clone()).collect();
        if let Ok(response) = accumulate(&events) {
            for block in &response.blocks {
                let block: serde_json::Value = serde_json::from_str(block.get()).unwrap();
                prop_assert!(block["type"].is_string());
            }
        }
    }
}

/// Cuts a text at character borders.
fn pieces<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let mut borders: Vec<usize> = cuts
        .iter()
        .map(|cut| text.floor_char_boundary(cut.index(text.len() + 1)))
        .collect();
    borders.extend([0, text.len()]);
    borders.sort_unstable();
    borders
        .windows(2)
        .map(|pair| &text[pair[0]..pair[1]])
        .collect()
}
