//! Tests of tool configurations: resolved forms, every refusal, and the gate.

use serde_json::{Value, json};

use super::*;

fn parse(tools: Value) -> Result<Tools, Problem> {
    let value = json!({"tools": tools});
    let mut object = At::root(&value).object().unwrap();
    Tools::parse(&object.field("tools").required().unwrap())
}

#[track_caller]
fn refused(tools: Value, message: &str) {
    assert_eq!(parse(tools), Err(Problem::invalid(message)));
}

/// Parses one config entry of the toolset.
fn config(entry: Value) -> Result<Tools, Problem> {
    parse(json!([{"type": "agent_toolset_20260401", "configs": [entry]}]))
}

fn custom(name: &str) -> Value {
    json!({"type": "custom", "name": name, "description": "d", "input_schema": {"type": "object"}})
}

fn custom_schema(schema: Value) -> Result<Tools, Problem> {
    parse(json!([{"type": "custom", "name": "t", "description": "d", "input_schema": schema}]))
}

#[test]
fn a_bare_toolset_is_resolved() {
    let tools = parse(json!([{"type": "agent_toolset_20260401"}])).unwrap();
    let wire = json!([{
        "type": "agent_toolset_20260401",
        "configs": [],
        "default_config": {"enabled": true, "permission_policy": {"type": "always_allow"}},
    }]);
    assert_eq!(serde_json::to_value(&tools).unwrap(), wire);
    assert_eq!(serde_json::from_value::<Tools>(wire).unwrap(), tools);
}

#[test]
fn entries_are_resolved_over_the_default() {
    let tools = parse(json!([{
        "type": "agent_toolset_20260401",
        "default_config": {"enabled": false, "permission_policy": {"type": "always_ask"}},
        "configs": [
            {"name": "bash", "enabled": true},
            {"name": "read", "type": "read", "permission_policy": {"type": "auto"}},
        ],
    }]))
    .unwrap();
    let ask = json!({"type": "always_ask"});
    assert_eq!(
        serde_json::to_value(&tools).unwrap(),
        json!([{
            "type": "agent_toolset_20260401",
            "configs": [
                {"type": "bash", "name": "bash", "enabled": true, "permission_policy": ask},
                {"type": "read", "name": "read", "enabled": false, "permission_policy": {"type": "auto"}},
            ],
            "default_config": {"enabled": false, "permission_policy": ask},
        }])
    );
    let policy = Policy::AlwaysAsk;
    assert_eq!(tools.gate("bash"), Gate::Builtin { policy });
    assert_eq!(tools.gate("read"), Gate::Disabled);
    assert_eq!(tools.gate("grep"), Gate::Disabled);
    assert_eq!(tools.gate("nope"), Gate::Unknown);
    assert_eq!(tools.offered(), ["bash"]);
}

#[test]
fn what_is_read_back_from_a_response_can_be_sent_again() {
    let tools = parse(json!([
        {"type": "agent_toolset_20260401", "configs": [
            {"name": "web_fetch", "allowed_domains": ["Docs.Example.com/"], "max_content_tokens": 5,
             "url_sources": {"client_tool_results": {"type": "only", "tools": [{"type": "tool_reference", "name": "t"}]},
                             "user_input": "none"}},
            {"name": "web_search", "blocked_domains": ["a.com/x"],
             "user_location": {"type": "approximate", "city": "Graz", "country": "AT", "timezone": "Europe/Vienna"}},
        ]},
        custom("t"),
    ]))
    .unwrap();
    let wire = serde_json::to_value(&tools).unwrap();
    assert_eq!(
        wire[0]["configs"],
        json!([
            {"type": "web_fetch", "name": "web_fetch", "enabled": true, "permission_policy": {"type": "always_allow"},
             "allowed_domains": ["Docs.Example.com/"], "max_content_tokens": 5,
             "url_sources": {
                "client_tool_results": {"type": "only", "tools": [{"type": "tool_reference", "name": "t"}]},
                "server_tool_results": null,
                "user_input": {"type": "none"},
             }},
            {"type": "web_search", "name": "web_search", "enabled": true, "permission_policy": {"type": "always_allow"},
             "blocked_domains": ["a.com/x"],
             "user_location": {"type": "approximate", "city": "Graz", "country": "AT", "region": null, "timezone": "Europe/Vienna"}},
        ])
    );
    assert_eq!(parse(wire.clone()).unwrap(), tools);
    assert_eq!(serde_json::from_value::<Tools>(wire).unwrap(), tools);
}

#[test]
fn web_tools_are_configured_but_never_offered() {
    let tools = parse(json!([custom("zeta"), {"type": "agent_toolset_20260401"}, custom("alpha")]));
    let tools = tools.unwrap();
    assert_eq!(
        tools.offered(),
        [
            "bash", "read", "write", "edit", "glob", "grep", "zeta", "alpha"
        ]
    );
    let policy = Policy::AlwaysAllow;
    assert_eq!(tools.gate("web_fetch"), Gate::Builtin { policy });
    assert_eq!(tools.gate("zeta"), Gate::Custom);
    assert_eq!(Tools::default().gate("bash"), Gate::Unknown);
    assert!(Tools::default().offered().is_empty());
}

#[test]
fn mcp_toolsets_are_not_supported() {
    let problem = parse(json!([custom("a"), {"type": "mcp_toolset"}])).unwrap_err();
    assert_eq!(problem.code, ErrorCode::NotSupported);
    assert!(problem.message.starts_with("tools.1.type: not_supported"));
}

#[test]
fn bad_toolsets_are_refused() {
    let kinds = "must be `agent_toolset_20260401`, `custom` or `mcp_toolset`, not `bash_20250124`";
    refused(
        json!([{"type": "bash_20250124"}]),
        &format!("tools.0.type: {kinds}"),
    );
    refused(
        Value::from(vec![custom("a"); 129]),
        "tools: must have 0 to 128 entries, not 129",
    );
    let toolset = json!({"type": "agent_toolset_20260401"});
    refused(
        json!([toolset, toolset]),
        "tools.1: at most one `agent_toolset_20260401` per agent",
    );
    let bad =
        |entry: Value, message: &str| assert_eq!(config(entry), Err(Problem::invalid(message)));
    bad(json!({}), "tools.0.configs.0.name: is required");
    bad(
        json!({"name": "sh"}),
        "tools.0.configs.0.name: must be `bash`, `read`, `write`, `edit`, `glob`, `grep`, \
         `web_fetch` or `web_search`, not `sh`",
    );
    bad(
        json!({"name": "bash", "type": "read"}),
        "tools.0.configs.0.type: must equal `name`, which is `bash`",
    );
    bad(
        json!({"name": "bash", "allowed_domains": ["a.com"]}),
        "tools.0.configs.0.allowed_domains: unknown field; allowed: `name`, `type`, `enabled` or `permission_policy`",
    );
    bad(
        json!({"name": "bash", "permission_policy": {"type": "never"}}),
        "tools.0.configs.0.permission_policy.type: must be `always_allow`, `always_ask` or `auto`, not `never`",
    );
    bad(
        json!({"name": "bash", "permission_policy": "auto"}),
        "tools.0.configs.0.permission_policy: must be an object, not a string",
    );
    refused(
        json!([{"type": "agent_toolset_20260401", "configs": [{"name": "bash"}, {"name": "bash"}]}]),
        "tools.0.configs.1: name: `bash` has an entry already; one entry per tool",
    );
}

#[test]
fn bad_custom_tools_are_refused() {
    let named = |name: &str, message: &str| {
        refused(json!([custom(name)]), &format!("tools.0.name: {message}"));
    };
    named("", "must have 1 to 128 characters, not 0");
    named(&"x".repeat(129), "must have 1 to 128 characters, not 129");
    named("a b", "must be letters, digits, `_` and `-` only");
    named("ä", "must be letters, digits, `_` and `-` only");
    named("bash", "`bash` is the name of a built-in tool");
    named("mcp__x", "must not begin with `mcp__`");
    named("ant__x", "must not begin with `ant__`");
    assert!(parse(json!([custom(&"x".repeat(128))])).is_ok());
    refused(
        json!([custom("a"), custom("a")]),
        "tools.1: name: `a` is the name of another tool of this agent; names must be unique",
    );
    refused(
        json!([{"type": "custom", "name": "t", "description": "", "input_schema": {"type": "object"}}]),
        "tools.0.description: must not be empty",
    );
}

#[test]
fn bad_schemas_are_refused() {
    let bad = |schema: Value, message: &str| {
        let message = format!("tools.0.input_schema{message}");
        assert_eq!(custom_schema(schema), Err(Problem::invalid(message)));
    };
    bad(json!({}), ".type: is required");
    bad(
        json!({"type": "array"}),
        ".type: must be `object`, not `array`",
    );
    for keyword in ["oneOf", "anyOf", "allOf"] {
        bad(
            json!({"type": "object", keyword: []}),
            &format!(": must not have `{keyword}` at the top level"),
        );
    }
    for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
        bad(
            json!({"type": "object", "properties": {"a": {"items": [{keyword: "#"}]}}}),
            &format!(": must not contain `{keyword}` anywhere"),
        );
    }
    let pattern = "must match [A-Za-z0-9_.-]{1,64}";
    bad(
        json!({"type": "object", "properties": {"a b": {}}}),
        &format!(".properties: the name `a b` {pattern}"),
    );
    bad(
        json!({"type": "object", "properties": {"": {}}}),
        &format!(".properties: the name `` {pattern}"),
    );
    bad(
        json!({"type": "object", "required": [1]}),
        ".required.0: must be a string, not a number",
    );
}

#[test]
fn good_schemas_keep_their_order_and_keywords() {
    let schema = json!({
        "type": "object", "required": null, "$schema": "x",
        "properties": {"z": {"anyOf": [{"type": "string"}]}, "a.b-c_1": {}},
        "additionalProperties": false,
    });
    let tools = custom_schema(schema.clone()).unwrap();
    let stored = &tools.custom().next().unwrap().input_schema;
    assert_eq!(serde_json::to_string(stored).unwrap(), schema.to_string());
}

#[test]
fn domains_follow_their_format() {
    let fetch = |domain: &str| config(json!({"name": "web_fetch", "allowed_domains": [domain]}));
    let search = |domain: &str| config(json!({"name": "web_search", "allowed_domains": [domain]}));
    for good in [
        "example.com",
        "a.b.example.co.uk",
        "EXAMPLE.com/",
        "xn--bcher-kva.example",
    ] {
        assert!(fetch(good).is_ok() && search(good).is_ok(), "{good}");
    }
    assert!(search("example.com/docs/v2").is_ok());
    for (bad, why) in [
        (
            "https://example.com",
            "must be a host name without a scheme, such as `docs.example.com`",
        ),
        ("example.com/docs", "must be a host name without a path"),
        (
            "*.example.com",
            "must not contain a wildcard; a domain covers its subdomains",
        ),
        (
            "example.com:443",
            "must be a host name without credentials, port or IP address",
        ),
        (
            "u@example.com",
            "must be a host name without credentials, port or IP address",
        ),
        (
            "[::1]",
            "must be a host name without credentials, port or IP address",
        ),
        ("127.0.0.1", "must not be an IP address"),
        ("a.0x7f", "must not be an IP address"),
        (
            "com",
            "must be a registrable domain such as `example.com`, not a bare suffix",
        ),
        (
            "co.uk",
            "must be a registrable domain such as `example.com`, not a bare suffix",
        ),
        ("localhost", "must not be a local name"),
        ("a.localhost", "must not be a local name"),
        ("printer.local", "must not be a local name"),
        ("db.internal", "must not be a local name"),
        (
            "exa mple.com",
            "must be a host name such as `docs.example.com`",
        ),
        (
            "example..com",
            "must be a host name such as `docs.example.com`",
        ),
        (
            "bücher.example",
            "must be ASCII; write an international name as Punycode (`xn--...`)",
        ),
    ] {
        let message = format!("tools.0.configs.0.allowed_domains.0: {why}");
        assert_eq!(fetch(bad), Err(Problem::invalid(message)));
    }
    for bad in [
        "example.com/a?b",
        "example.com/a b",
        "example.com/a|b",
        "example.com/a!",
    ] {
        let why = "the path must not contain white space or any of `? # $ , | ^ !`";
        let message = format!("tools.0.configs.0.allowed_domains.0: {why}");
        assert_eq!(search(bad), Err(Problem::invalid(message)));
    }
}

#[test]
fn bad_web_settings_are_refused() {
    let bad = |entry: Value, message: &str| {
        let message = format!("tools.0.configs.0.{message}");
        assert_eq!(config(entry), Err(Problem::invalid(message)));
    };
    let fetch = |field: &str, value: Value| json!({"name": "web_fetch", field: value});
    bad(
        fetch("allowed_domains", json!([])),
        "allowed_domains: must have 1 to 64 entries, not 0",
    );
    bad(
        fetch("allowed_domains", json!(vec!["a.com"; 65])),
        "allowed_domains: must have 1 to 64 entries, not 65",
    );
    bad(
        fetch("allowed_domains", json!(["a.com", "A.com/"])),
        "allowed_domains.1: is in the list already",
    );
    bad(
        fetch("blocked_domains", json!(["x".repeat(256)])),
        "blocked_domains.0: must have 1 to 255 characters, not 256",
    );
    bad(
        json!({"name": "web_fetch", "allowed_domains": ["a.com"], "blocked_domains": ["b.com"]}),
        "blocked_domains: must not be combined with `allowed_domains`; send one of the two",
    );
    bad(
        fetch("max_content_tokens", json!(0)),
        "max_content_tokens: must be an integer of at least 1, not 0",
    );
    bad(
        fetch("user_location", json!({})),
        "user_location: unknown field; allowed: `name`, `type`, `enabled`, `permission_policy`, \
         `allowed_domains`, `blocked_domains`, `max_content_tokens` or `url_sources`",
    );
    let located = |field: &str, value: &str| json!({"name": "web_search", "user_location": {"type": "approximate", field: value}});
    let country =
        "user_location.country: must be a country as two capital letters (ISO 3166-1 alpha-2)";
    for code in ["at", "ZZ", "AUT", "A "] {
        bad(located("country", code), country);
    }
    let zone = "user_location.timezone: must be an IANA time zone such as `America/Los_Angeles`";
    for name in ["Vienna", "Europe/", "../etc", "Europe/Vien na", "+01:00"] {
        bad(located("timezone", name), zone);
    }
    assert!(config(located("timezone", "America/Argentina/Buenos_Aires")).is_ok());
    assert!(config(located("timezone", "UTC")).is_ok());
    bad(
        json!({"name": "web_search", "user_location": {}}),
        "user_location.type: is required",
    );
}

#[test]
fn bad_url_sources_are_refused() {
    let sources = |value: Value| config(json!({"name": "web_fetch", "url_sources": value}));
    let bad = |value: Value, message: &str| {
        assert_eq!(sources(value), Err(Problem::invalid(message)));
    };
    let path = "tools.0.configs.0.url_sources";
    bad(
        json!({"user_input": "none", "client_tool_results": "none", "server_tool_results": {"type": "none"}}),
        &format!("{path}: must not set all three sources to `none`"),
    );
    bad(
        json!({"user_input": "only"}),
        &format!("{path}.user_input: must be `all` or `none`, not `only`"),
    );
    bad(
        json!({"server_tool_results": {"type": "only", "tools": []}}),
        &format!("{path}.server_tool_results.tools: must have 1 to 128 entries, not 0"),
    );
    let reference = json!({"type": "tool_reference", "name": "web_search"});
    bad(
        json!({"server_tool_results": {"type": "only", "tools": [reference, reference]}}),
        &format!(
            "{path}.server_tool_results.tools.1.name: is in the list already; names must be different"
        ),
    );
    bad(
        json!({"client_tool_results": {"type": "except", "tools": [reference]}}),
        "tools: url_sources.client_tool_results: `web_search` is not a custom tool of the same `tools` array",
    );
    bad(
        json!({"server_tool_results": {"type": "only", "tools": [{"type": "tool_reference", "name": "bash"}]}}),
        "tools: url_sources.server_tool_results: `bash` is not `web_search` or `web_fetch`",
    );
    assert!(
        sources(json!({"server_tool_results": {"type": "except", "tools": [reference]}})).is_ok()
    );
    assert!(sources(json!({"user_input": {"type": "all"}})).is_ok());
}
