use super::*;

fn refusal(steps: &str) -> String {
    Script::find(&format!("```script\n{steps}\n```"))
        .unwrap_err()
        .message
}

#[test]
fn mistakes_are_named() {
    for (steps, expected) in [
        ("nonsense", "script: not a JSON array of steps: expected"),
        ("{}", "script: not a JSON array of steps: invalid type: map"),
        ("[{\"txt\":1}]", "script: step 1: unknown field `txt`"),
        (
            "[{}, {\"calls\":[{}]}]",
            "script: step 2: a call needs a `name`",
        ),
        (
            "[{\"content\":[{\"shout\":\"x\"}]}]",
            "script: step 1: unknown variant `shout`",
        ),
        (
            "[{\"error\":200}]",
            "script: step 1: `error` takes a status from 400 to 599, not 200",
        ),
        (
            "[{\"error\":{\"statu\":500}}]",
            "script: step 1: data did not match",
        ),
        (
            "[{\"pace\":{\"tokens\":0}}]",
            "script: step 1: `pace` takes `tokens` from 1",
        ),
        (
            "[{\"pause_ms\":600001}]",
            "script: step 1: `pause_ms` is at most 600000",
        ),
        (
            "[{\"content\":[{\"filler\":1000001}]}]",
            "script: step 1: `filler` is at most 1000000",
        ),
        (
            "[{\"content\":[{\"block\":{}}]}]",
            "script: step 1: a `block` needs a `type`",
        ),
        (
            "[{\"repeat\":0}]",
            "script: step 1: `repeat` must be at least 1",
        ),
        (
            "[{\"calls\":[{\"name\":\"a\",\"input\":{},\"input_json\":\"\"}]}]",
            "script: step 1: a call takes `input` or `input_json`, not both",
        ),
    ] {
        let message = refusal(steps);
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn a_text_without_a_script_has_none() {
    assert!(Script::find("run: ls").unwrap().is_none());
}

#[test]
fn a_huge_repeat_costs_nothing() {
    let script = Script::find("{\"script\":[{\"repeat\":1000000},{\"text\":\"x\"}]}")
        .unwrap()
        .unwrap();
    assert_eq!(script.step(999_999).unwrap().1, 999_999);
    assert_eq!(script.step(1_000_000).unwrap().0.text.as_deref(), Some("x"));
    assert!(script.step(1_000_001).is_none());
}

#[test]
fn the_examples_of_the_documentation_are_scripts() {
    let page = include_str!("../../../../../docs/scripted-model.md");
    let mut examples = 0;
    for example in page.split("```json\n").skip(1) {
        let (json, _) = example.split_once("\n```").unwrap();
        Script::find(&format!("```script\n{json}\n```"))
            .unwrap()
            .unwrap();
        examples += 1;
    }
    let fenced = page.split("````").nth(1).unwrap();
    assert_eq!(Script::find(fenced).unwrap().unwrap().steps.len(), 2);
    assert!(examples >= 5, "only {examples} examples");
}
