//! Tests of credentials: requests, updates, the stored form, and what never shows.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{any_json, misplaced};
use crate::{Micros, Problem};

const ID: &str = "vcrd_010000000000000000000001";
const VAULT: &str = "vlt_010000000000000000000001";
/// What no refusal, no shown form and no debug form may hold.
const CANARY: &str = "canary-4f1d2b";

fn create(body: &Value) -> Result<Credential, Problem> {
    let request = CreateCredential::parse(body)?;
    request.resolve(ID.parse().unwrap(), VAULT.parse().unwrap(), Micros(10))
}

fn update(current: &Credential, body: &Value) -> Result<Credential, Problem> {
    UpdateCredential::parse(body)?.apply(current, Micros(20))
}

fn of(auth: Value) -> Value {
    json!({ "auth": auth })
}

fn oauth() -> Value {
    json!({
        "type": "mcp_oauth", "mcp_server_url": "https://MCP.example.com/mcp/",
        "access_token": CANARY, "expires_at": "2030-01-01T00:00:00Z",
        "refresh": {
            "client_id": "c", "refresh_token": CANARY,
            "token_endpoint": "https://login.example.com/token",
            "token_endpoint_auth": {"type": "client_secret_basic", "client_secret": CANARY},
            "resource": "https://mcp.example.com", "scope": "a b",
        },
    })
}

fn bearer() -> Value {
    json!({"type": "static_bearer", "mcp_server_url": "http://127.0.0.1:8080", "token": CANARY})
}

fn variable() -> Value {
    json!({
        "type": "environment_variable", "secret_name": "API_TOKEN", "secret_value": CANARY,
        "networking": {"type": "unrestricted"},
    })
}

/// Returns a value with other fields in it; null removes nothing, it is a value.
fn with(mut value: Value, change: Value) -> Value {
    let map = value.as_object_mut().unwrap();
    map.extend(change.as_object().unwrap().clone());
    value
}

fn without(mut value: Value, field: &str) -> Value {
    value.as_object_mut().unwrap().shift_remove(field);
    value
}

#[test]
fn what_is_shown_has_every_field_of_the_sdk_and_no_secret() {
    let shown = |auth: Value| {
        json!({
            "type": "vault_credential", "id": ID, "archived_at": null, "auth": auth,
            "created_at": "1970-01-01T00:00:00.000010Z", "display_name": null, "metadata": {},
            "updated_at": "1970-01-01T00:00:00.000010Z", "vault_id": VAULT,
        })
    };
    for (auth, expected) in [
        (
            oauth(),
            json!({
                "type": "mcp_oauth", "mcp_server_url": "https://MCP.example.com/mcp/",
                "expires_at": "2030-01-01T00:00:00.000000Z",
                "refresh": {
                    "client_id": "c", "token_endpoint": "https://login.example.com/token",
                    "token_endpoint_auth": {"type": "client_secret_basic"},
                    "resource": "https://mcp.example.com", "scope": "a b",
                },
            }),
        ),
        (
            with(oauth(), json!({"expires_at": null, "refresh": null})),
            json!({
                "type": "mcp_oauth", "mcp_server_url": "https://MCP.example.com/mcp/",
                "refresh": null,
            }),
        ),
        (
            bearer(),
            json!({"type": "static_bearer", "mcp_server_url": "http://127.0.0.1:8080"}),
        ),
        (
            variable(),
            json!({
                "type": "environment_variable", "secret_name": "API_TOKEN",
                "networking": {"type": "unrestricted"},
                "injection_location": {"body": true, "header": true},
            }),
        ),
    ] {
        let request = CreateCredential::parse(&of(auth)).unwrap();
        assert!(!format!("{request:?}").contains(CANARY));
        let credential = request.resolve(ID.parse().unwrap(), VAULT.parse().unwrap(), Micros(10));
        let credential = credential.unwrap();
        let wire = serde_json::to_value(&credential).unwrap();
        assert_eq!(wire, shown(expected));
        assert_eq!(
            serde_json::from_value::<Credential>(wire).unwrap(),
            credential
        );
    }
}

#[test]
fn a_secret_in_the_wrong_place_is_in_no_refusal() {
    const NUL: &str = "canary-4f1d2b\0";
    for auth in [oauth(), bearer(), variable()] {
        let whole = with(
            of(auth),
            json!({"metadata": {"k": "v"}, "display_name": "n"}),
        );
        for body in misplaced(&whole, CANARY) {
            for refusal in [
                CreateCredential::parse(&body).map(|_| ()),
                UpdateCredential::parse(&body).map(|_| ()),
            ] {
                let told = refusal.err().map(|problem| problem.message);
                assert!(
                    !told.clone().unwrap_or_default().contains(CANARY),
                    "{told:?}"
                );
            }
        }
        for body in misplaced(&whole, NUL) {
            let told = crate::read::body(body.to_string().as_bytes()).unwrap_err();
            assert!(!told.message.contains(CANARY), "{told:?}");
        }
    }
}

#[test]
fn of_what_was_sent_a_refusal_repeats_the_names_of_fields_that_are_words() {
    refused([
        (
            with(bearer(), json!({"secretValue": CANARY})),
            "auth.secretValue: unknown field; allowed: `type`, `mcp_server_url` or `token`",
        ),
        (
            with(bearer(), json!({CANARY: null, "x": 1})),
            "auth: unknown field, whose name is not repeated because it may be a secret (and 1 more); \
             allowed: `type`, `mcp_server_url` or `token`",
        ),
        (
            with(oauth(), json!({"expires_at": CANARY})),
            "auth.expires_at: must be an RFC 3339 time such as `2026-01-31T12:00:00Z`",
        ),
    ]);
}

/// Creates a credential of each kind of `auth`, which must be refused in these words.
#[track_caller]
fn refused<const N: usize>(cases: [(Value, &str); N]) {
    for (auth, message) in cases {
        let refused = create(&of(auth.clone())).unwrap_err();
        assert_eq!(refused, Problem::invalid(message), "{auth}");
        assert!(!refused.message.contains(CANARY));
    }
}

#[test]
fn bad_tokens_are_refused_and_no_refusal_quotes_them() {
    let refresh = |change: Value| {
        with(
            oauth(),
            json!({"refresh": with(oauth()["refresh"].clone(), change)}),
        )
    };
    refused([
        (json!({}), "auth.type: is required"),
        (
            json!({"type": "api_key"}),
            "auth.type: must be `mcp_oauth`, `static_bearer` or `environment_variable`",
        ),
        (without(bearer(), "token"), "auth.token: is required"),
        (
            with(bearer(), json!({"token": ""})),
            "auth.token: must have 1 to 32768 characters, not 0",
        ),
        (
            with(bearer(), json!({"token": format!("{CANARY}\n")})),
            "auth.token: must have printable ASCII characters without spaces alone, to stand in a header",
        ),
        (
            with(bearer(), json!({"token": [CANARY]})),
            "auth.token: must be a string, not an array",
        ),
        (
            with(
                bearer(),
                json!({"mcp_server_url": "https://u:p@example.com/"}),
            ),
            "auth.mcp_server_url: must be a URL without a user name or password",
        ),
        (
            with(
                bearer(),
                json!({"mcp_server_url": format!("https://a/{}", "x".repeat(2_048))}),
            ),
            "auth.mcp_server_url: must have 1 to 2048 characters, not 2058",
        ),
        (
            with(bearer(), json!({"expires_at": null})),
            "auth.expires_at: unknown field; allowed: `type`, `mcp_server_url` or `token`",
        ),
        (
            with(
                oauth(),
                json!({"expires_at": "1970-01-01T00:00:00.000010Z"}),
            ),
            "auth.expires_at: must be in the future, and it is 1970-01-01T00:00:00.000010Z",
        ),
        (
            with(oauth(), json!({"expires_at": 5})),
            "auth.expires_at: must be a string, not a number",
        ),
        (
            without(oauth(), "access_token"),
            "auth.access_token: is required",
        ),
        (
            refresh(json!({"refresh_token": null})),
            "auth.refresh.refresh_token: is required and must not be null",
        ),
        (
            refresh(json!({"token_endpoint_auth": {"type": "client_secret_post"}})),
            "auth.refresh.token_endpoint_auth.client_secret: is required",
        ),
        (
            refresh(json!({"token_endpoint_auth": {"type": "none", "client_secret": CANARY}})),
            "auth.refresh.token_endpoint_auth.client_secret: unknown field; allowed: `type`",
        ),
    ]);
}

#[test]
fn bad_variables_are_refused() {
    let limited = |hosts: Value| {
        with(
            variable(),
            json!({"networking": {"type": "limited", "allowed_hosts": hosts}}),
        )
    };
    let hosts = |count| Value::from(vec!["a.example.com"; count]);
    refused([
        (
            with(variable(), json!({"secret_name": "1A"})),
            "auth.secret_name: must be letters, digits and `_`, and not begin with a digit, as in `API_TOKEN`",
        ),
        (
            with(variable(), json!({"secret_name": "PATH"})),
            "auth.secret_name: cannot be `PATH`: sandboxes and shells set it themselves, so that the credential \
             would have no effect; choose another",
        ),
        (
            with(variable(), json!({"secret_name": "LD_PRELOAD"})),
            "auth.secret_name: cannot be `LD_PRELOAD`: it changes how programs start, and they would \
             find a placeholder in it; choose another",
        ),
        (
            without(variable(), "networking"),
            "auth.networking: is required",
        ),
        (
            limited(Value::Null),
            "auth.networking.allowed_hosts: is required and must not be null",
        ),
        (
            limited(hosts(17)),
            "auth.networking.allowed_hosts: must have 0 to 16 entries, not 17",
        ),
        (
            limited(json!(["a", "::1"])),
            "auth.networking.allowed_hosts.1: must be a host name or an IPv4 address; IPv6 addresses are not taken",
        ),
        (
            limited(json!(["a.example.com:443"])),
            "auth.networking.allowed_hosts.0: must be a host name without a port",
        ),
        (
            with(variable(), json!({"injection_location": null})),
            "auth.injection_location: must not be null, it cannot be cleared; leave it out to keep it",
        ),
        (
            with(variable(), json!({"injection_location": {"header": null}})),
            "auth.injection_location.header: must not be null, it cannot be cleared; leave it out to keep it",
        ),
        (
            with(variable(), json!({"injection_location": {}})),
            "auth.injection_location: `header` or `body` must be true, or the secret would be used nowhere",
        ),
    ]);
    assert!(create(&of(limited(hosts(16)))).is_ok());
}

#[test]
fn bad_requests_are_refused() {
    for (body, message) in [
        (json!({}), "auth: is required"),
        (
            with(of(bearer()), json!({"display_name": "x".repeat(256)})),
            "display_name: must have 0 to 255 characters, not 256",
        ),
        (
            with(of(bearer()), json!({"vault_id": VAULT})),
            "vault_id: unknown field; allowed: `auth`, `display_name` or `metadata`",
        ),
    ] {
        assert_eq!(create(&body), Err(Problem::invalid(message)), "{body}");
    }
}

#[test]
fn a_location_that_is_given_is_false_where_it_says_nothing() {
    let location = |at: Value| {
        let auth = with(variable(), json!({ "injection_location": at }));
        serde_json::to_value(create(&of(auth)).unwrap().auth).unwrap()["injection_location"].clone()
    };
    assert_eq!(
        location(json!({"header": true})),
        json!({"body": false, "header": true})
    );
    assert_eq!(
        location(json!({"body": true})),
        json!({"body": true, "header": false})
    );
}

#[test]
fn credentials_of_one_server_have_one_key() {
    let key = |auth: Value| create(&of(auth)).unwrap().auth.key();
    let same = with(
        bearer(),
        json!({"mcp_server_url": "https://mcp.example.com:443/mcp"}),
    );
    assert_eq!(key(oauth()), key(same));
    let other = with(
        bearer(),
        json!({"mcp_server_url": "https://mcp.example.com/MCP"}),
    );
    assert_ne!(key(oauth()), key(other));
    let lower = with(variable(), json!({"secret_name": "api_token"}));
    assert_ne!(key(variable()), key(lower));
}

#[test]
fn an_update_keeps_what_it_leaves_out() {
    let stored = create(&with(
        of(oauth()),
        json!({"display_name": "d", "metadata": {"k": "v"}}),
    ))
    .unwrap();
    for same in [
        json!({}),
        json!({"metadata": null}),
        of(json!({"type": "mcp_oauth"})),
        of(json!({"type": "mcp_oauth", "access_token": null, "expires_at": null, "refresh": null})),
        of(json!({"type": "mcp_oauth", "refresh": {"scope": null, "refresh_token": null}})),
        of(
            json!({"type": "mcp_oauth", "refresh": {"token_endpoint_auth": {"type": "client_secret_post"}}}),
        ),
    ] {
        assert_eq!(update(&stored, &same).unwrap(), stored, "{same}");
        assert!(!UpdateCredential::parse(&same).unwrap().renews(), "{same}");
    }
    let next = update(
        &stored,
        &json!({"display_name": null, "metadata": {"k": null, "l": "w"}}),
    );
    let next = next.unwrap();
    assert_eq!((next.display_name, next.metadata.len()), (None, 1));
    assert_eq!(next.updated_at, Micros(20));
}

#[test]
fn a_new_token_keeps_the_old_end_and_counts_as_a_change() {
    let stored = create(&of(oauth())).unwrap();
    let body = of(json!({"type": "mcp_oauth", "access_token": CANARY}));
    let request = UpdateCredential::parse(&body).unwrap();
    assert!(request.renews() && !format!("{request:?}").contains(CANARY));
    let next = request.apply(&stored, Micros(20)).unwrap();
    assert_eq!((&next.auth, next.updated_at), (&stored.auth, Micros(20)));
    for body in [
        of(json!({"type": "mcp_oauth", "refresh": {"refresh_token": CANARY}})),
        of(
            json!({"type": "mcp_oauth", "refresh": {"token_endpoint_auth": {"type": "client_secret_basic", "client_secret": CANARY}}}),
        ),
    ] {
        assert!(UpdateCredential::parse(&body).unwrap().renews(), "{body}");
    }
    let scope = |scope: &str| {
        let body = of(json!({"type": "mcp_oauth", "refresh": {"scope": scope}}));
        let next = update(&stored, &body).unwrap();
        serde_json::to_value(next.auth).unwrap()["refresh"]["scope"].clone()
    };
    assert_eq!((scope("x"), scope("")), (json!("x"), Value::Null));
}

#[test]
fn a_location_is_merged_and_hosts_are_replaced() {
    let header = with(variable(), json!({"injection_location": {"header": true}}));
    let stored = create(&of(header)).unwrap();
    let change = |change: Value| {
        let body = of(with(json!({"type": "environment_variable"}), change));
        let next = update(&stored, &body).map_err(|problem| problem.message)?;
        Ok::<_, String>(serde_json::to_value(next.auth).unwrap())
    };
    let both = change(json!({"injection_location": {"body": true}})).unwrap();
    assert_eq!(
        both["injection_location"],
        json!({"body": true, "header": true})
    );
    let limited = json!({"type": "limited", "allowed_hosts": ["*.example.com", "192.0.2.1"]});
    let hosts = change(json!({ "networking": limited })).unwrap();
    assert_eq!(
        (&hosts["networking"], &hosts["injection_location"]),
        (&limited, &json!({"body": false, "header": true}))
    );
    let nowhere = change(json!({"injection_location": {"header": false}})).unwrap_err();
    assert!(nowhere.starts_with("auth.injection_location: `header` or `body` must be true"));
    let null = change(json!({"injection_location": null})).unwrap_err();
    assert!(null.starts_with("auth.injection_location: must not be null"));
}

#[test]
fn what_never_changes_is_refused() {
    let stored = create(&of(oauth())).unwrap();
    let none = json!({"token_endpoint_auth": {"type": "none"}});
    let none = with(
        oauth(),
        json!({"refresh": with(oauth()["refresh"].clone(), none)}),
    );
    let none = create(&of(none)).unwrap();
    let bare = create(&of(without(oauth(), "refresh"))).unwrap();
    let archived = stored.archive(Micros(15)).unwrap();
    let auth = json!({"type": "client_secret_basic", "client_secret": CANARY});
    for (current, body, message) in [
        (
            &stored,
            json!({"auth": null}),
            "auth: must not be null, it cannot be cleared; leave it out to keep it",
        ),
        (
            &stored,
            of(bearer()),
            "auth.mcp_server_url: unknown field; allowed: `type` or `token`",
        ),
        (
            &stored,
            of(json!({"type": "static_bearer", "token": CANARY})),
            "auth.type: must be `mcp_oauth`, as the credential was created; it never changes",
        ),
        (
            &stored,
            of(json!({"type": "mcp_oauth", "refresh": {"token_endpoint_auth": {"type": "none"}}})),
            "auth.refresh.token_endpoint_auth.type: must be `client_secret_basic` or `client_secret_post`",
        ),
        (
            &none,
            of(json!({"type": "mcp_oauth", "refresh": {"token_endpoint_auth": auth}})),
            "auth.refresh.token_endpoint_auth: the credential was created with `none` and cannot get a client secret; archive it and create another",
        ),
        (
            &bare,
            of(json!({"type": "mcp_oauth", "refresh": {"scope": "a"}})),
            "auth.refresh: the credential was created without one and cannot get one; archive it and create another",
        ),
        (
            &stored,
            of(json!({"type": "mcp_oauth", "expires_at": "1970-01-01T00:00:00Z"})),
            "auth.expires_at: must be in the future, and it is 1970-01-01T00:00:00.000020Z",
        ),
        (
            &stored,
            json!({"display_name": ""}),
            "display_name: must have 1 to 255 characters, not 0",
        ),
        (
            &archived,
            json!({}),
            "credential `vcrd_010000000000000000000001` is archived and cannot be changed",
        ),
    ] {
        assert_eq!(
            update(current, &body),
            Err(Problem::invalid(message)),
            "{body}"
        );
    }
    assert_eq!(archived.archive(Micros(16)), None);
}

proptest! {
    #[test]
    fn no_body_makes_a_request_panic(body in any_json()) {
        drop(CreateCredential::parse(&body));
        drop(UpdateCredential::parse(&body));
        drop(create(&of(body.clone())));
        let stored = create(&of(variable())).unwrap();
        drop(update(&stored, &of(body)));
    }

    #[test]
    fn a_normal_address_stays_itself(text in "(https?|HTTP)://[a-zA-Z.]{1,9}(:[0-9]{1,5})?(/[a-zA-Z/?&]{0,9})?") {
        let once = normal(&text);
        prop_assert_eq!(normal(&once), once);
    }
}
