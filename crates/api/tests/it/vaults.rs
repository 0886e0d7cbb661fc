//! Vaults.

use serde_json::{Value, json};

use crate::bench::{Bench, id};

#[tokio::test]
async fn a_vault_lives() {
    let bench = Bench::new().await;
    let body = json!({ "display_name": "Ada", "metadata": { "user": "7" } });
    let made = bench.post("/v1/vaults", body).await;
    insta::assert_json_snapshot!("created", made.shown());
    let path = format!("/v1/vaults/{}", id(&made.json()));
    assert_eq!(bench.get(&path).await.json(), made.json());
    for same in [
        json!({}),
        json!({ "display_name": "Ada" }),
        json!({ "metadata": null }),
    ] {
        assert_eq!(bench.post(&path, same).await.json(), made.json());
    }
    let change = json!({ "display_name": "Lovelace", "metadata": { "user": null, "a": "b" } });
    let updated = bench.post(&path, change).await.ok();
    assert_eq!(
        (&updated["display_name"], &updated["metadata"]),
        (&json!("Lovelace"), &json!({ "a": "b" }))
    );
    assert_eq!(bench.get(&path).await.json(), updated);

    let archived = bench.poke(&format!("{path}/archive")).await;
    insta::assert_json_snapshot!("archived", archived.shown());
    let again = bench.poke(&format!("{path}/archive")).await;
    assert_eq!(again.json(), archived.json());
    let told = bench
        .post(&path, json!({ "display_name": "x" }))
        .await
        .refused(400);
    assert!(
        told.ends_with("is archived and cannot be changed"),
        "{told}"
    );
    assert_eq!(bench.get(&path).await.json(), archived.json());
    let deleted = bench.delete(&path).await;
    insta::assert_json_snapshot!("deleted", deleted.shown());
    for gone in [bench.get(&path).await, bench.delete(&path).await] {
        assert!(gone.refused(404).starts_with("vault `vlt_01"));
    }
    assert_eq!(bench.poke(&format!("{path}/archive")).await.status, 404);
}

#[tokio::test]
async fn lists_have_pages_and_leave_archived_ones_out() {
    let bench = Bench::new().await;
    let mut all = Vec::new();
    for number in 0..5 {
        let body = json!({ "display_name": format!("v{number}") });
        all.push(id(&bench.post("/v1/vaults", body).await.ok()));
    }
    bench
        .poke(&format!("/v1/vaults/{}/archive", all[1]))
        .await
        .ok();
    let ids = |page: &Value| {
        let data = page["data"].as_array().unwrap().iter();
        data.map(id).collect::<Vec<_>>()
    };
    let listed = async |query: &str| bench.get(&format!("/v1/vaults?{query}")).await.ok();
    let first = listed("limit=3").await;
    assert_eq!(ids(&first), [&*all[4], &*all[3], &*all[2]]);
    let next = first["next_page"].as_str().unwrap();
    let last = listed(&format!("limit=3&page={next}")).await;
    assert_eq!(
        (ids(&last), &last["next_page"]),
        (vec![all[0].clone()], &Value::Null)
    );
    assert_eq!(ids(&listed("include_archived=true").await).len(), 5);
    let told = bench.get("/v1/vaults?colour=blue").await.refused(400);
    assert!(
        told.starts_with("colour: unknown query parameter"),
        "{told}"
    );
    let told = bench.get("/v1/vaults?limit=101").await.refused(400);
    assert_eq!(told, "limit: must be an integer from 1 to 100, not `101`");
}

#[tokio::test]
async fn a_session_names_vaults_that_are_there() {
    let bench = Bench::new().await;
    let (agent, environment) = bench.home().await;
    let vault = async |name: &str| {
        let body = json!({ "display_name": name });
        id(&bench.post("/v1/vaults", body).await.ok())
    };
    let (one, two, closed) = (
        vault("one").await,
        vault("two").await,
        vault("closed").await,
    );
    bench
        .poke(&format!("/v1/vaults/{closed}/archive"))
        .await
        .ok();
    let create = async |vaults: Value| {
        let body = json!({ "agent": agent, "environment_id": environment, "vault_ids": vaults });
        bench.post("/v1/sessions", body).await
    };
    let told = create(json!([one, closed])).await.refused(400);
    assert_eq!(
        told,
        format!("vault_ids.1: vault `{closed}` is archived and takes no new sessions")
    );
    let unknown = format!("vlt_01{}", "0".repeat(22));
    let told = create(json!([unknown])).await.refused(404);
    assert_eq!(told, format!("vault_ids.0: vault `{unknown}` not found"));

    let session = create(json!([two, one])).await.ok();
    assert_eq!(session["vault_ids"], json!([two, one]));
    let path = format!("/v1/sessions/{}", id(&session));
    // What a vault becomes later changes no session.
    bench.poke(&format!("/v1/vaults/{two}/archive")).await.ok();
    bench.delete(&format!("/v1/vaults/{one}")).await.ok();
    let updated = bench
        .post(&path, json!({ "title": "t", "vault_ids": null }))
        .await
        .ok();
    assert_eq!(updated["vault_ids"], json!([two, one]));
    assert_eq!(
        bench.get(&path).await.json()["vault_ids"],
        json!([two, one])
    );
    let told = bench.post(&path, json!({ "vault_ids": [] })).await;
    assert_eq!(
        told.ok()["vault_ids"],
        json!([two, one]),
        "as null: nothing is said"
    );
    let told = bench
        .post(&path, json!({ "vault_ids": [two] }))
        .await
        .refused(400);
    assert!(told.starts_with("vault_ids: not_supported"), "{told}");
}
