//! A host over TLS on loopback, at an address that programs do not take for their own machine.

use std::{convert::Infallible, net::SocketAddr, path::Path, sync::Arc};

use axum::{Router, body::Body, extract::Request};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Where it listens.
const PLACE: &str = "127.0.0.2";

/// Serves a router over TLS; who vouches for it is written to a file.
pub(crate) async fn serve(router: Router, authorities: &Path) -> SocketAddr {
    let (address, pem) = serve_at(PLACE, router).await;
    std::fs::write(authorities, pem).unwrap();
    address
}

/// Serves a router over TLS at an address; returns who vouches for it too.
pub(crate) async fn serve_at(place: &str, router: Router) -> (SocketAddr, String) {
    let (config, pem) = identity(place);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((place, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service =
                    tower::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                        let answered = tower::ServiceExt::oneshot(router.clone(), body(request));
                        async move {
                            Ok::<_, Infallible>(
                                answered.await.unwrap_or_else(|never| match never {}),
                            )
                        }
                    });
                let service = TowerToHyperService::new(service);
                let served = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                drop(served.await);
            });
        }
    });
    (address, pem)
}

fn body(request: hyper::Request<hyper::body::Incoming>) -> Request {
    request.map(Body::new)
}

/// Makes an authority and what the host proves itself with.
fn identity(place: &str) -> (ServerConfig, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(vec![place.to_owned()]).unwrap();
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    (config.unwrap(), authority.pem())
}
