//! Credentials and certificates of tests, each made anew.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use outlast_egress::hand::{Bound, Credentials, Held, Hosts, Options, Unreadable, Way};
use outlast_protocol::id::IncarnationId;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use zeroize::Zeroizing;

use crate::{scene::open, wire::Wire};

pub(crate) const PLACEHOLDER: &str = "outlast_placeholder_0123456789abcdef0123456789abcdef";
pub(crate) const SECRET: &str = "s3cret-Value/with+signs=9";

/// Credentials that a test sets.
#[derive(Debug)]
pub(crate) struct Set(Mutex<Result<Arc<[Held]>, Unreadable>>);

impl Set {
    pub(crate) fn new(held: Vec<Held>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Ok(held.into()))))
    }

    pub(crate) fn set(&self, held: Vec<Held>) {
        *self.0.lock().unwrap() = Ok(held.into());
    }

    pub(crate) fn fail(&self) {
        *self.0.lock().unwrap() = Err(Unreadable("the vault is away".to_owned()));
    }
}

#[async_trait]
impl Credentials for Set {
    async fn of(&self, _bound: &Bound) -> Result<Arc<[Held]>, Unreadable> {
        self.0.lock().unwrap().clone()
    }

    fn seed(&self, _life: IncarnationId) -> Option<Zeroizing<[u8; 32]>> {
        Some(Zeroizing::new([7; 32]))
    }
}

/// A credential for those hosts.
pub(crate) fn held(secret: &str, hosts: &[&str], header: bool, body: bool) -> Held {
    Held {
        credential: "vcrd_1".to_owned(),
        vault: None,
        hosts: Hosts::These(hosts.iter().map(|host| host.parse().unwrap()).collect()),
        way: Way::Swap {
            variable: "API_KEY".to_owned(),
            placeholder: PLACEHOLDER.to_owned(),
            secret: secret.into(),
            header,
            body,
        },
    }
}

/// Who vouches for the hosts of tests.
pub(crate) struct Public {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pub(crate) pem: String,
}

impl Public {
    pub(crate) fn new() -> Self {
        Self::named("tests")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Options that trust it.
    pub(crate) fn options(&self) -> Options {
        Options {
            authorities: vec![self.certificate.clone()],
            ..open()
        }
    }

    /// Returns what a host with those names serves TLS with.
    pub(crate) fn host(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.host_until(names, 2040)
    }

    pub(crate) fn host_until(&self, names: &[&str], year: i32) -> Arc<ServerConfig> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Speaks TLS over a tunnel, and trusts that authority alone.
pub(crate) async fn secure(
    wire: Wire,
    authority: &str,
    name: &str,
) -> std::io::Result<Wire<TlsStream<TcpStream>>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = name.to_owned().try_into().unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, wire.stream).await.map(Wire::over)
}
