//! TLS to hosts that a credential is for: checked as a browser checks.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::{sync::OnceCell, task::spawn_blocking};

/// What is spoken where TLS is opened.
pub(crate) const HTTP_1: &[u8] = b"http/1.1";

/// A file that vouches for nobody.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoAuthorities {
    /// It is no PEM.
    #[error("is no PEM: {0}")]
    Broken(String),
    /// There is none in it.
    #[error("has no certificate")]
    None,
}

/// Reads the certificates of a file in PEM.
///
/// # Errors
///
/// If there is none.
pub fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, NoAuthorities> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = read.map_err(|error| NoAuthorities::Broken(error.to_string()))?;
    if found.is_empty() {
        return Err(NoAuthorities::None);
    }
    Ok(found)
}

/// How hosts are spoken to; read when it is first needed.
#[derive(Debug)]
pub(crate) struct Trust {
    more: Vec<CertificateDer<'static>>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Trust {
    /// Trusts these authorities beside the machine's.
    pub(crate) fn new(more: Vec<CertificateDer<'static>>) -> Self {
        let config = OnceCell::new();
        Self { more, config }
    }

    /// Returns how hosts are spoken to.
    pub(crate) async fn config(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        let made = self.config.get_or_try_init(|| async {
            // Some hundred files are read.
            let found = spawn_blocking(rustls_native_certs::load_native_certs).await;
            let found = found.map(|found| found.certs).unwrap_or_default();
            let mut roots = RootCertStore::empty();
            let (_, broken) = roots.add_parsable_certificates(found);
            if broken > 0 {
                tracing::warn!(
                    broken,
                    "{broken} authorities of this machine cannot be read"
                );
            }
            roots.add_parsable_certificates(self.more.clone());
            config(roots).map(Arc::new)
        });
        made.await.cloned()
    }
}

fn config(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}
