use super::*;
use crate::{Speed, Usage};

fn embedded() -> Facts {
    Facts::load(None).unwrap()
}

/// The ids that the public API's own types name.
const KNOWN: [&str; 17] = [
    "claude-fable-5-2",
    "claude-haiku-5-5",
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "claude-fable-5-1",
    "claude-sonnet-5",
    "claude-fable-5",
    "claude-opus-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-sonnet-4-6",
    "claude-haiku-4-5",
    "claude-haiku-4-5-20251001",
    "claude-opus-4-5",
    "claude-opus-4-5-20251101",
    "claude-sonnet-4-5-20250929",
];

#[test]
fn every_id_of_the_public_api_is_described() {
    let facts = embedded();
    for id in KNOWN {
        assert!(facts.knows(id), "{id}");
        assert!(facts.of(id).max_output >= 64_000, "{id}");
        assert!(facts.of(id).prices.is_some(), "{id}");
    }
}

#[test]
fn an_unknown_id_gets_the_defaults() {
    let facts = embedded();
    for id in [
        "my-model",
        "claude-opus-4-50",
        "claude-opus-55",
        "Scripted",
        "",
    ] {
        assert!(!facts.knows(id), "{id}");
        assert_eq!(
            facts.of(id),
            ModelFacts {
                window: 200_000,
                max_output: 8_192,
                default_effort: None,
                efforts: vec![],
                thinking: Thinking::None,
                mid_conversation_system: false,
                fast: false,
                inference_geo: false,
                cache_min: None,
                prices: None,
                fast_prices: None,
                long_prompt: None,
            }
        );
    }
}

#[test]
fn dated_ids_follow_their_family_and_exact_ids_refine_it() {
    let facts = embedded();
    assert_eq!(
        facts.of("claude-opus-4-5-20251101"),
        facts.of("claude-opus-4-5")
    );
    let fable = facts.of("claude-fable-5-2");
    assert_eq!((fable.window, fable.fast), (1_000_000, true));
    assert!(!facts.of("claude-fable-5-1").fast);
    assert_eq!(
        facts.of("claude-opus-5-5").default_effort,
        Some(Effort::Medium)
    );
}

#[test]
fn mid_conversation_system_messages_are_for_the_families_that_take_them() {
    let facts = embedded();
    for (id, expected) in [
        ("claude-fable-5", true),
        ("claude-mythos-5-1", true),
        ("claude-opus-4-8", true),
        ("claude-opus-5", true),
        ("claude-sonnet-5-5", true),
        ("claude-haiku-5-5", true),
        ("claude-sonnet-5", false),
        ("claude-opus-4-7", false),
        ("claude-haiku-4-5", false),
    ] {
        assert_eq!(facts.of(id).mid_conversation_system, expected, "{id}");
    }
}

#[test]
fn configuration_overrides_and_extends() {
    let facts = Facts::load(Some(
        r#"
        [default]
        max_output = 4096
        [models.scripted]
        window = 20000
        max_output = 1000
        [models."local-*"]
        window = 8192
        max_output = 2048
        [models.claude-opus-5]
        efforts = []
        "#,
    ))
    .unwrap();
    let scripted = facts.of("scripted");
    assert_eq!((scripted.window, scripted.max_output), (20_000, 1_000));
    assert_eq!(scripted.default_effort, Some(Effort::High));
    assert_eq!(facts.of("other").max_output, 4_096);
    assert_eq!(facts.of("claude-opus-5").default_effort, None);
    assert_eq!(facts.of("claude-opus-5").window, 1_000_000);
}

#[test]
fn bad_overrides_are_refused_by_name() {
    let unreadable = |text: &str| match Facts::load(Some(text)).unwrap_err() {
        BadFacts::Unreadable { reason } => reason,
        BadFacts::Impossible { .. } => panic!("not what was expected"),
    };
    assert!(unreadable("[models.x]\nwindwo = 1").contains("windwo"));
    assert!(unreadable("[model.x]\nwindow = 1").contains("`model`"));
    assert!(unreadable("[models.x]\nprices = { input = 1 }").contains("missing field"));
    assert!(unreadable("[models.x]\nefforts = [\"huge\"]").contains("huge"));
    assert!(unreadable("[models.x]\nwindow = -1").contains("-1"));
    assert!(unreadable("{").contains("line 1"));
    for text in [
        "[models.x]\nwindow = 0",
        "[models.x]\nmax_output = 300_000",
        "[models.x]\ndefault_effort = \"low\"\nefforts = [\"high\"]",
        "[models.x]\nefforts = [\"high\"]",
    ] {
        let error = Facts::load(Some(text)).unwrap_err();
        assert!(
            matches!(error, BadFacts::Impossible { ref model, .. } if model == "x"),
            "{text}"
        );
    }
}

fn usage() -> Usage {
    Usage {
        input_tokens: 1_000,
        output_tokens: 100,
        cache_creation_input_tokens: 30,
        cache_read_input_tokens: 7,
        ephemeral_5m: 10,
        ephemeral_1h: 20,
        web_search_requests: 2,
        ..Usage::default()
    }
}

#[test]
fn cost_adds_up_every_kind_of_token() {
    let sonnet = embedded().of("claude-sonnet-4-5");
    let expected = 1_000 * 3_000 + 100 * 15_000 + 10 * 3_750 + 20 * 6_000 + 7 * 300;
    assert_eq!(sonnet.cost(&usage()), Some(expected + 20_000_000));
    assert_eq!(sonnet.cost(&Usage::default()), Some(0));
    assert_eq!(embedded().of("scripted").cost(&usage()), Some(0));
    assert_eq!(embedded().of("unknown").cost(&usage()), None);
}

#[test]
fn cost_knows_speed_place_and_length() {
    let facts = embedded();
    let fast = Usage {
        speed: Some(Speed::Fast),
        ..usage()
    };
    assert_eq!(facts.of("claude-sonnet-4-5").cost(&fast), None);
    let input = |tokens| Usage {
        input_tokens: tokens,
        ..Usage::default()
    };
    let opus = facts.of("claude-opus-5");
    assert_eq!(
        opus.cost(&Usage {
            speed: Some(Speed::Fast),
            ..input(3)
        }),
        Some(30_000)
    );
    let pinned = Usage {
        inference_geo: Some("us".to_owned()),
        ..input(100)
    };
    assert_eq!(opus.cost(&pinned), Some(550_000));
    let haiku = facts.of("claude-haiku-5-5");
    assert_eq!(haiku.cost(&input(100_000)), Some(10_000_000));
    assert_eq!(haiku.cost(&input(100_001)), Some(50_000_500));
}

#[test]
fn cost_survives_absurd_figures() {
    let absurd = Usage {
        input_tokens: u64::MAX,
        cache_creation_input_tokens: 5,
        ephemeral_1h: u64::MAX,
        inference_geo: Some("us".to_owned()),
        ..Usage::default()
    };
    assert_eq!(embedded().of("claude-opus-5").cost(&absurd), Some(u64::MAX));
}

#[test]
fn the_effort_words_are_those_of_the_wire() {
    for effort in [
        Effort::Low,
        Effort::Medium,
        Effort::High,
        Effort::Xhigh,
        Effort::Max,
    ] {
        assert_eq!(serde_json::to_value(effort).unwrap(), effort.as_str());
    }
}
