//! The way to the database: encrypted or not, and to whom, as its URL says.

use std::{fs, path::PathBuf, process::Command};

use outlast_store::Resources as _;
use outlast_testkit::postgres::Syncs;
use tempfile::TempDir;

use super::kit::Kit;

/// Makes a key of a curve that everybody takes.
const KEY: [&str; 6] = [
    "req",
    "-nodes",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
];

/// Certificates of a test's own: two issuers, and what `ours` issues.
struct Papers(TempDir);

impl Papers {
    fn new() -> Self {
        let own = Self(tempfile::tempdir().unwrap());
        for name in ["ours", "theirs"] {
            let words = format!(
                "-x509 -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt \
                 -addext basicConstraints=critical,CA:TRUE"
            );
            own.openssl(KEY.into_iter().chain(words.split_whitespace()));
        }
        own
    }

    fn openssl<'a>(&self, words: impl Iterator<Item = &'a str>) {
        let mut openssl = Command::new("openssl");
        let said = openssl.args(words).current_dir(self.0.path()).output();
        let said = said.unwrap();
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "openssl: {error}");
    }

    /// Issues a certificate for some names that lasts so many days; returns it with its key.
    fn issue(&self, names: &str, days: i32) -> (String, String) {
        let asks = "-new -subj /CN=database -keyout server.key -out server.csr";
        self.openssl(KEY.into_iter().chain(asks.split_whitespace()));
        fs::write(self.path("names"), format!("subjectAltName={names}\n")).unwrap();
        let issues = format!(
            "x509 -req -in server.csr -CA ours.crt -CAkey ours.key -CAcreateserial -days {days} \
             -extfile names -out server.crt"
        );
        self.openssl(issues.split_whitespace());
        self.shown()
    }

    /// Makes a certificate that nobody issued, as the database's own manual has it.
    fn make(&self, names: &str) -> (String, String) {
        let words = format!(
            "-new -x509 -days 2 -subj /CN=db.example -keyout server.key -out server.crt \
             -addext subjectAltName={names}"
        );
        self.openssl(KEY.into_iter().chain(words.split_whitespace()));
        self.shown()
    }

    fn shown(&self) -> (String, String) {
        let read = |name: &str| fs::read_to_string(self.path(name)).unwrap();
        (read("server.crt"), read("server.key"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes what stands behind `?`.
    fn query(&self, mode: &str) -> String {
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        mode.replace("OURS", &path("ours.crt"))
            .replace("THEIRS", &path("theirs.crt"))
            .replace("ITSELF", &path("server.crt"))
    }
}

/// A server on loopback, and who goes there.
struct Way {
    kit: Kit,
    papers: Papers,
    port: u16,
}

impl Way {
    fn new() -> Self {
        let (kit, papers) = (Kit::start(Syncs::None), Papers::new());
        let port = 0;
        Self { kit, papers, port }
    }

    /// Has the server show a certificate.
    fn show(&mut self, (certificate, key): (String, String)) {
        self.port = self.kit.cluster.listen(Some((&certificate, &key)));
    }

    /// Goes to a host; tells whether the way was encrypted, or what was said instead.
    async fn to(&self, host: &str, mode: &str) -> Result<bool, String> {
        let (port, query) = (self.port, self.papers.query(mode));
        let url = format!("postgres://postgres:geheim@{host}:{port}/postgres?{query}");
        let opened = self.kit.at(&url, "node").await;
        let store = opened.map_err(|error| {
            let words = error.to_string();
            assert!(!words.contains("geheim"), "{words}");
            words
        })?;
        store.probe().await.unwrap();
        let text = "SELECT string_agg(DISTINCT ssl::text, ' ') FROM pg_stat_ssl \
                    JOIN pg_stat_activity USING (pid) WHERE application_name = 'outlast'";
        let seen = self.kit.cluster.tell(text).unwrap();
        store.close().await;
        assert!(
            seen == "true" || seen == "false",
            "one of them is not: {seen}"
        );
        Ok(seen == "true")
    }

    async fn is_refused(&self, host: &str, mode: &str, words: &str) {
        let refused = self.to(host, mode).await.unwrap_err();
        assert!(refused.contains(words), "{mode} to {host}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_believed_as_far_as_its_url_says() {
    let mut way = Way::new();
    way.show(way.papers.issue("DNS:localhost,IP:127.0.0.1", 2));
    for host in ["localhost", "127.0.0.1"] {
        for mode in ["verify-full", "verify-ca", "require"] {
            let mode = format!("sslmode={mode}&sslrootcert=OURS");
            assert_eq!(way.to(host, &mode).await, Ok(true), "{mode} to {host}");
        }
    }
    for (mode, encrypted) in [
        ("sslmode=require", true),
        ("sslmode=prefer", true),
        ("", true),
        ("sslmode=disable", false),
    ] {
        assert_eq!(way.to("127.0.0.1", mode).await, Ok(encrypted), "{mode}");
    }
    let stranger = "nobody that is trusted issued the database's certificate";
    for mode in [
        "sslmode=verify-full&sslrootcert=THEIRS",
        "sslmode=verify-ca&sslrootcert=THEIRS",
        "sslmode=require&sslrootcert=THEIRS",
        // What this machine trusts does not have it either.
        "sslmode=verify-full",
    ] {
        way.is_refused("127.0.0.1", mode, stranger).await;
    }
    others(&mut way).await;
    by_itself(&mut way).await;

    way.port = way.kit.cluster.listen(None);
    assert_eq!(way.to("127.0.0.1", "sslmode=prefer").await, Ok(false));
    let plain = "server does not support TLS";
    way.is_refused("127.0.0.1", "sslmode=require", plain).await;
    way.is_refused("127.0.0.1", "sslmode=verify-full", plain)
        .await;
}

/// A certificate of a good issuer for another host, and one whose time is over.
async fn others(way: &mut Way) {
    let (full, issuer) = (
        "sslmode=verify-full&sslrootcert=OURS",
        "sslmode=verify-ca&sslrootcert=OURS",
    );
    way.show(way.papers.issue("DNS:db.example", 2));
    let other = "the database's certificate is for `db.example`, not for `127.0.0.1`";
    way.is_refused("127.0.0.1", full, other).await;
    assert_eq!(way.to("127.0.0.1", issuer).await, Ok(true));

    way.show(way.papers.issue("IP:127.0.0.1", -1));
    let expired = "the database's certificate has expired";
    way.is_refused("127.0.0.1", full, expired).await;
    way.is_refused("127.0.0.1", issuer, expired).await;
    assert_eq!(way.to("127.0.0.1", "sslmode=require").await, Ok(true));
}

/// A certificate that the server made itself is trusted by being named, and for its own host alone.
async fn by_itself(way: &mut Way) {
    way.show(way.papers.make("IP:127.0.0.1"));
    let full = "sslmode=verify-full&sslrootcert=ITSELF";
    assert_eq!(way.to("127.0.0.1", full).await, Ok(true));
    let other = "is for `127.0.0.1`, not for `localhost`";
    way.is_refused("localhost", full, other).await;
    let issuer = "sslmode=verify-ca&sslrootcert=ITSELF";
    assert_eq!(way.to("localhost", issuer).await, Ok(true));
    let stranger = "nobody that is trusted";
    let theirs = "sslmode=verify-ca&sslrootcert=THEIRS";
    way.is_refused("127.0.0.1", theirs, stranger).await;
}
