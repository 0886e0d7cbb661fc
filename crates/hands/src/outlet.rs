//! The way out of a hand: one listener inside, and what programs need to find it and to trust it.

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};

/// Where programs inside find the listener, whatever it is outside.
pub const ADDRESS: SocketAddrV4 = outlast_init::outlet::ADDRESS;

/// The authorities that programs inside trust, in one file.
pub const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What a hand has with its way out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Outlet {
    /// What commands find in their environment. Never a secret: everything inside can read it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
    /// The certificate in PEM of an authority that is trusted beside those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}

/// Names of proxies, which programs read in either case.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// Names of what is reached without one.
const DIRECT: &str = "NO_PROXY";

/// Names of files of authorities; a program that knows none of them reads [`BUNDLE`] by itself, or has
/// a store of its own.
const TRUST: [&str; 15] = [
    "AWS_CA_BUNDLE",
    "BUNDLE_SSL_CA_CERT",
    "CARGO_HTTP_CAINFO",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HEX_CACERTS_PATH",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    // In lower case alone, and over the `cafile` of a project's `.npmrc`.
    "npm_config_cafile",
];

impl Outlet {
    /// Returns all that commands find in their environment because of it; of two with one name the
    /// later one counts.
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut found = self.variables.clone();
        found.extend(proxies());
        if self.authority.is_some() {
            let trust = TRUST.map(|name| (name.to_owned(), BUNDLE.to_owned()));
            found.extend(trust);
        }
        found
    }

    /// Returns what apt reads, for whoever runs it without that environment.
    pub fn apt(&self) -> String {
        let proxy = format!("http://{ADDRESS}");
        let mut text = String::new();
        for scheme in ["http", "https"] {
            text.push_str(&format!("Acquire::{scheme}::Proxy \"{proxy}\";\n"));
        }
        if self.authority.is_some() {
            text.push_str(&format!("Acquire::https::CaInfo \"{BUNDLE}\";\n"));
        }
        text
    }
}

/// Returns what leads programs to the listener.
fn proxies() -> Vec<(String, String)> {
    let proxy = format!("http://{ADDRESS}");
    let direct = "localhost,127.0.0.1,::1";
    let named = PROXIES.map(|name| (name, proxy.as_str()));
    let mut found = Vec::new();
    for (name, value) in named.into_iter().chain([(DIRECT, direct)]) {
        found.push((name.to_owned(), value.to_owned()));
        found.push((name.to_lowercase(), value.to_owned()));
    }
    // Node.js reads the others only where this says so.
    found.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cases_lead_to_the_listener_and_placeholders_hide_neither() {
        let stolen = ("https_proxy".to_owned(), "http://elsewhere".to_owned());
        let outlet = Outlet {
            variables: vec![("TOKEN".to_owned(), "placeholder".to_owned()), stolen],
            authority: None,
        };
        let found = outlet.environment();
        let last = |name: &str| {
            let mut named = found.iter().rev();
            named
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(last("TOKEN"), Some("placeholder"));
        for name in ["HTTPS_PROXY", "https_proxy", "http_proxy", "all_proxy"] {
            assert_eq!(last(name), Some("http://127.0.0.1:3128"), "{name}");
        }
        assert_eq!(last("no_proxy"), Some("localhost,127.0.0.1,::1"));
        assert_eq!(last("SSL_CERT_FILE"), None, "there is nobody else to trust");
        assert!(!outlet.apt().contains("CaInfo"), "{}", outlet.apt());
    }

    #[test]
    fn an_authority_is_found_by_every_name() {
        let outlet = Outlet {
            authority: Some("PEM".to_owned()),
            ..Outlet::default()
        };
        let found = outlet.environment();
        for name in TRUST {
            assert!(
                found.contains(&(name.to_owned(), BUNDLE.to_owned())),
                "{name}"
            );
        }
        assert!(outlet.apt().contains(BUNDLE));
    }
}
