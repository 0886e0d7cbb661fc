//! What every custodian has to do.

#![expect(clippy::unwrap_used, reason = "a failure is a failed test")]

use outlast_protocol::{
    Micros,
    credential::{Auth, EndpointAuth, Location, Networking, Refresh},
    id::{CredentialId, VaultId},
    seam::Entropy,
};
use outlast_store::{SealedSecret, Secrets};

use super::{Custodian, Declined, Purpose};
use crate::{Brought, Content, Order, Use, Vault};

/// What no answer may have in it.
const CANARY: &str = "canary-of-the-custodian";

/// Runs the whole suite. The vault stands behind the custodian, or beside it under the same one master
/// key, which a setting gives; both are over that store, and both are unlocked.
///
/// # Panics
///
/// Where the implementation breaks the contract.
pub async fn run(custodian: &dyn Custodian, inside: &Vault, store: &dyn Secrets) {
    seals_what_is_brought(custodian, inside).await;
    keeps_what_is_not_brought(custodian, inside).await;
    follows_the_revision_before(custodian).await;
    sends_nothing_elsewhere(custodian).await;
    tells_ends(custodian).await;
    derives(custodian, inside);
    knows_what_is_gone(custodian).await;
    counts(custodian, store).await;
}

/// Entropy that repeats itself: ids of one kind differ by their moment.
#[derive(Debug)]
struct Ones;

impl Entropy for Ones {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(1);
    }
}

fn order(purpose: Use, brought: Brought) -> Order {
    Order {
        owner: CredentialId::mint(Micros(1_000_000), &Ones).to_string(),
        parent: VaultId::mint(Micros(1_000_000), &Ones).to_string(),
        revision: 1,
        purpose,
        brought,
        before: None,
    }
}

fn secret(text: &str) -> Option<crate::Secret> {
    Some(format!("{CANARY}-{text}").into())
}

fn variable(hosts: &[&str]) -> Use {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    Use::Credential(Auth::EnvironmentVariable {
        secret_name: "KEY".to_owned(),
        networking: Networking::Limited {
            allowed_hosts: hosts,
        },
        injection_location: Location {
            header: true,
            body: false,
        },
    })
}

fn oauth(endpoint: &str, expires_at: Option<Micros>) -> Use {
    Use::Credential(Auth::McpOauth {
        mcp_server_url: "https://mcp.example.com/".to_owned(),
        expires_at,
        refresh: Some(Refresh {
            client_id: "client".to_owned(),
            token_endpoint: endpoint.to_owned(),
            token_endpoint_auth: EndpointAuth::ClientSecretPost,
            resource: None,
            scope: None,
        }),
    })
}

fn all() -> Brought {
    Brought {
        main: secret("main"),
        refresh_token: secret("refresh"),
        client_secret: secret("client"),
    }
}

fn exposed(inside: &Vault, sealed: &SealedSecret) -> Vec<String> {
    let content = inside.open(sealed).unwrap();
    let secrets = content.secrets().into_iter();
    secrets.map(|one| one.expose().to_owned()).collect()
}

async fn seals_what_is_brought(custodian: &dyn Custodian, inside: &Vault) {
    let order = order(oauth("https://a.example/token", None), all());
    assert!(!format!("{order:?}").contains(CANARY));
    let sealed = custodian.secure(order.clone()).await.unwrap();
    assert_eq!((&sealed.owner, sealed.revision), (&order.owner, 1));
    let parts = ["main", "refresh", "client"].map(|part| format!("{CANARY}-{part}"));
    assert_eq!(exposed(inside, &sealed), parts);
    let bytes = String::from_utf8_lossy(&sealed.sealed).into_owned();
    assert!(!bytes.contains(CANARY));
    let repository = Use::Repository("https://git.example.com/a/b".to_owned());
    let token = Brought {
        main: secret("token"),
        ..Brought::default()
    };
    let sealed = custodian.secure(self::order(repository, token)).await;
    let content = inside.open(&sealed.unwrap()).unwrap();
    assert!(matches!(content, Content::Repository { url, .. } if url.ends_with("/a/b")));
}

async fn keeps_what_is_not_brought(custodian: &dyn Custodian, inside: &Vault) {
    let first = order(oauth("https://a.example/token", None), all());
    let before = custodian.secure(first.clone()).await.unwrap();
    let brought = Brought {
        main: secret("next"),
        ..Brought::default()
    };
    let next = Order {
        revision: 2,
        brought,
        before: Some(before),
        ..first
    };
    let sealed = custodian.secure(next).await.unwrap();
    assert_eq!(sealed.revision, 2);
    let parts = ["next", "refresh", "client"].map(|part| format!("{CANARY}-{part}"));
    assert_eq!(exposed(inside, &sealed), parts);
}

async fn follows_the_revision_before(custodian: &dyn Custodian) {
    let first = order(variable(&["a.example"]), all());
    let before = custodian.secure(first.clone()).await.unwrap();
    let next = |owner: &str, revision, before| Order {
        owner: owner.to_owned(),
        revision,
        before,
        brought: Brought::default(),
        ..first.clone()
    };
    for wrong in [
        next(&first.owner, 1, Some(before.clone())),
        next(&first.owner, 3, Some(before.clone())),
        next("vcrd_other", 2, Some(before.clone())),
        // Nothing is brought, and nothing is there.
        next(&first.owner, 1, None),
    ] {
        let declined = custodian.secure(wrong).await.unwrap_err();
        assert!(matches!(declined, Declined::Broken(_)), "{declined}");
        assert!(!declined.to_string().contains(CANARY));
    }
    let mut changed = before;
    if let Some(last) = changed.sealed.last_mut() {
        *last ^= 1;
    }
    let declined = custodian.secure(next(&first.owner, 2, Some(changed))).await;
    assert!(matches!(declined, Err(Declined::Broken(_))));
}

async fn sends_nothing_elsewhere(custodian: &dyn Custodian) {
    let first = order(oauth("https://a.example/token", None), all());
    let before = custodian.secure(first.clone()).await.unwrap();
    let bearer = Use::Credential(Auth::StaticBearer {
        mcp_server_url: "https://mcp.example.com/".to_owned(),
    });
    for purpose in [oauth("https://evil.example/token", None), bearer] {
        let next = Order {
            revision: 2,
            purpose,
            before: Some(before.clone()),
            ..first.clone()
        };
        let declined = custodian.secure(next).await.unwrap_err();
        assert!(matches!(declined, Declined::Broken(_)), "{declined}");
    }
}

async fn tells_ends(custodian: &dyn Custodian) {
    let end = Some(Micros(1_800_000_000_000_001));
    let sealed = custodian
        .secure(order(oauth("https://a.example/token", end), all()))
        .await
        .unwrap();
    assert_eq!(custodian.end_of(&sealed).await, Ok(end));
    let sealed = custodian
        .secure(order(variable(&["a.example"]), all()))
        .await
        .unwrap();
    assert!(custodian.end_of(&sealed).await.is_err());
}

fn derives(custodian: &dyn Custodian, inside: &Vault) {
    assert_eq!(custodian.trouble(), None);
    let key = custodian.derive(Purpose::Receipts).unwrap();
    assert_eq!(Some(&key), Vault::derive(inside, "receipts", b"").as_ref());
    let other = custodian.derive(Purpose::BrainTokens);
    assert_ne!(Some(&key), other.as_ref());
    assert_eq!(other, Vault::derive(inside, "brain tokens", b""));
}

async fn knows_what_is_gone(custodian: &dyn Custodian) {
    let id = CredentialId::mint(Micros(7_000_000), &Ones);
    let vault = VaultId::mint(Micros(7_000_000), &Ones);
    let tried = custodian.validate(vault, id).await;
    assert_eq!(tried.unwrap_err(), Declined::Gone(id));
}

async fn counts(custodian: &dyn Custodian, store: &dyn Secrets) {
    let before = custodian.holding().await.unwrap();
    let known = before.known.first().unwrap().clone();
    let count = |of: &crate::Holding| of.records.get(&known).copied().unwrap_or_default();
    let sealed = custodian
        .secure(order(variable(&["a.example"]), all()))
        .await
        .unwrap();
    assert!(store.replace_secret(sealed).await.unwrap());
    let after = custodian.holding().await.unwrap();
    assert_eq!(count(&after), count(&before) + 1);
    // A key that an operator sets is the operator's to change.
    let declined = custodian.turn().await.unwrap_err();
    assert!(matches!(declined, Declined::Invalid(_)), "{declined}");
}
