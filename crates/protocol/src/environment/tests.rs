//! Tests of environments: requests, resolution, updates, the stored form.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::any_json;
use crate::{ErrorCode, Micros, Problem};

const ID: &str = "env_010000000000000000000001";

fn create(body: &Value) -> Result<Environment, Problem> {
    Ok(CreateEnvironment::parse(body)?.resolve(ID.parse().unwrap(), Micros(0)))
}

fn update(current: &Environment, body: &Value) -> Result<Option<Environment>, Problem> {
    UpdateEnvironment::parse(body)?.apply(current, Micros(1))
}

fn networking(environment: &Environment) -> Value {
    serde_json::to_value(&environment.config).unwrap()["networking"].clone()
}

fn limited(extra: &Value) -> Value {
    let mut networking = json!({"type": "limited"});
    let map = networking.as_object_mut().unwrap();
    map.extend(extra.as_object().unwrap().clone());
    json!({"name": "n", "config": {"type": "cloud", "networking": networking}})
}

fn with_packages(packages: &Value) -> Value {
    json!({"name": "n", "config": {"type": "cloud", "packages": packages}})
}

#[test]
fn packages_are_kept_and_updated_list_by_list() {
    let shown = |environment: &Environment| {
        serde_json::to_value(&environment.config).unwrap()["packages"].clone()
    };
    let stored = create(&with_packages(
        &json!({"type": "packages", "pip": ["six==1.17.0", "idna"], "npm": null, "apt": ["jq"]}),
    ))
    .unwrap();
    assert_eq!(
        shown(&stored),
        json!({"type": "packages", "apt": ["jq"], "cargo": [], "gem": [], "go": [], "npm": [], "pip": ["six==1.17.0", "idna"]})
    );
    let of = |packages: Value| json!({"config": {"type": "cloud", "packages": packages}});
    for same in [json!(null), json!({}), json!({"pip": null, "apt": ["jq"]})] {
        assert_eq!(update(&stored, &of(same)), Ok(None));
    }
    let next = update(&stored, &of(json!({"pip": ["six"], "apt": []}))).unwrap();
    let next = next.unwrap();
    assert_eq!(shown(&next)["pip"], json!(["six"]));
    assert_eq!(shown(&next)["apt"], json!([]));
    let limited = json!({"config": {"type": "cloud", "networking": {"type": "limited"}}});
    let refused = update(&stored, &limited).unwrap_err();
    assert!(
        refused
            .message
            .starts_with("config.packages: must be empty")
    );
    let allowed = json!({"config": {"type": "cloud", "networking": {"type": "limited", "allow_package_managers": true}}});
    assert!(update(&stored, &allowed).unwrap().is_some());
    let both = json!({"config": {"type": "cloud", "networking": {"type": "limited"}, "packages": {"apt": [], "pip": []}}});
    assert!(update(&stored, &both).unwrap().is_some());
}

#[test]
fn a_small_environment_has_every_field_of_the_sdk() {
    let wire = json!({
        "type": "environment", "id": ID, "name": "n", "description": null, "metadata": {},
        "scope": "organization", "archived_at": null,
        "config": {
            "type": "cloud",
            "networking": {"type": "unrestricted"},
            "packages": {"type": "packages", "apt": [], "cargo": [], "gem": [], "go": [], "npm": [], "pip": []},
        },
        "created_at": "1970-01-01T00:00:00.000000Z", "updated_at": "1970-01-01T00:00:00.000000Z",
    });
    for body in [
        json!({"name": "n"}),
        json!({"name": "n", "config": null, "description": null, "scope": null, "metadata": null}),
        json!({"name": "n", "scope": "organization", "config": {"type": "cloud", "networking": null, "packages": null}}),
        json!({"name": "n", "config": wire["config"]}),
    ] {
        let environment = create(&body).unwrap();
        assert_eq!(serde_json::to_value(&environment).unwrap(), wire);
        let back: Environment = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(back, environment);
    }
}

#[test]
fn limited_networking_defaults_to_nothing() {
    let environment = create(&limited(&json!({"allowed_hosts": null}))).unwrap();
    assert_eq!(
        networking(&environment),
        json!({"type": "limited", "allowed_hosts": [], "allow_mcp_servers": false, "allow_package_managers": false})
    );
}

#[test]
fn bad_requests_are_refused() {
    for (body, code, message) in [
        (json!({}), ErrorCode::InvalidRequest, "name: is required"),
        (
            json!({"name": "x".repeat(257)}),
            ErrorCode::InvalidRequest,
            "name: must have 1 to 256 characters, not 257",
        ),
        (
            json!({"name": "n", "description": "x".repeat(2_049)}),
            ErrorCode::InvalidRequest,
            "description: must have 0 to 2048 characters, not 2049",
        ),
        (
            json!({"name": "n", "scope": "account"}),
            ErrorCode::InvalidRequest,
            "scope: must be `organization`; `account` is not available to API keys",
        ),
        (
            json!({"name": "n", "config": {}}),
            ErrorCode::InvalidRequest,
            "config.type: is required",
        ),
        (
            json!({"name": "n", "config": {"type": "local"}}),
            ErrorCode::InvalidRequest,
            "config.type: must be `cloud` or `self_hosted`, not `local`",
        ),
        (
            json!({"name": "n", "config": {"type": "self_hosted"}}),
            ErrorCode::NotSupported,
            "config.type: not_supported: this server has no self-hosted environments yet; must be `cloud`",
        ),
        (
            json!({"name": "n", "config": {"type": "cloud", "networking": {"type": "none"}}}),
            ErrorCode::InvalidRequest,
            "config.networking.type: must be `unrestricted` or `limited`, not `none`",
        ),
        (
            json!({"name": "n", "config": {"type": "cloud", "networking": {"type": "unrestricted", "allowed_hosts": []}}}),
            ErrorCode::InvalidRequest,
            "config.networking.allowed_hosts: unknown field; allowed: `type`",
        ),
        (
            limited(&json!({"allow_mcp_servers": "yes"})),
            ErrorCode::InvalidRequest,
            "config.networking.allow_mcp_servers: must be true or false, not a string",
        ),
        (
            limited(&json!({"allowed_hosts": vec!["a.com"; 501]})),
            ErrorCode::InvalidRequest,
            "config.networking.allowed_hosts: must have 0 to 500 entries, not 501",
        ),
    ] {
        assert_eq!(create(&body), Err(Problem::new(code, message)));
    }
}

#[test]
fn bad_packages_are_refused() {
    for (body, message) in [
        (
            with_packages(&json!({"pip": "numpy"})),
            "config.packages.pip: must be an array, not a string",
        ),
        (
            with_packages(&json!({"pip": ["numpy", 1]})),
            "config.packages.pip.1: must be a string, not a number",
        ),
        (
            with_packages(&json!({"pip": ["six", "--index-url=x"]})),
            "config.packages.pip.1: must be a package such as `numpy`, `numpy==1.2`, `numpy>=1.2,<2` or `uvicorn[standard]`; files, addresses, options and markers are not allowed",
        ),
        (
            with_packages(&json!({"pip": ["a.b", "six", "A-B==2"]})),
            "config.packages.pip.2: `a-b` is in this list already; name each package once",
        ),
        (
            with_packages(&json!({"apt": vec!["jq"; 201]})),
            "config.packages.apt: must have 0 to 200 entries, not 201",
        ),
        (
            with_packages(&json!({"npm": ["x".repeat(257)]})),
            "config.packages.npm.0: must have 1 to 256 characters, not 257",
        ),
        (
            with_packages(&json!({"gem": [""]})),
            "config.packages.gem.0: must have 1 to 256 characters, not 0",
        ),
        (
            json!({"name": "n", "config": {"type": "cloud", "networking": {"type": "limited"}, "packages": {"pip": ["six"]}}}),
            "config.packages: must be empty while config.networking is `limited` without `allow_package_managers: true`",
        ),
        (
            json!({"name": "n", "config": {"type": "cloud", "packages": {"brew": []}}}),
            "config.packages.brew: unknown field; allowed: `type`, `apt`, `cargo`, `gem`, `go`, `npm` or `pip`",
        ),
    ] {
        assert_eq!(create(&body), Err(Problem::invalid(message)));
    }
}

#[test]
fn hosts_follow_their_format() {
    for good in [
        "example.com",
        "*.example.com",
        "db",
        "10.0.0.1",
        "*.internal",
    ] {
        assert!(
            create(&limited(&json!({"allowed_hosts": [good]}))).is_ok(),
            "{good}"
        );
    }
    let name = "must be a host name such as `example.com`, or `*.example.com` for its subdomains";
    let star = "must have `*` only as the whole first label, as in `*.example.com`";
    for (bad, why) in [
        (
            "https://example.com",
            "must be a host name without a scheme",
        ),
        ("example.com/path", "must be a host name without a path"),
        ("example.com:443", "must be a host name without a port"),
        ("*", star),
        ("a.*.com", star),
        ("*x.com", star),
        ("exa mple.com", name),
        ("example.com.", name),
        ("*.", name),
        ("", "must have 1 to 253 characters, not 0"),
    ] {
        let message = format!("config.networking.allowed_hosts.0: {why}");
        assert_eq!(
            create(&limited(&json!({"allowed_hosts": [bad]}))),
            Err(Problem::invalid(message))
        );
    }
}

#[test]
fn an_update_keeps_what_it_leaves_out() {
    let stored = create(&json!({
        "name": "n", "description": "d", "metadata": {"a": "1", "b": "2"},
        "config": {"type": "cloud", "networking": {"type": "limited", "allowed_hosts": ["a.com"], "allow_mcp_servers": true}},
    }))
    .unwrap();
    for same in [
        json!({}),
        json!({"name": null, "scope": null, "config": null, "metadata": null}),
        json!({"config": {"type": "cloud"}}),
        json!({"config": {"type": "cloud", "networking": {"type": "limited"}, "packages": {}}}),
    ] {
        assert_eq!(update(&stored, &same), Ok(None), "{same}");
    }
    let next = update(
        &stored,
        &json!({
            "description": "", "metadata": {"a": "", "b": null, "c": "3"},
            "config": {"type": "cloud", "networking": {"type": "limited", "allow_package_managers": true}},
        }),
    )
    .unwrap()
    .unwrap();
    assert_eq!(next.description.as_deref(), Some(""));
    assert_eq!(next.metadata, [("c".to_owned(), "3".to_owned())].into());
    assert_eq!(next.updated_at, Micros(1));
    assert_eq!(
        networking(&next),
        json!({"type": "limited", "allowed_hosts": ["a.com"], "allow_mcp_servers": true, "allow_package_managers": true})
    );
    let cleared = update(&stored, &json!({"description": null}));
    assert_eq!(cleared.unwrap().unwrap().description, None);
    let open = json!({"config": {"type": "cloud", "networking": {"type": "unrestricted"}}});
    let open = update(&stored, &open).unwrap().unwrap();
    assert_eq!(networking(&open), json!({"type": "unrestricted"}));
    let closed = json!({"config": {"type": "cloud", "networking": {"type": "limited"}}});
    let closed = update(&open, &closed).unwrap().unwrap();
    assert_eq!(networking(&closed)["allowed_hosts"], json!([]));
}

#[test]
fn keys_of_the_server_that_there_are_none_of_are_refused() {
    let with = |metadata: Value| json!({"name": "n", "metadata": metadata});
    let known = with(json!({"outlast.image": "i", "outlast.run": "r", "outlasting": "mine"}));
    let known = create(&known).unwrap();
    let wrong = with(json!({"a": "b", "outlast.imgae": "debian"}));
    let words = "metadata.outlast.imgae: unknown key; of those that begin with `outlast.` there are \
                 outlast.image, outlast.run";
    assert_eq!(create(&wrong).unwrap_err().message, words);
    assert_eq!(update(&known, &wrong).unwrap_err().message, words);
    // One that was taken before can go, and is in nobody's way.
    let mut old = known;
    let pair = ("outlast.old".to_owned(), "x".to_owned());
    old.metadata.extend([pair]);
    let renamed = update(&old, &json!({"name": "m"})).unwrap().unwrap();
    assert!(renamed.metadata.contains_key("outlast.old"));
    for gone in [json!(null), json!("")] {
        let next = update(&old, &json!({"metadata": {"outlast.old": gone}})).unwrap();
        assert!(!next.unwrap().metadata.contains_key("outlast.old"));
    }
}

#[test]
fn updates_are_refused_by_kind_and_state() {
    let stored = create(&json!({"name": "n"})).unwrap();
    let change = update(&stored, &json!({"config": {"type": "self_hosted"}})).unwrap_err();
    assert_eq!(change.code, ErrorCode::InvalidConfigTypeChange);
    assert_eq!(
        change.message,
        "config.type: must stay `cloud`; it never changes"
    );
    let archived = Environment {
        archived_at: Some(Micros(2)),
        ..stored
    };
    let refused = update(&archived, &json!({})).unwrap_err();
    assert_eq!(refused.code, ErrorCode::EnvironmentArchived);
}

proptest! {
    #[test]
    fn no_json_makes_a_request_panic(body in any_json(), config in any_json()) {
        drop(create(&body));
        drop(create(&json!({"name": "n", "config": config})));
        drop(update(&create(&json!({"name": "n"})).unwrap(), &body));
    }
}
