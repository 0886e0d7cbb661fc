//! The authority of one life of a hand, which its programs trust for what is opened here.
//!
//! Its key follows from the master key and the life, so the hand of a life trusts it also after a restart
//! of the server; it is worth nothing to any other hand.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use aws_lc_rs::{
    agreement::{ECDH_P256, PrivateKey},
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use outlast_reach::Host;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, date_time_ymd,
};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

/// Certificates that are kept; a hand that asks for more names than these has them made again.
const KEPT: usize = 512;

/// The authority of one life.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    /// The key of all certificates: it never leaves this process either.
    leaf: KeyPair,
    made: Mutex<HashMap<Host, Arc<ServerConfig>>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

/// No authority, or no certificate of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unmade {
    /// The seed is no key of the curve, which one of four billions is not.
    #[error("the key of a hand's authority cannot be derived")]
    Key,
    /// A certificate cannot be made.
    #[error("a certificate cannot be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// It cannot be used.
    #[error("a certificate cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

impl Authority {
    /// Makes the authority of a life from what follows from the master key.
    pub(crate) fn new(seed: &[u8; 32], life: &str) -> Result<Self, Unmade> {
        let key = key(seed)?;
        let params = authority(life);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
            leaf: KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
            made: Mutex::default(),
        })
    }

    /// Returns its certificate.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns what TLS is served with in the place of a host.
    pub(crate) fn serving(&self, host: &Host) -> Result<Arc<ServerConfig>, Unmade> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = made.get(host) {
            return Ok(config.clone());
        }
        let config = Arc::new(self.make(host)?);
        if made.len() >= KEPT {
            made.clear();
        }
        made.insert(host.clone(), config.clone());
        Ok(config)
    }

    fn make(&self, host: &Host) -> Result<ServerConfig, Unmade> {
        let certificate = leaf(host)?.signed_by(&self.leaf, &self.issuer)?;
        let key = PrivatePkcs8KeyDer::from(self.leaf.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::from(key))?;
        config.alpn_protocols = vec![super::tls::HTTP_1.to_vec()];
        Ok(config)
    }
}

/// Reads the seed as a private key of P-256.
fn key(seed: &[u8; 32]) -> Result<KeyPair, Unmade> {
    let private = PrivateKey::from_private_key(&ECDH_P256, seed).map_err(|_| Unmade::Key)?;
    let public = private.compute_public_key().map_err(|_| Unmade::Key)?;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        seed,
        public.as_ref(),
    );
    let document = pair.map_err(|_| Unmade::Key)?.to_pkcs8v1();
    let document = document.map_err(|_| Unmade::Key)?;
    let der = PrivatePkcs8KeyDer::from(document.as_ref());
    Ok(KeyPair::from_pkcs8_der_and_sign_algo(
        &der,
        &PKCS_ECDSA_P256_SHA256,
    )?)
}

/// What never expires by itself: keys end with their hand, and clocks are set.
fn lasting() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn authority(life: &str) -> CertificateParams {
    let mut params = lasting();
    params.distinguished_name = named(&format!("Outlast egress of {life}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf(host: &Host) -> Result<CertificateParams, rcgen::Error> {
    let mut params = lasting();
    params.subject_alt_names = vec![match host {
        Host::Address(address) => SanType::IpAddress(IpAddr::to_canonical(address)),
        Host::Name(name) => SanType::DnsName(name.as_str().try_into()?),
    }];
    // A common name has 64 letters at most.
    let common: String = host.to_string().chars().take(64).collect();
    params.distinguished_name = named(&common);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_follows_from_the_seed() {
        let public = |seed| key(&[seed; 32]).unwrap().public_key_raw().to_vec();
        assert_eq!(public(1), public(1));
        assert_ne!(public(1), public(2));
        assert!(matches!(key(&[0; 32]), Err(Unmade::Key)));
        assert!(matches!(key(&[255; 32]), Err(Unmade::Key)));
    }

    #[test]
    fn certificates_are_made_once_for_each_host() {
        let authority = Authority::new(&[1; 32], "hand_x").unwrap();
        assert!(authority.pem().starts_with("-----BEGIN CERTIFICATE-----"));
        let one = authority.serving(&"a.example".parse().unwrap()).unwrap();
        let same = authority.serving(&"A.example.".parse().unwrap()).unwrap();
        let other = authority.serving(&"127.0.0.1".parse().unwrap()).unwrap();
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        assert_eq!(one.alpn_protocols, [b"http/1.1"]);
        let long = format!("{}.example", "a".repeat(63));
        assert!(authority.serving(&long.parse().unwrap()).is_ok());
    }
}
