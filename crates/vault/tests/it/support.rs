//! A store in memory, vaults over it as if each were of another server, and credentials.

use std::{path::PathBuf, sync::Arc, time::Duration};

use outlast_protocol::{
    Micros, Secret,
    credential::{Auth, Credential, Location, Networking},
    id::{CredentialId, VaultId},
    seam::Clock as _,
};
use outlast_reach::{Dialer, Rule, System};
use outlast_session::json;
use outlast_store::{Resource, ResourceKind, Resources as _, Secrets as _, Store, Wards as _};
use outlast_testkit::{memory::Memory, random::Seeded, time::ManualClock};
use outlast_vault::{
    ClientAuth, Content, Hosts, Parts, Refresh, Vault,
    keyring::{Source, Sources},
};
use serde_json::json;

pub(crate) const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
pub(crate) const OTHER: &str = "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A store, and what vaults share besides.
pub(crate) struct World {
    pub(crate) store: Memory,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) entropy: Arc<Seeded>,
}

impl World {
    pub(crate) fn new() -> Self {
        let (clock, entropy) = (Arc::new(ManualClock::default()), Arc::new(Seeded::new(1)));
        Self {
            store: Memory::new(clock.clone(), entropy.clone()),
            clock,
            entropy,
        }
    }

    /// Returns the vault of another server on the same store.
    pub(crate) async fn vault(&self) -> Vault {
        self.vault_of(Source::Set(ONE.into()), &["127.0.0.0/8"])
            .await
    }

    pub(crate) async fn vault_of(&self, source: Source, open: &[&str]) -> Vault {
        let vault = self.locked(source, open).await;
        vault.unlock().await;
        vault
    }

    pub(crate) async fn locked(&self, source: Source, open: &[&str]) -> Vault {
        Vault::new(self.parts(source, open).await)
    }

    /// Returns a vault that believes whoever asks, or does not.
    pub(crate) async fn wary_vault(&self, wary: bool) -> Vault {
        let parts = self.parts(Source::Set(ONE.into()), &[]).await;
        let vault = Vault::new(Parts { wary, ..parts });
        vault.unlock().await;
        vault
    }

    /// Returns a vault that does not believe whoever asks.
    pub(crate) async fn wary_vault_of(&self, source: Source) -> Vault {
        let parts = self.parts(source, &[]).await;
        let vault = Vault::new(Parts {
            wary: true,
            ..parts
        });
        vault.unlock().await;
        vault
    }

    async fn parts(&self, source: Source, open: &[&str]) -> Parts {
        let rule = Rule::new(open).unwrap();
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        Parts {
            records: store.into(),
            alone: true,
            ring: Arc::new(Sources::open(source, self.entropy.clone()).await),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            dialer: Dialer::new(rule, Arc::new(System), Duration::from_secs(5)),
            authorities: Vec::new(),
            wary: false,
        }
    }

    pub(crate) fn now(&self) -> Micros {
        self.clock.now()
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Makes a vault.
    pub(crate) async fn family(&self) -> VaultId {
        self.pass(1);
        let id = VaultId::mint(self.now(), &*self.entropy);
        let object = self.object(ResourceKind::Vault, id.to_string(), &json!({"id": id}));
        self.store.insert(object, None).await.unwrap();
        id
    }

    fn object(&self, kind: ResourceKind, id: String, body: &serde_json::Value) -> Resource {
        Resource {
            kind,
            id,
            revision: 1,
            created_at: self.now(),
            archived_at: None,
            body: json(body),
            parent: None,
            unique_key: None,
        }
    }

    /// Adds a credential.
    pub(crate) async fn credential(
        &self,
        vault: &Vault,
        parent: VaultId,
        content: &Content,
    ) -> CredentialId {
        self.pass(1);
        let id = CredentialId::mint(self.now(), &*self.entropy);
        let credential = Credential {
            id,
            archived_at: None,
            auth: auth(content),
            created_at: self.now(),
            display_name: None,
            metadata: Default::default(),
            updated_at: self.now(),
            vault_id: parent,
        };
        let body = serde_json::to_value(&credential).unwrap();
        let object = Resource {
            parent: Some(parent.to_string()),
            unique_key: Some(credential.auth.key()),
            ..self.object(ResourceKind::Credential, id.to_string(), &body)
        };
        let sealed = vault.seal(&id.to_string(), &parent.to_string(), 1, content);
        let inserted = self.store.insert_ward(object, sealed.unwrap(), 1_000, None);
        inserted.await.unwrap();
        id
    }

    /// Returns what is sealed of a credential, and at which revision.
    pub(crate) async fn content(&self, vault: &Vault, id: CredentialId) -> (Content, u64) {
        let sealed = self.store.secret(&id.to_string()).await.unwrap().unwrap();
        (vault.open(&sealed).unwrap(), sealed.revision)
    }

    /// Changes what is sealed, as an update does.
    pub(crate) async fn change(&self, vault: &Vault, id: CredentialId, content: &Content) {
        let sealed = self.store.secret(&id.to_string()).await.unwrap().unwrap();
        let new = vault.seal(&sealed.owner, &sealed.parent, sealed.revision + 1, content);
        assert!(self.store.replace_secret(new.unwrap()).await.unwrap());
    }
}

/// Writes a file of master keys.
pub(crate) fn file(dir: &tempfile::TempDir, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.path().join("kept");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Returns what is shown of a content: what counts here is its kind and its key.
fn auth(content: &Content) -> Auth {
    match content {
        Content::StaticBearer { url, .. } => Auth::StaticBearer {
            mcp_server_url: url.clone(),
        },
        Content::McpOauth {
            url, expires_at, ..
        } => Auth::McpOauth {
            mcp_server_url: url.clone(),
            expires_at: *expires_at,
            refresh: None,
        },
        Content::EnvironmentVariable { name, .. } => Auth::EnvironmentVariable {
            secret_name: name.clone(),
            networking: Networking::Unrestricted,
            injection_location: Location {
                header: true,
                body: true,
            },
        },
        Content::Repository { .. } => panic!("no credential of a vault"),
    }
}

pub(crate) fn bearer(url: &str, token: &str) -> Content {
    Content::StaticBearer {
        url: url.to_owned(),
        token: token.into(),
    }
}

pub(crate) fn variable(name: &str, value: &str) -> Content {
    Content::EnvironmentVariable {
        name: name.to_owned(),
        value: value.into(),
        hosts: Hosts::Limited(vec!["api.example.com".to_owned()]),
        header: true,
        body: false,
    }
}

/// Returns an OAuth credential that is refreshed at `endpoint`.
pub(crate) fn oauth(url: &str, endpoint: &str, expires_at: Option<Micros>) -> Content {
    Content::McpOauth {
        url: url.to_owned(),
        access_token: "access-token-0".into(),
        expires_at,
        refresh: Some(Refresh {
            token_endpoint: endpoint.to_owned(),
            client_id: "client:1".to_owned(),
            refresh_token: "refresh-token-0".into(),
            auth: ClientAuth::Basic("client secret/1".into()),
            resource: Some("https://mcp.example.com/mcp".to_owned()),
            scope: Some("read write".to_owned()),
        }),
    }
}

/// Returns the refresh token of an OAuth content.
pub(crate) fn refresh_token(content: &Content) -> &str {
    exposed(content)[1]
}

pub(crate) fn exposed(content: &Content) -> Vec<&str> {
    content.secrets().into_iter().map(Secret::expose).collect()
}
