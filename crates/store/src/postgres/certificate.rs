//! What is said where the database's certificate was not accepted.

use std::{error::Error as _, io};

use rustls::{CertificateError, Error};

/// Returns the words for a certificate that was refused, if that is what went wrong.
pub(super) fn refusal(error: &tokio_postgres::Error) -> Option<String> {
    let source: &io::Error = error.source()?.downcast_ref()?;
    let Error::InvalidCertificate(why) = source.get_ref()?.downcast_ref()? else {
        return None;
    };
    Some(words(why))
}

fn words(why: &CertificateError) -> String {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what an operator can do something about; the rest has the library's words"
    )]
    match why {
        CertificateError::UnknownIssuer => "nobody that is trusted issued the database's \
                                            certificate: `sslrootcert` names whom to trust"
            .to_owned(),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let (names, host) = (presented.iter().map(|name| bare(name)), expected.to_str());
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            if names.is_empty() {
                return format!(
                    "the database's certificate is for no host at all, and so not for `{host}`: \
                     it has no `subjectAltName`"
                );
            }
            let names = names.join(", ");
            format!("the database's certificate is for {names}, not for `{host}`")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the database's certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the database's certificate is not valid yet; compare the clocks".to_owned()
        }
        other => format!("the database's certificate is not accepted: {other}"),
    }
}

/// Takes a name out of the library's way to write it: `DnsName("db.example")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest);
    inner.trim_end_matches(')').trim_matches('"')
}
