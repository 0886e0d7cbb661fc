//! What begins a tunnel: TLS and to whom, or something else.

use std::io;

use outlast_reach::Host;
use rustls::server::Acceptor;
use tokio::io::AsyncRead;

use super::stream::Rewind;

/// The largest beginning that is waited for; a `ClientHello` with post-quantum keys has two KiB.
const LARGEST: usize = 64 << 10;

/// The byte that a TLS handshake begins with.
const HANDSHAKE: u8 = 0x16;

/// The fatal alert `unrecognized_name`, as a record of TLS 1.2, which every client reads.
pub(crate) const UNRECOGNIZED: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x70];

/// How a tunnel begins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Start {
    /// With TLS, to that name.
    Tls(Option<String>),
    /// With something that looked like TLS and is none that is known.
    Broken,
    /// With something else.
    Other,
    /// With nothing: the client closed.
    Nothing,
}

/// Looks at the beginning, at least one byte of which may be there already.
///
/// # Errors
///
/// If the client cannot be read.
pub(crate) async fn look<S: AsyncRead + Unpin>(client: &mut Rewind<S>) -> io::Result<Start> {
    if client.seen().is_empty() && client.look().await? == 0 {
        return Ok(Start::Nothing);
    }
    if client.seen().first() != Some(&HANDSHAKE) {
        return Ok(Start::Other);
    }
    // What was read once is not read again: a client that sends byte by byte costs no more than its bytes.
    let (mut acceptor, mut read) = (Acceptor::default(), 0);
    loop {
        let new = client.seen().get(read..).unwrap_or_default();
        read += new.len();
        match hello(&mut acceptor, new) {
            Ok(Some(name)) => return Ok(Start::Tls(name)),
            Ok(None) if read < LARGEST => {
                if client.look().await? == 0 {
                    return Ok(Start::Broken);
                }
            }
            Ok(None) | Err(_) => return Ok(Start::Broken),
        }
    }
}

/// Reads on to the name that a `ClientHello` asks for; none yet if it is not all there.
fn hello(
    acceptor: &mut Acceptor,
    mut bytes: &[u8],
) -> Result<Option<Option<String>>, rustls::Error> {
    while !bytes.is_empty() {
        let read = acceptor.read_tls(&mut bytes);
        read.map_err(|error| rustls::Error::General(error.to_string()))?;
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Ok(Some(name));
            }
            Ok(None) => {}
            Err((error, _)) => return Err(error),
        }
    }
    Ok(None)
}

/// Tells whether a name that TLS asks for is the host that the tunnel leads to.
///
/// For an address there is none to ask for.
pub(crate) fn is_for(name: Option<&str>, host: &Host) -> bool {
    match (name, host) {
        (Some(name), Host::Name(_)) => name.parse::<Host>().as_ref() == Ok(host),
        (None, Host::Address(_)) => true,
        (None, Host::Name(_)) | (Some(_), Host::Address(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    fn first_bytes(name: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = name.to_owned().try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    async fn start(bytes: &[u8]) -> Start {
        look(&mut Rewind::new(Bytes::new(), bytes)).await.unwrap()
    }

    #[tokio::test]
    async fn the_name_is_read_and_nothing_is_lost() {
        let bytes = first_bytes("a.example");
        let mut client = Rewind::new(Bytes::copy_from_slice(&bytes[..1]), &bytes[1..]);
        let start = look(&mut client).await.unwrap();
        assert_eq!(start, Start::Tls(Some("a.example".to_owned())));
        assert_eq!(client.seen(), bytes);
        assert_eq!(start_of("127.0.0.1").await, Start::Tls(None));
    }

    async fn start_of(name: &str) -> Start {
        start(&first_bytes(name)).await
    }

    #[tokio::test]
    async fn what_is_no_tls_is_told_apart() {
        assert_eq!(start(b"GET / HTTP/1.1\r\n\r\n").await, Start::Other);
        assert_eq!(start(b"").await, Start::Nothing);
        assert_eq!(start(b"\x16\x03\x01\x00\x05hello").await, Start::Broken);
        let bytes = first_bytes("a.example");
        assert_eq!(start(&bytes[..bytes.len() - 1]).await, Start::Broken);
    }

    #[test]
    fn the_name_has_to_be_the_host() {
        let is = |name, host: &str| is_for(name, &host.parse().unwrap());
        assert!(is(Some("A.example"), "a.example"));
        assert!(is(None, "1.2.3.4"));
        assert!(!is(Some("b.example"), "a.example"));
        assert!(!is(None, "a.example"));
        assert!(!is(Some("a.example"), "1.2.3.4"));
    }
}
