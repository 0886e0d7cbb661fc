//! Where a server is found: by this machine's command line, and by itself if a mistake leads there.

use std::{
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
};

use reqwest::Url;

/// Name of the file that tells this machine's command line where the server is.
const FILE: &str = "local.url";

/// Returns where a client on this machine finds what listens on `address`.
pub(crate) fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

/// Leaves a note where this server is; without it the command line tries the configured address.
///
/// Whole or not at all: whoever waits for the file reads it at once.
pub(super) fn tell(dir: &Path, address: SocketAddr) {
    let aside = note(dir).with_extension("url.new");
    let written = fs::write(&aside, url(address)).and_then(|()| fs::rename(&aside, note(dir)));
    if let Err(error) = written {
        tracing::warn!(%error, "cannot note the server's address for the command line: {error}");
    }
}

/// Removes the note, if it is still this server's.
pub(super) fn forget(dir: &Path, address: SocketAddr) {
    if told(dir).as_deref() == Some(&url(address)) {
        // If it stays, whoever follows it finds nobody.
        drop(fs::remove_file(note(dir)));
    }
}

/// Returns where the last server of a data directory was found.
pub(crate) fn told(dir: &Path) -> Option<String> {
    let text = fs::read_to_string(note(dir)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn note(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Tells whether requests to `url` would come to what listens on `own`.
///
/// A name that cannot be resolved now leads nowhere now.
pub(super) async fn leads_to(url: &str, own: SocketAddr) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return false;
    };
    if port != own.port() {
        return false;
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::net::lookup_host((host, port)).await {
        Ok(mut found) => found.any(|address| is_own(address.ip(), own.ip())),
        Err(_) => false,
    }
}

/// Tells whether a listener on `own` takes connections to `ip`.
fn is_own(ip: IpAddr, own: IpAddr) -> bool {
    let ip = ip.to_canonical();
    // A connection to the unspecified address is one to this machine.
    ip == own || ip.is_unspecified() || (own.is_unspecified() && is_local(ip))
}

/// Tells whether an address is one of this machine's: nothing else can be bound.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_knows_itself_in_every_guise() {
        for (url, own, expected) in [
            ("http://127.0.0.1:4747", "127.0.0.1:4747", true),
            ("http://127.0.0.1:4747/v1", "127.0.0.1:4747", true),
            ("http://localhost:4747", "127.0.0.1:4747", true),
            ("http://127.0.0.1:4748", "127.0.0.1:4747", false),
            ("http://127.0.0.2:4747", "127.0.0.1:4747", false),
            ("http://127.0.0.2:4747", "0.0.0.0:4747", true),
            ("http://0.0.0.0:4747", "127.0.0.1:4747", true),
            ("http://[::ffff:127.0.0.1]:4747", "127.0.0.1:4747", true),
            ("http://192.0.2.1:4747", "0.0.0.0:4747", false),
            ("http://127.0.0.1", "127.0.0.1:80", true),
            ("nonsense", "127.0.0.1:80", false),
        ] {
            assert_eq!(
                leads_to(url, own.parse().unwrap()).await,
                expected,
                "{url} {own}"
            );
        }
    }

    #[test]
    fn a_note_is_whole_whenever_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        tell(dir.path(), address);
        std::thread::scope(|scope| {
            let telling = scope.spawn(|| (0..2_000).for_each(|_| tell(dir.path(), address)));
            while !telling.is_finished() {
                assert_eq!(fs::read_to_string(note(dir.path())).unwrap(), url(address));
            }
        });
    }

    #[test]
    fn a_note_is_removed_by_its_author_only() {
        let dir = tempfile::tempdir().unwrap();
        let (mine, other) = ("127.0.0.1:1".parse().unwrap(), "0.0.0.0:2".parse().unwrap());
        tell(dir.path(), mine);
        forget(dir.path(), other);
        assert_eq!(told(dir.path()).as_deref(), Some("http://127.0.0.1:1"));
        tell(dir.path(), other);
        assert_eq!(told(dir.path()).as_deref(), Some("http://127.0.0.1:2"));
        forget(dir.path(), other);
        assert_eq!(told(dir.path()), None);
    }
}
