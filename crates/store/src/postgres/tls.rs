//! Encryption on the way to the database, and what of its certificate is checked.

use std::{path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};

use super::url::UrlError;

/// What of the certificate is checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Check {
    /// Nothing: the way is encrypted, and nobody knows to whom.
    Nothing,
    /// That somebody trusted issued it.
    Issuer,
    /// That, and that it is for the host that was asked for.
    All,
}

/// Makes what encrypts; `root` replaces the certificates that this machine trusts.
pub(super) fn client(check: &Check, root: Option<&Path>) -> Result<Arc<ClientConfig>, UrlError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let failed = |error: Error| UrlError::Certificates(error.to_string());
    let named = root.map_or(Ok(Vec::new()), named)?;
    let inner = match check {
        Check::Nothing => None,
        Check::Issuer | Check::All => {
            let roots = Arc::new(roots(root, &named)?);
            let built =
                WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
            Some(built.map_err(|error| UrlError::Certificates(error.to_string()))?)
        }
    };
    let verifier = Verifier {
        inner,
        named,
        name: *check == Check::All,
        provider: provider.clone(),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Reads the certificates of a file.
fn named(path: &Path) -> Result<Vec<CertificateDer<'static>>, UrlError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|error| UrlError::Certificates(format!("`{}`: {error}", path.display())))
}

/// Returns whom to trust: those that are named, else those that this machine trusts.
fn roots(
    file: Option<&Path>,
    named: &[CertificateDer<'static>],
) -> Result<RootCertStore, UrlError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            for one in named {
                roots.add(one.clone()).map_err(|error| {
                    UrlError::Certificates(format!("`{}`: {error}", path.display()))
                })?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        let words = "there is none that could be trusted".to_owned();
        return Err(UrlError::Certificates(words));
    }
    Ok(roots)
}

/// Checks as much of a certificate as it was told to.
#[derive(Debug)]
struct Verifier {
    inner: Option<Arc<WebPkiServerVerifier>>,
    /// What `sslrootcert` holds: a server that made its certificate itself shows one of these.
    named: Vec<CertificateDer<'static>>,
    name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        match inner.verify_server_cert(end, between, name, ocsp, now) {
            // The name is looked at last, when everything else was found to be good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.name => Ok(ServerCertVerified::assertion()),
            // The library takes no issuer for a server, and has looked at its dates before that: whose
            // certificate is its own has to be named.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) => {
                if !self.named.iter().any(|one| one == end) {
                    return Err(CertificateError::UnknownIssuer.into());
                }
                if self.name {
                    verify_server_name(&ParsedCertificate::try_from(end)?, name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
