//! Tests of vaults: requests, updates, the stored form.

use serde_json::{Value, json};

use super::*;
use crate::{ErrorCode, Micros, Problem};

const ID: &str = "vlt_010000000000000000000001";

fn create(body: &Value) -> Result<Vault, Problem> {
    Ok(CreateVault::parse(body)?.resolve(ID.parse().unwrap(), Micros(0)))
}

fn update(current: &Vault, body: &Value) -> Result<Option<Vault>, Problem> {
    UpdateVault::parse(body)?.apply(current, Micros(1))
}

#[test]
fn a_vault_has_every_field_of_the_sdk() {
    let wire = json!({
        "type": "vault", "id": ID, "archived_at": null,
        "created_at": "1970-01-01T00:00:00.000000Z", "display_name": "Ada",
        "metadata": {"k": "v"}, "updated_at": "1970-01-01T00:00:00.000000Z",
    });
    let vault = create(&json!({"display_name": "Ada", "metadata": {"k": "v"}})).unwrap();
    assert_eq!(serde_json::to_value(&vault).unwrap(), wire);
    assert_eq!(serde_json::from_value::<Vault>(wire).unwrap(), vault);
}

#[test]
fn bad_requests_are_refused() {
    let long = "x".repeat(256);
    for (body, code, message) in [
        (
            json!({}),
            ErrorCode::InvalidRequest,
            "display_name: is required",
        ),
        (
            json!({"display_name": ""}),
            ErrorCode::InvalidRequest,
            "display_name: must have 1 to 255 characters, not 0",
        ),
        (
            json!({"display_name": long}),
            ErrorCode::InvalidRequest,
            "display_name: must have 1 to 255 characters, not 256",
        ),
        (
            json!({"display_name": "a", "metadata": {"k": "v".repeat(513)}}),
            ErrorCode::InvalidMetadata,
            "metadata: the value of key `k` must have at most 512 characters, not 513",
        ),
        (
            json!({"display_name": "a", "credentials": []}),
            ErrorCode::InvalidRequest,
            "credentials: unknown field; allowed: `display_name` or `metadata`",
        ),
    ] {
        assert_eq!(create(&body), Err(Problem::new(code, message)), "{body}");
    }
}

#[test]
fn an_update_changes_what_it_names() {
    let stored = create(&json!({"display_name": "a", "metadata": {"k": "v"}})).unwrap();
    for same in [
        json!({}),
        json!({"display_name": null, "metadata": null}),
        json!({"display_name": "a", "metadata": {"k": "v", "x": null}}),
    ] {
        assert_eq!(update(&stored, &same), Ok(None), "{same}");
    }
    let next = update(
        &stored,
        &json!({"display_name": "b", "metadata": {"k": null}}),
    );
    let next = next.unwrap().unwrap();
    assert_eq!((&*next.display_name, next.metadata.len()), ("b", 0));
    assert_eq!((next.created_at, next.updated_at), (Micros(0), Micros(1)));
}

#[test]
fn an_archived_vault_stays_as_it_is() {
    let stored = create(&json!({"display_name": "a"})).unwrap();
    let archived = stored.archive(Micros(5)).unwrap();
    assert_eq!(
        (archived.archived_at, archived.updated_at),
        (Some(Micros(5)), Micros(5))
    );
    assert_eq!(archived.archive(Micros(6)), None);
    let refused = update(&archived, &json!({"display_name": "b"})).unwrap_err();
    let words = format!("vault `{ID}` is archived and cannot be changed");
    assert_eq!(refused, Problem::invalid(words));
}
