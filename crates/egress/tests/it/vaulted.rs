//! Credentials out of a vault: what a hand is given for them, and what the host gets.

use std::sync::Arc;

use outlast_egress::hand::{Bound, Credentials as _, Forwarder, Network as _, Vaulted};
use outlast_protocol::{
    Micros,
    credential::{Auth, Credential, Location, Networking as Hosts},
    environment::Networking,
    id::{CredentialId, VaultId},
    seam::Clock as _,
};
use outlast_session::json;
use outlast_store::{Resource, ResourceKind, Resources as _, Wards as _};
use outlast_testkit::{
    memory::Memory,
    random::Seeded,
    time::ManualClock,
    vault::{KEY, under},
};
use outlast_vault::{Content, Vault};
use serde_json::json;

use crate::{
    keys::{Public, SECRET, secure},
    scene::{Scene, attach, bound, limited},
    upstream::Host,
    wire::Wire,
};

/// A store with one vault of one variable, for `a.example` and in headers alone.
struct Shelf {
    clock: Arc<ManualClock>,
    entropy: Arc<Seeded>,
    store: Memory,
    vault: VaultId,
    credential: CredentialId,
}

impl Shelf {
    async fn new() -> Self {
        let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(Seeded::new(1)));
        let shelf = Self {
            store: Memory::new(clock.clone(), entropy.clone()),
            vault: VaultId::mint(clock.now(), &*entropy),
            credential: CredentialId::mint(clock.now(), &*entropy),
            clock,
            entropy,
        };
        shelf.fill().await;
        shelf
    }

    /// Begins to serve it, as every start of a server does.
    async fn open(&self) -> Vault {
        let store = Arc::new(self.store.clone());
        let vault = under(KEY, store, self.clock.clone(), self.entropy.clone()).await;
        vault.unlock().await;
        vault
    }

    async fn fill(&self) {
        let (id, owner) = (self.vault.to_string(), self.credential.to_string());
        let parent = object(ResourceKind::Vault, id.clone(), &json!({"id": id}));
        self.store.insert(parent, None).await.unwrap();
        let content = Content::EnvironmentVariable {
            name: "API_KEY".to_owned(),
            value: SECRET.into(),
            hosts: outlast_vault::Hosts::Limited(vec!["a.example".to_owned()]),
            header: true,
            body: false,
        };
        let sealed = self.open().await.seal(&owner, &id, 1, &content).unwrap();
        let credential = self.shown();
        let body = serde_json::to_value(&credential).unwrap();
        let object = Resource {
            parent: Some(id),
            unique_key: Some(credential.auth.key()),
            ..object(ResourceKind::Credential, owner, &body)
        };
        let inserted = self.store.insert_ward(object, sealed, 1_000, None);
        inserted.await.unwrap();
    }

    fn shown(&self) -> Credential {
        Credential {
            id: self.credential,
            archived_at: None,
            auth: Auth::EnvironmentVariable {
                secret_name: "API_KEY".to_owned(),
                networking: Hosts::Unrestricted,
                injection_location: Location {
                    header: true,
                    body: false,
                },
            },
            created_at: Micros(1),
            display_name: None,
            metadata: Default::default(),
            updated_at: Micros(1),
            vault_id: self.vault,
        }
    }

    /// Binds a hand of a session that uses the vault.
    fn bound(&self, number: u8, networking: Networking) -> Bound {
        Bound {
            vaults: vec![self.vault],
            ..bound(number, networking)
        }
    }
}

fn object(kind: ResourceKind, id: String, body: &serde_json::Value) -> Resource {
    Resource {
        kind,
        id,
        revision: 1,
        created_at: Micros(1),
        archived_at: None,
        body: json(body),
        parent: None,
        unique_key: None,
    }
}

/// Returns what a hand is given: its placeholder, and whom it trusts.
async fn dressed(forwarder: &Forwarder, bound: &Bound) -> (String, String) {
    let dress = forwarder.dress(bound).await.unwrap();
    let [(name, placeholder)] = dress.variables.as_slice() else {
        panic!("one variable: {:?}", dress.variables);
    };
    assert_eq!(name, "API_KEY");
    (placeholder.clone(), dress.authority.unwrap())
}

/// Returns what the host gets where a hand sends a text as a key, as the sum of its bytes.
/// It trusts the authority that it was given, whenever that was.
async fn sent(
    forwarder: &Forwarder,
    bound: Bound,
    authority: &str,
    host: &Host,
    key: &str,
) -> String {
    let proxy = attach(forwarder, bound).await;
    let at = format!("a.example:{}", host.port());
    let wire = Wire::tunnel(proxy, &at).await.unwrap();
    let mut wire = secure(wire, authority, "a.example").await.unwrap();
    let ask = format!("GET /sums HTTP/1.1\r\nHost: {at}\r\nX-Key: {key}\r\n\r\n");
    wire.ask(&ask).await.text().to_owned()
}

fn sum(text: &str) -> String {
    let sum = text.bytes().map(u64::from).sum::<u64>();
    format!("x-key {sum}\nbody 0\n")
}

#[tokio::test]
async fn a_placeholder_is_of_one_life_and_always_the_same() {
    let shelf = Shelf::new().await;
    let vault = shelf.open().await;
    let credentials = Vaulted::new(vault.clone());
    let [mut one, other] = [1, 2].map(|number| shelf.bound(number, Networking::Unrestricted));
    let shown = |held| format!("{held:?}");
    let first = credentials.of(&one).await.unwrap();
    let again = credentials.of(&one).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    assert!(shown(&first).contains("outlast_placeholder_") && !shown(&first).contains(SECRET));
    let elsewhere = credentials.of(&other).await.unwrap();
    assert_ne!(shown(&first), shown(&elsewhere));
    let seeds = [&one, &other].map(|bound| credentials.seed(bound.incarnation).unwrap());
    assert_ne!(seeds[0], seeds[1]);
    one.vaults.clear();
    assert!(credentials.of(&one).await.unwrap().is_empty());
}

#[tokio::test]
async fn another_sandboxs_placeholder_goes_out_as_it_is() {
    let shelf = Shelf::new().await;
    let public = Public::new();
    let credentials = Arc::new(Vaulted::new(shelf.open().await));
    let free = Networking::Unrestricted;
    let scene = Scene::with(free.clone(), public.options(), credentials).await;
    let host = Host::http(Some(public.host(&["a.example"]))).await;
    let [one, other] = [3, 4].map(|number| shelf.bound(number, free.clone()));
    let (placeholder, trusted) = dressed(&scene.forwarder, &one).await;
    let got = sent(&scene.forwarder, one, &trusted, &host, &placeholder).await;
    assert_eq!(got, sum(SECRET));
    let (_, trusted) = dressed(&scene.forwarder, &other).await;
    let got = sent(&scene.forwarder, other, &trusted, &host, &placeholder).await;
    assert_eq!(got, sum(&placeholder));
}

#[tokio::test]
async fn a_life_keeps_its_placeholder_and_its_authority_across_a_restart() {
    let shelf = Shelf::new().await;
    let public = Public::new();
    let host = Host::http(Some(public.host(&["a.example"]))).await;
    let life = shelf.bound(3, Networking::Unrestricted);
    let mut given = Vec::new();
    for _ in 0..2 {
        let credentials = Arc::new(Vaulted::new(shelf.open().await));
        let free = Networking::Unrestricted;
        let scene = Scene::with(free, public.options(), credentials).await;
        given.push(dressed(&scene.forwarder, &life).await);
        // What it was given when it was made.
        let (placeholder, trusted) = &given[0];
        let got = sent(&scene.forwarder, life.clone(), trusted, &host, placeholder).await;
        assert_eq!(got, sum(SECRET));
    }
    assert_eq!(given[0].0, given[1].0);
}

#[tokio::test]
async fn a_credential_whose_hosts_are_not_allowed_is_named_while_the_hand_is_served() {
    let shelf = Shelf::new().await;
    let credentials = Arc::new(Vaulted::new(shelf.open().await));
    let scene = Scene::with(limited(&[]), Public::new().options(), credentials).await;
    let unreachable = async |number, hosts: &[&str]| {
        let bound = shelf.bound(number, limited(hosts));
        let life = bound.incarnation;
        assert_eq!(scene.forwarder.unreachable(life).await, None);
        attach(&scene.forwarder, bound).await;
        scene.forwarder.unreachable(life).await.unwrap()
    };
    let named = unreachable(3, &["b.example"]).await;
    assert_eq!(
        (named[0].credential, named[0].vault),
        (shelf.credential, shelf.vault)
    );
    assert_eq!(named[0].hosts, ["a.example"]);
    assert_eq!(named.len(), 1);
    assert!(unreachable(4, &["*.example"]).await.is_empty());
    let life = scene.bound.incarnation;
    assert!(scene.forwarder.unreachable(life).await.unwrap().is_empty());
}
