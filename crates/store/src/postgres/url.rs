//! How the database is reached: what its URL says, and what of that can be kept.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio_postgres::{Config, config::SslMode};

use super::tls::{self, Check};

/// The longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a peer may leave bytes unacknowledged, and how long one is left alone unasked.
const SILENCE: Duration = Duration::from_secs(10);

/// Where the database is, and how its word is checked.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) tls: tokio_postgres_rustls::MakeRustlsConnect,
}

/// Why a URL cannot be used; it never holds the password.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It cannot be read.
    #[error("the database's URL cannot be read: {0}")]
    Malformed(String),
    /// It asks for something that cannot be kept.
    #[error("the database's URL asks for `{0}`, which is not supported")]
    Unsupported(String),
    /// The certificates to trust cannot be read.
    #[error("the certificates that the database's URL names cannot be used: {0}")]
    Certificates(String),
}

/// What is set in a URL behind `?` that the driver does not know.
#[derive(Default)]
struct Own {
    mode: Option<String>,
    root: Option<PathBuf>,
}

impl Target {
    /// Reads a URL: `postgres://user:password@host:port/database?sslmode=...`.
    pub(super) fn parse(url: &str) -> Result<Self, UrlError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            let words = "it must begin with `postgres://`".to_owned();
            return Err(UrlError::Malformed(words));
        }
        let (rest, own) = split(url)?;
        let parsed: Result<Config, _> = rest.parse();
        // The driver's words name the key that it does not understand, never a value.
        let mut config = parsed.map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            UrlError::Malformed(source.unwrap_or_else(|| error.to_string()))
        })?;
        let (mode, check) = mode(&own)?;
        config.ssl_mode(mode);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("outlast");
        }
        config
            .keepalives(true)
            .keepalives_idle(SILENCE)
            .keepalives_interval(SILENCE / 5)
            .keepalives_retries(3)
            .tcp_user_timeout(SILENCE * 2);
        let tls = tls::client(&check, own.root.as_deref())?;
        Ok(Self {
            config,
            tls: tokio_postgres_rustls::MakeRustlsConnect::new(Arc::unwrap_or_clone(tls)),
        })
    }
}

/// Returns the same URL with another database.
pub(super) fn named(url: &str, database: &str) -> String {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, format!("?{query}")),
        None => (url, String::new()),
    };
    let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
    // What stands before the first slash has none: the path of a socket is written as `%2F`.
    let authority = rest
        .split_once('/')
        .map_or(rest, |(authority, _)| authority);
    format!("{scheme}://{authority}/{database}{query}")
}

/// Takes out of a URL what is read here, and refuses by name what nobody keeps.
fn split(url: &str) -> Result<(String, Own), UrlError> {
    let mut own = Own::default();
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), own));
    };
    let mut left = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "sslmode" => own.mode = Some(value.to_owned()),
            "sslrootcert" => own.root = Some(PathBuf::from(decode(value))),
            "sslcert" | "sslkey" | "sslpassword" | "sslcrl" | "sslcrldir" | "gssencmode"
            | "requirepeer" | "service" | "passfile" => {
                return Err(UrlError::Unsupported(key.to_owned()));
            }
            _ => left.push(pair),
        }
    }
    let rest = if left.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", left.join("&"))
    };
    Ok((rest, own))
}

/// Reads `%41` as `A`.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = match byte {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns when to encrypt and what to check, as `libpq` has it.
fn mode(own: &Own) -> Result<(SslMode, Check), UrlError> {
    let root = own.root.is_some();
    Ok(match own.mode.as_deref() {
        Some("disable") => (SslMode::Disable, Check::Nothing),
        None | Some("prefer") => (SslMode::Prefer, Check::Nothing),
        // As everywhere: whoever names certificates wants them used.
        Some("require") if root => (SslMode::Require, Check::Issuer),
        Some("require") => (SslMode::Require, Check::Nothing),
        Some("verify-ca") => (SslMode::Require, Check::Issuer),
        Some("verify-full") => (SslMode::Require, Check::All),
        Some(other) => return Err(UrlError::Unsupported(format!("sslmode={other}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_is_refused_by_name() {
        for (url, words) in [
            ("mysql://a", "must begin with `postgres://`"),
            ("postgres://u:geheim@h/d?sslmode=allow", "`sslmode=allow`"),
            ("postgres://u:geheim@h/d?sslcert=a", "`sslcert`"),
            (
                "postgres://u:geheim@h/d?sslmode=verify-full&sslrootcert=/none",
                "/none",
            ),
            ("postgres://u:geheim@h/d?no_such=1", "no_such"),
            ("postgres://u:geheim@h:port/d", "port"),
        ] {
            let error = Target::parse(url).err().unwrap().to_string();
            assert!(error.contains(words), "{url}: {error}");
            assert!(!error.contains("geheim"), "{error}");
        }
    }

    #[test]
    fn only_the_database_changes() {
        for (url, other) in [
            ("postgres://u:p@h:1/d?a=b", "postgres://u:p@h:1/x?a=b"),
            ("postgresql://u@%2Ftmp", "postgresql://u@%2Ftmp/x"),
            ("postgres:///d?host=/tmp/s", "postgres:///x?host=/tmp/s"),
        ] {
            assert_eq!(named(url, "x"), other);
        }
    }

    #[test]
    fn modes_are_those_that_everybody_knows() {
        for (words, mode) in [
            ("", SslMode::Prefer),
            ("?sslmode=disable", SslMode::Disable),
            ("?sslmode=prefer", SslMode::Prefer),
            ("?sslmode=require", SslMode::Require),
            ("?sslmode=verify-full&connect_timeout=3", SslMode::Require),
        ] {
            let target = Target::parse(&format!("postgres://u@h/d{words}")).unwrap();
            assert_eq!(target.config.get_ssl_mode(), mode, "{words}");
        }
        assert_eq!(decode("/a%20b%2fc%"), "/a b/c%");
    }
}
